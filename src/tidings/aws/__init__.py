# SPDX-License-Identifier: Apache-2.0
"""Requests to services that speak the JSON protocol of AWS: signed, sent once, told apart."""

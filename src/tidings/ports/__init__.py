# SPDX-License-Identifier: Apache-2.0
"""Protocols of the stores, buses and services that the actions use, with their guarantees."""

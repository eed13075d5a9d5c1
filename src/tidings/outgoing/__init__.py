# SPDX-License-Identifier: Apache-2.0
"""Requests to addresses that tenants choose."""

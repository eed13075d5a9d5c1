# SPDX-License-Identifier: Apache-2.0
"""Callers, credentials, tenants and users."""

# SPDX-License-Identifier: Apache-2.0
"""Tenants, users, sessions and keys on DynamoDB."""

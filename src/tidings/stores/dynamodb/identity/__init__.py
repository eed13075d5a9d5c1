# SPDX-License-Identifier: Apache-2.0
"""Tenants, users, sessions, credentials, secrets and the audit trail on DynamoDB."""

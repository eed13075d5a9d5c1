# SPDX-License-Identifier: Apache-2.0
"""Identify callers and manage tenants, users, sessions, tokens, keys and quotas."""

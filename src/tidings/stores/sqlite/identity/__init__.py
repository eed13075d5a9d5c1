# SPDX-License-Identifier: Apache-2.0
"""The identity ports on SQLite: tenants, users, sessions, logins, keys, revocations and audit."""

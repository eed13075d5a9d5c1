# SPDX-License-Identifier: Apache-2.0
"""The inbox ports on SQLite: settings, notifications, copies, delivery jobs and dead letters."""

# SPDX-License-Identifier: Apache-2.0
"""The embedded store: SQLite in one folder, one process, group commit."""

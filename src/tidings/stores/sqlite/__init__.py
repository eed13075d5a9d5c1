# SPDX-License-Identifier: Apache-2.0
"""The embedded engine: one SQLite file in one folder, used by one process, with group commit."""

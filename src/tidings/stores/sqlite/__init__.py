# SPDX-License-Identifier: Apache-2.0
"""The embedded engine: one SQLite file, used by one process, which commits writes in groups."""

# SPDX-License-Identifier: Apache-2.0
"""Backups of the embedded store: pages of the database, stored once, and lists of them."""

# SPDX-License-Identifier: Apache-2.0
"""Delivers stored entries and notifications to connections, and sends push notices."""

# SPDX-License-Identifier: Apache-2.0
"""Delivers stored entries and notifications to connections, sends push notices, deletes chats."""

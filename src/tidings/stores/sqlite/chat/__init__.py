# SPDX-License-Identifier: Apache-2.0
"""The chat ports on SQLite: logs, chats, members, invitations, receipts and deletions."""

# SPDX-License-Identifier: Apache-2.0
"""Chats on DynamoDB: the log, members, receipts, invitations and the chat list."""

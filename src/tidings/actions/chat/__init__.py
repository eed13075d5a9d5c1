# SPDX-License-Identifier: Apache-2.0
"""What users do in chats: create, send, read, join, leave."""

# SPDX-License-Identifier: Apache-2.0
"""Everything users do in chats: create, send, edit, read, invite, join, leave and delete."""

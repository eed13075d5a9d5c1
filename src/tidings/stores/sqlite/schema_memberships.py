# SPDX-License-Identifier: Apache-2.0
"""What makes chat lists cheap: the members of a chat in the order of their joining.

A chat in a list shows its first ten members. Without the index all thousand of a large group would
be sorted for it, and a list has a hundred chats.
"""

from typing import Final

MEMBERS_BY_JOINING: Final = """
CREATE INDEX chat_memberships_by_joining ON chat_memberships (chat_id, joined, user_id);
"""

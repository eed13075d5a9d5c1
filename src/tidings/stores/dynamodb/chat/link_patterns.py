# SPDX-License-Identifier: Apache-2.0
"""The access patterns of replies, pins and mentions."""

from typing import Final

from tidings.stores.dynamodb.client.access import Pattern

READ_REPLIES: Final = Pattern(
    "read_replies", "Query", ("reactions",), "which messages answer a message", strong=True
)
READ_PINS: Final = Pattern(
    "read_pins", "Query", ("reactions",), "the pinned messages of a chat", strong=True
)
LIST_MENTIONS: Final = Pattern(
    "list_mentions", "Query", ("idempotency_keys",), "the messages that mention a user", strong=True
)
CHECK_MEMBERS: Final = Pattern(
    "check_members",
    "BatchGetItem",
    ("chat_memberships",),
    "of which of several chats a user is a member",
    strong=True,
)
IMPORT_LINK: Final = Pattern(
    "import_link", "PutItem", ("reactions",), "an import lists replies and pinned messages"
)

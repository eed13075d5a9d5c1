# SPDX-License-Identifier: Apache-2.0
"""The access patterns of head copies and of the copies of last messages."""

from typing import Final

from tidings.stores.dynamodb.client.access import Pattern

READ_HEADS: Final = Pattern(
    "read_heads", "BatchGetItem", ("chats",), "the heads of a user's groups", strong=True
)
ADVANCE_HEAD: Final = Pattern(
    "advance_head",
    "UpdateItem",
    ("chats",),
    "record how far the log of a group was delivered, with its last message",
)
ADVANCE_DIRECT_HEAD: Final = Pattern(
    "advance_direct_head",
    "UpdateItem",
    ("delivery_state",),
    "the same for a direct chat, in the row of each of its users",
)
TOUCH_PREVIEW: Final = Pattern(
    "touch_preview", "UpdateItem", ("chats",), "remove the copy of a message that is to be changed"
)
TOUCH_DIRECT_PREVIEW: Final = Pattern(
    "touch_direct_preview", "UpdateItem", ("delivery_state",), "the same in a direct chat"
)
CHECK_HEADS: Final = Pattern(
    "check_heads",
    "BatchGetItem",
    ("chats",),
    "how far each chat was delivered: the relay and new workers skip these entries",
    strong=True,
)
CHECK_DIRECT_HEADS: Final = Pattern(
    "check_direct_heads",
    "BatchGetItem",
    ("delivery_state",),
    "how far each direct chat was delivered",
    strong=True,
)

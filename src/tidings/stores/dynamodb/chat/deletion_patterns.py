# SPDX-License-Identifier: Apache-2.0
"""Access patterns for the deletion of chats."""

from typing import Final

from tidings.stores.dynamodb.client.access import Pattern

DELETE_CHAT: Final = Pattern(
    "delete_chat",
    "TransactWriteItems",
    ("messages", "chats", "tenants"),
    "the last entry of a chat, and the job that removes the rest",
    deletes=("chats",),
)
FIND_DELETION: Final = Pattern(
    "find_deletion",
    "GetItem",
    ("tenants",),
    "the job that deletes a chat, and its progress",
    strong=True,
)
LIST_DELETIONS: Final = Pattern(
    "list_deletions", "Query", ("tenants",), "unfinished jobs that delete chats", strong=True
)
MOVE_DELETION: Final = Pattern(
    "move_deletion", "UpdateItem", ("tenants",), "record the progress of a job and renew its lease"
)
FINISH_DELETION: Final = Pattern(
    "finish_deletion", "DeleteItem", ("tenants",), "a job that deletes a chat is finished"
)
FORGET_RECEIPTS: Final = Pattern(
    "forget_receipts",
    "BatchWriteItem",
    ("delivery_state",),
    "remove a deleted chat from chat lists",
)
FORGET_MEMBERS: Final = Pattern(
    "forget_members",
    "BatchWriteItem",
    ("chat_memberships",),
    "remove the members of a deleted chat",
)
FORGET_CHAT: Final = Pattern(
    "forget_chat",
    "UpdateItem",
    ("chats",),
    "remove the name and the member count of a deleted chat",
)
UNLIST_CHAT: Final = Pattern(
    "unlist_chat", "DeleteItem", ("listings",), "remove a deleted chat from its tenant's list"
)
LIST_CLAIMS: Final = Pattern(
    "list_claims", "Query", ("idempotency_keys",), "claimed keys of a deleted chat", strong=True
)
FORGET_CLAIMS: Final = Pattern(
    "forget_claims",
    "BatchWriteItem",
    ("idempotency_keys",),
    "delete the claimed keys of a deleted chat",
)
FORGET_BODIES: Final = Pattern(
    "forget_bodies", "BatchWriteItem", ("bodies",), "delete the expiring contents of a deleted chat"
)
EMPTY_ENTRY: Final = Pattern(
    "empty_entry", "UpdateItem", ("messages",), "empty an entry of a deleted chat"
)

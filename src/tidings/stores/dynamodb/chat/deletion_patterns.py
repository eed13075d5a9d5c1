# SPDX-License-Identifier: Apache-2.0
"""The access patterns of deleting chats."""

from typing import Final

from tidings.stores.dynamodb.client.access import Pattern

DELETE_CHAT: Final = Pattern(
    "delete_chat",
    "TransactWriteItems",
    ("messages", "chats", "tenants"),
    "the last entry of a chat, and the job that removes the rest of it",
    deletes=("chats",),
)
FIND_DELETION: Final = Pattern(
    "find_deletion", "GetItem", ("tenants",), "how far a chat is deleted", strong=True
)
LIST_DELETIONS: Final = Pattern(
    "list_deletions", "Query", ("tenants",), "chats that are still to be deleted", strong=True
)
MOVE_DELETION: Final = Pattern(
    "move_deletion", "UpdateItem", ("tenants",), "who deletes a chat, and how far it is"
)
FINISH_DELETION: Final = Pattern(
    "finish_deletion", "DeleteItem", ("tenants",), "nothing of a chat is left to be deleted"
)
FORGET_RECEIPTS: Final = Pattern(
    "forget_receipts", "BatchWriteItem", ("delivery_state",), "a deleted chat leaves chat lists"
)
FORGET_MEMBERS: Final = Pattern(
    "forget_members", "BatchWriteItem", ("chat_memberships",), "nobody is in a deleted chat"
)
FORGET_CHAT: Final = Pattern(
    "forget_chat", "UpdateItem", ("chats",), "a deleted chat has no name and no members"
)
LIST_CLAIMS: Final = Pattern(
    "list_claims", "Query", ("idempotency_keys",), "claimed keys of a deleted chat", strong=True
)
FORGET_CLAIMS: Final = Pattern(
    "forget_claims", "BatchWriteItem", ("idempotency_keys",), "no send is recognised any more"
)
FORGET_BODIES: Final = Pattern(
    "forget_bodies", "BatchWriteItem", ("bodies",), "content that would have expired"
)
EMPTY_ENTRY: Final = Pattern(
    "empty_entry", "UpdateItem", ("messages",), "an entry of a deleted chat keeps its place only"
)

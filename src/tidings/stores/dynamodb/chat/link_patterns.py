# SPDX-License-Identifier: Apache-2.0
"""The access patterns of replies, pins, mentions, uploads, and of the search index."""

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
READ_INDEX_STATE: Final = Pattern(
    "read_index_state",
    "GetItem",
    ("idempotency_keys",),
    "how far the search index of a chat reaches",
    strong=True,
)
READ_SETTLED_LOG: Final = Pattern(
    "read_settled_log", "Query", ("messages",), "entries that have not changed for a while"
)
READ_SEGMENTS: Final = Pattern(
    "read_segments", "Query", ("idempotency_keys",), "the search index of a chat"
)
READ_CHANGED_SEGMENTS: Final = Pattern(
    "read_changed_segments",
    "Query",
    ("idempotency_keys",),
    "the search index of a chat, right after a change",
    strong=True,
)
PUT_SEGMENT: Final = Pattern(
    "put_segment", "PutItem", ("idempotency_keys",), "words of a chat are indexed"
)
FORGET_INDEX: Final = Pattern(
    "forget_index", "BatchWriteItem", ("idempotency_keys",), "the search index of a chat ends"
)
RELEASE_KEY: Final = Pattern(
    "release_key", "DeleteItem", ("idempotency_keys",), "a reply that was declined had no effect"
)

_UPLOADS: Final = ("reactions",)

PUT_UPLOAD: Final = Pattern(
    "put_upload", "PutItem", _UPLOADS, "a new upload, and the time of its next visit"
)
READ_UPLOAD: Final = Pattern("read_upload", "GetItem", _UPLOADS, "one upload", strong=True)
READ_UPLOADS: Final = Pattern(
    "read_uploads", "BatchGetItem", _UPLOADS, "the uploads that a message names", strong=True
)
CHANGE_UPLOAD: Final = Pattern(
    "change_upload", "UpdateItem", _UPLOADS, "a part of an upload is stored"
)
KEEP_BYTES: Final = Pattern(
    "keep_bytes", "UpdateItem", _UPLOADS, "the bytes of a reported file are kept for longer"
)
LIST_UPLOADS: Final = Pattern(
    "list_uploads", "Query", _UPLOADS, "the uploads of a user whose content is erased", strong=True
)
LIST_VISITS: Final = Pattern("list_visits", "Query", _UPLOADS, "uploads whose visit is due")
KEEP_VISITS: Final = Pattern(
    "keep_visits", "BatchWriteItem", _UPLOADS, "the next visits of uploads, and those that are over"
)
SCAN_UPLOADS: Final = Pattern("scan_uploads", "Scan", _UPLOADS, "an export needs every upload")
IMPORT_UPLOAD: Final = Pattern(
    "import_upload", "PutItem", _UPLOADS, "an import writes uploads and their visits"
)
FORGET_UPLOAD: Final = Pattern(
    "forget_upload", "DeleteItem", _UPLOADS, "remove an upload whose bytes are deleted"
)

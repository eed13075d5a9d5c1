# SPDX-License-Identifier: Apache-2.0
"""The access patterns of items that become due, and of scheduled messages."""

from typing import Final

from tidings.stores.dynamodb.client.access import Pattern

_INBOX: Final = ("inbox",)

PUT_DUE: Final = Pattern("put_due", "PutItem", _INBOX, "something becomes due at a time")
DROP_DUE: Final = Pattern("drop_due", "DeleteItem", _INBOX, "what was due is done or cancelled")
DROP_ALL_DUE: Final = Pattern(
    "drop_all_due", "BatchWriteItem", _INBOX, "what was due is done, many items at once"
)
READ_DUE: Final = Pattern(
    "read_due", "Query", _INBOX, "what is due in ten minutes of a shard; read every second"
)
CHECK_DUE: Final = Pattern(
    "check_due", "Query", _INBOX, "whether ten minutes of a shard are done", strong=True
)
BEGIN_DUE: Final = Pattern(
    "begin_due", "UpdateItem", _INBOX, "the first ten minutes for which the deployment has an item"
)
FIND_DUE: Final = Pattern(
    "find_due", "GetItem", _INBOX, "a verification checks that something becomes due", strong=True
)
READ_SHARDS: Final = Pattern(
    "read_shards", "Query", _INBOX, "which processes have which shards of due items", strong=True
)
LEASE_SHARD: Final = Pattern(
    "lease_shard", "UpdateItem", _INBOX, "a process leases a shard, or keeps its lease"
)
JOIN_SHARDS: Final = Pattern(
    "join_shards", "PutItem", _INBOX, "a process wants its share of the shards"
)
LEAVE_SHARDS: Final = Pattern(
    "leave_shards", "DeleteItem", _INBOX, "a process that ends wants no shards any more"
)

COUNT_SCHEDULED: Final = Pattern(
    "count_scheduled", "UpdateItem", _INBOX, "a user's message is scheduled, if not too many are"
)
RECOUNT_SCHEDULED: Final = Pattern(
    "recount_scheduled", "Query", _INBOX, "which of a user's messages are pending", strong=True
)
KEEP_SCHEDULED: Final = Pattern(
    "keep_scheduled", "PutItem", _INBOX, "a scheduled message is stored, changed, sent or failed"
)
READ_SCHEDULED: Final = Pattern(
    "read_scheduled", "GetItem", _INBOX, "a scheduled message", strong=True
)
LIST_SCHEDULED: Final = Pattern(
    "list_scheduled", "Query", _INBOX, "a user's scheduled messages", strong=True
)
FIRE_SCHEDULED: Final = Pattern(
    "fire_scheduled", "UpdateItem", _INBOX, "a scheduled message is about to be sent"
)
FORGET_SCHEDULED: Final = Pattern(
    "forget_scheduled", "BatchWriteItem", _INBOX, "remove the scheduled messages of a deleted user"
)

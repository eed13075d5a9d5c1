# SPDX-License-Identifier: Apache-2.0
"""Access patterns for tenants' jobs, for parts of exports, and for the data that jobs remove."""

from typing import Final

from tidings.stores.dynamodb.client.access import Pattern

CREATE_JOB: Final = Pattern(
    "create_job", "TransactWriteItems", ("tenants",), "a job of a tenant, listed as unfinished"
)
FIND_JOB: Final = Pattern(
    "find_job", "GetItem", ("tenants",), "a job of a tenant and its progress", strong=True
)
LIST_JOBS: Final = Pattern(
    "list_jobs", "Query", ("tenants",), "unfinished jobs of tenants", strong=True
)
MOVE_JOB: Final = Pattern(
    "move_job", "UpdateItem", ("tenants",), "record the progress of a job and renew its lease"
)
UNLIST_JOB: Final = Pattern(
    "unlist_job", "DeleteItem", ("tenants",), "a job is finished, or its result has expired"
)
KEEP_EXPORT_PART: Final = Pattern(
    "keep_export_part", "PutItem", ("sessions",), "a part of a person's export"
)
READ_EXPORT_PART: Final = Pattern(
    "read_export_part", "GetItem", ("sessions",), "a part of a person's export", strong=True
)

# The data of a deleted user.

FORGET_SESSIONS: Final = Pattern(
    "forget_sessions",
    "BatchWriteItem",
    ("sessions",),
    "remove the sessions and the login code of a deleted user",
)
LIST_PERSONAL_CLAIMS: Final = Pattern(
    "list_personal_claims",
    "Query",
    ("idempotency_keys",),
    "invitations of a deleted user, or keys of the user's requests",
    strong=True,
)
FORGET_PERSONAL_CLAIMS: Final = Pattern(
    "forget_personal_claims",
    "BatchWriteItem",
    ("idempotency_keys",),
    "remove invitations of a deleted user, or keys of the user's requests",
)
FORGET_COPIES: Final = Pattern(
    "forget_copies",
    "BatchWriteItem",
    ("inbox",),
    "remove the notifications and read marks of a deleted user",
)

# The ledger of erasures.

RECORD_ERASURE: Final = Pattern(
    "record_erasure", "UpdateItem", ("keys",), "record an erasure where no restore removes it"
)
NOTE_ERASURE: Final = Pattern(
    "note_erasure", "PutItem", ("tenants",), "note that the store knows an erasure"
)
LIST_ERASURES: Final = Pattern(
    "list_erasures", "Query", ("tenants",), "the erasures that the store knows", strong=True
)
SCAN_ERASURES: Final = Pattern(
    "scan_erasures", "Scan", ("keys",), "after a restore, all erasures of the ledger", strong=True
)

# The data of a deleted inbox or tenant.

FORGET_INBOX: Final = Pattern(
    "forget_inbox", "BatchWriteItem", ("inbox",), "remove a deleted inbox, or a tenant's settings"
)
LIST_TENANT_ITEMS: Final = Pattern(
    "list_tenant_items", "Query", ("tenants",), "the items of a deleted tenant", strong=True
)
FORGET_TENANT_ITEM: Final = Pattern(
    "forget_tenant_item", "DeleteItem", ("tenants",), "remove a key of a deleted tenant"
)
KEEP_MARK: Final = Pattern(
    "keep_mark", "PutItem", ("tenants",), "remove everything of a deleted tenant but its mark"
)
LIST_TENANT_KEYS: Final = Pattern(
    "list_tenant_keys", "Query", ("listings",), "the listed keys of a deleted tenant", strong=True
)
UNLIST: Final = Pattern(
    "unlist", "DeleteItem", ("listings",), "remove a deleted tenant and its keys from lists"
)

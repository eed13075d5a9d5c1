# SPDX-License-Identifier: Apache-2.0
"""Access patterns for identity, the audit trail, tenants' jobs, and the data that jobs remove."""

from typing import Final

from tidings.stores.dynamodb.client.access import Pattern

_AUDIT: Final = ("audit",)

APPEND_AUDIT: Final = Pattern(
    "append_audit", "PutItem", _AUDIT, "record an administrative action before it is carried out"
)
COMPLETE_AUDIT: Final = Pattern(
    "complete_audit", "UpdateItem", _AUDIT, "record the outcome of an administrative action"
)
READ_AUDIT: Final = Pattern(
    "read_audit", "Query", _AUDIT, "a tenant's actions in one month, newest first", strong=True
)
READ_ALL_AUDIT: Final = Pattern(
    "read_all_audit",
    "Query",
    _AUDIT,
    "all actions in one month, newest first; an export reads them in ascending order",
    index="all_acts-index",
)


_SESSIONS: Final = ("sessions",)
_USERS: Final = ("users",)
_TENANTS: Final = ("tenants",)
_LISTINGS: Final = ("listings",)

ADD_REPORT: Final = Pattern(
    "add_report",
    "TransactWriteItems",
    ("idempotency_keys",),
    "a report, and the claim of its reporter to have made it",
)
CHANGE_REPORT: Final = Pattern(
    "change_report",
    "TransactWriteItems",
    ("idempotency_keys",),
    "a report gets another state",
    deletes=("idempotency_keys",),
)
FIND_REPORT: Final = Pattern(
    "find_report", "BatchGetItem", ("idempotency_keys",), "a report in any state", strong=True
)
LIST_REPORTS: Final = Pattern(
    "list_reports", "Query", ("idempotency_keys",), "a tenant's reports in one state, newest first"
)
READ_REPORTED: Final = Pattern(
    "read_reported", "GetItem", ("idempotency_keys",), "whether a user made the same report before",
    strong=True,
)  # fmt: skip
READ_BLOCKS: Final = Pattern(
    "read_blocks", "Query", _TENANTS, "whom a user blocks, and who blocks the user", strong=True
)
FIND_BLOCKERS: Final = Pattern(
    "find_blockers",
    "BatchGetItem",
    _TENANTS,
    "which of some users block a user whom very many block",
    strong=True,
)

# Sessions.

OPEN_SESSION: Final = Pattern("open_session", "PutItem", _SESSIONS, "a user logs in on a device")
READ_SESSION: Final = Pattern("read_session", "GetItem", _SESSIONS, "one session", strong=True)
ROTATE_SESSION: Final = Pattern(
    "rotate_session", "PutItem", _SESSIONS, "a refresh token is replaced by the next one"
)
LIST_SESSIONS: Final = Pattern(
    "list_sessions",
    "Query",
    _SESSIONS,
    "a user's sessions",
    index="user_sessions-index",
)
CHECK_SESSIONS: Final = Pattern(
    "check_sessions",
    "BatchGetItem",
    _SESSIONS,
    "which sessions of a deleted user still exist: the index may lag",
    strong=True,
)
CHECK_USER: Final = Pattern(
    "check_user", "GetItem", _USERS, "whether a user's credentials are still valid", strong=True
)

# Logins.

KEEP_CODE: Final = Pattern("keep_code", "PutItem", _SESSIONS, "a code is about to be sent")
READ_CODE: Final = Pattern(
    "read_code",
    "GetItem",
    _SESSIONS,
    "the previous code, in case the next one is not sent",
    strong=True,
)
RESTORE_CODE: Final = Pattern(
    "restore_code", "PutItem", _SESSIONS, "a code could not be sent: the previous one stays valid"
)
COUNT_ATTEMPT: Final = Pattern(
    "count_attempt", "UpdateItem", _SESSIONS, "an attempt at a code, counted before it is compared"
)
USE_CODE: Final = Pattern("use_code", "UpdateItem", _SESSIONS, "a correct code is used up")
SPEND: Final = Pattern(
    "spend", "TransactWriteItems", _SESSIONS, "charge one text to every budget, or to none"
)
GIVE_BACK: Final = Pattern(
    "give_back", "TransactWriteItems", _SESSIONS, "return a charge for a text that was not sent"
)
ADD_UP: Final = Pattern("add_up", "UpdateItem", _SESSIONS, "add to a tenant's use of today")
READ_BUDGETS: Final = Pattern(
    "read_budgets", "BatchGetItem", _SESSIONS, "how much of its quotas a tenant has used today"
)

# Numbers and users.

FIND_NUMBER: Final = Pattern(
    "find_number", "GetItem", _USERS, "the user who has a phone number", strong=True
)
FIND_NUMBERS: Final = Pattern(
    "find_numbers", "BatchGetItem", _USERS, "which contacts are users", strong=True
)
CLAIM_NUMBER: Final = Pattern(
    "claim_number",
    "TransactWriteItems",
    ("users", "listings"),
    "a user, perhaps a new one, gets a first phone number",
)
VERIFY_NUMBER: Final = Pattern(
    "verify_number", "UpdateItem", _USERS, "a user proved a number that the tenant had set"
)
REACTIVATE_USER: Final = Pattern("reactivate_user", "UpdateItem", _USERS, "a user is reactivated")

# Tenants.

RESUME_TENANT: Final = Pattern(
    "resume_tenant", "UpdateItem", _TENANTS, "a suspended tenant is resumed"
)
SET_QUOTAS: Final = Pattern("set_quotas", "UpdateItem", _TENANTS, "set a tenant's quotas")
ADD_SIGNING_KEY: Final = Pattern(
    "add_signing_key", "PutItem", _TENANTS, "the next key that signs a tenant's tokens"
)
READ_ISSUER: Final = Pattern(
    "read_issuer",
    "GetItem",
    _TENANTS,
    "the keys with which a tenant signs tokens itself",
    strong=True,
)

# Lists.

ADD_LISTING: Final = Pattern(
    "add_listing", "PutItem", _LISTINGS, "list a new tenant key or user, before it is created"
)
READ_LISTING: Final = Pattern(
    "read_listing",
    "Query",
    _LISTINGS,
    "list tenants, tenant keys, users or chats",
    strong=True,
)
SHOW_LISTED: Final = Pattern(
    "show_listed", "BatchGetItem", _TENANTS, "the tenants or tenant keys of a list", strong=True
)

# Export and import.

SCAN_SESSIONS: Final = Pattern(
    "scan_sessions",
    "Scan",
    _SESSIONS,
    "an export lists sessions; checks that a store is empty",
    strong=True,
)
EXPORT_SESSIONS: Final = Pattern(
    "export_sessions", "BatchGetItem", _SESSIONS, "an export reads sessions", strong=True
)
IMPORT_SESSION: Final = Pattern("import_session", "PutItem", _SESSIONS, "an import writes sessions")
FILL_LISTING: Final = Pattern(
    "fill_listing", "PutItem", _LISTINGS, "an import, or an upgrade, lists what exists"
)


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

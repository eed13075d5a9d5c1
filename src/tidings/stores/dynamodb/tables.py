# SPDX-License-Identifier: Apache-2.0
"""The only declaration of the tables.

It is used to create and check the tables. The CloudFormation and Terraform files, the alarms, the
rights of each role and a page in the docs are generated from it. A table's real name is the
deployment's prefix followed by the name below. The access patterns, in `patterns.py` and in the
pattern files of single subjects, name the index that a request reads.
"""

from dataclasses import dataclass, replace
from typing import Final, Literal

KeyType = Literal["S", "N"]
Projection = Literal["ALL", "KEYS_ONLY"]
StreamView = Literal["KEYS_ONLY", "NEW_IMAGE", "OLD_IMAGE", "NEW_AND_OLD_IMAGES"]

TTL: Final = "ttl"
"""Attribute with the expiry of an item, in seconds. DynamoDB deletes the item some time after its
expiry, so reads also check `expires_at`, in milliseconds."""

PITR_DAYS: Final = 35
"""Days that point-in-time recovery reaches back."""
BACKUP_DAYS: Final = 90
KEY_BACKUP_DAYS: Final = 7
"""Days for which backups may still contain a destroyed data key. No other data contains it."""


@dataclass(frozen=True, slots=True)
class TableKey:
    """One attribute of a primary key."""

    name: str
    type: KeyType = "S"


@dataclass(frozen=True, slots=True)
class Index:
    """A global secondary index: eventually consistent, and updated by each write of an item."""

    name: str
    partition: TableKey
    sort: TableKey | None = None
    projection: Projection = "ALL"


@dataclass(frozen=True, slots=True)
class Range:
    """Capacity units per second: the minimum that is always provisioned, and the maximum."""

    least: int
    most: int


@dataclass(frozen=True, slots=True)
class Provisioned:
    """Capacity that is paid by the hour; the table and each of its indexes have the same range."""

    read: Range
    write: Range


@dataclass(frozen=True, slots=True)
class Table:
    """Declaration of a table, with every setting that is compared with the table in the account."""

    name: str
    holds: str
    partition: TableKey
    sort: TableKey | None = None
    indexes: tuple[Index, ...] = ()
    capacity: Provisioned | None = None
    """Provisioned capacity, or None if the table is billed on demand."""
    ttl: str | None = None
    stream: StreamView | None = None
    pitr: bool = True
    backup_days: int | None = BACKUP_DAYS
    """Days for which each daily backup is kept, or None if there are no backups."""


_CHAT: Final = TableKey("chat_id")
_USER: Final = TableKey("user_id")

MESSAGES: Final = Table(
    name="messages",
    holds="the log of each chat: one item for each entry or pack of messages, never deleted",
    partition=_CHAT,
    sort=TableKey("sequence", "N"),
    stream="KEYS_ONLY",
)
BODIES: Final = Table(
    name="bodies",
    holds="the content of expiring messages; its stream tells the relay when TTL deleted one",
    partition=_CHAT,
    sort=TableKey("body_id"),
    ttl=TTL,
    stream="KEYS_ONLY",
    backup_days=None,
)
IDEMPOTENCY_KEYS: Final = Table(
    name="idempotency_keys",
    holds="claimed keys: of sends under the chat, of requests to create a chat under `r#<user>`;"
    " invitations under `i#<user>`; the mentions of a user under `m#<user>`; the search index of a"
    " chat under `s#<chat>`",
    partition=_CHAT,
    sort=TableKey("claim"),
    ttl=TTL,
    backup_days=None,
)
CHATS: Final = Table(
    name="chats",
    holds="each chat's type, name, creator and member count; of a group also the head and a copy of"
    " the last message; the claim of a pair under `d#`",
    partition=_CHAT,
)
CHAT_MEMBERSHIPS: Final = Table(
    name="chat_memberships",
    holds="the members of each chat: role, time of joining, end of muting",
    partition=_CHAT,
    sort=_USER,
    indexes=(Index("user_chats-index", partition=_USER, sort=_CHAT),),
)
REACTIONS: Final = Table(
    name="reactions",
    holds="the reactions to each message, one item each; its replies under `<message>#replies`;"
    " the pinned messages of a chat under `<chat>#pins`; the uploads of a user under `a#<user>`,"
    " and the visits of the sweeper to uploads under `v#`",
    partition=TableKey("message_id"),
    sort=TableKey("reaction"),
)
DELIVERY_STATE: Final = Table(
    name="delivery_state",
    holds="a user's chats and receipts: how far received and how far read; of a direct chat also"
    " the head and a copy of the last message",
    partition=_USER,
    sort=_CHAT,
)
USERS: Final = Table(
    name="users",
    holds="profiles and last-seen times; the claim of a phone number under `p#`",
    partition=_USER,
)
SESSIONS: Final = Table(
    name="sessions",
    holds="users' sessions; login codes under `c#`, used SMS budgets under `b#`",
    partition=TableKey("session_id"),
    indexes=(Index("user_sessions-index", partition=_USER),),
    ttl=TTL,
    backup_days=None,
)
KEYS: Final = Table(
    name="keys",
    holds="each author's encrypted data key; kept apart so that a destroyed key stays destroyed",
    partition=TableKey("author"),
    pitr=False,
    backup_days=KEY_BACKUP_DAYS,
)
TENANTS: Final = Table(
    name="tenants",
    holds="tenants, signing keys, tenant keys by id, revocations, values of the deployment,"
    " jobs that delete a chat",
    partition=TableKey("pk"),
    sort=TableKey("sk"),
)
INBOX: Final = Table(
    name="inbox",
    holds="inboxes, notifications, each user's copies and read marks, jobs of a single process",
    partition=TableKey("pk"),
    sort=TableKey("sk"),
    ttl=TTL,
)
LISTINGS: Final = Table(
    name="listings",
    holds="lists of tenants, tenant keys, users and chats: a small item for each, in order",
    partition=TableKey("pk"),
    sort=TableKey("sk"),
)
AUDIT: Final = Table(
    name="audit",
    holds="the audit trail: administrative actions by tenant and month; nobody can delete one",
    partition=TableKey("pk"),
    sort=TableKey("sk"),
    indexes=(Index("all_acts-index", partition=TableKey("month"), sort=TableKey("sk")),),
    ttl=TTL,
)

TABLES: Final[tuple[Table, ...]] = (
    MESSAGES,
    BODIES,
    IDEMPOTENCY_KEYS,
    CHATS,
    CHAT_MEMBERSHIPS,
    REACTIONS,
    DELIVERY_STATE,
    USERS,
    SESSIONS,
    KEYS,
    TENANTS,
    INBOX,
    AUDIT,
    LISTINGS,
)

RANGES: Final = {
    CHATS.name: Provisioned(read=Range(30, 3_000), write=Range(5, 500)),
    CHAT_MEMBERSHIPS.name: Provisioned(read=Range(50, 5_000), write=Range(5, 500)),
    USERS.name: Provisioned(read=Range(20, 2_000), write=Range(5, 500)),
    SESSIONS.name: Provisioned(read=Range(10, 1_000), write=Range(5, 500)),
}
"""Capacity of the tables whose load changes slowly, if a deployment chooses to provision it."""

CapacityMode = Literal["on-demand", "provisioned"]


def tables_in(mode: CapacityMode) -> tuple[Table, ...]:
    """Return the tables of a deployment that pays on demand or for provisioned capacity.

    On demand is the default. It costs less, unless the load is far larger and steadier than the
    capacity planner assumes by default. In a provisioned deployment, a table without an entry in
    `RANGES` is still on demand, because its peaks are too far above its average.
    """
    if mode == "on-demand":
        return TABLES
    return tuple(replace(table, capacity=RANGES.get(table.name)) for table in TABLES)


def ttl_seconds(expires_at: int) -> int:
    """Convert an expiry in milliseconds to a TTL in seconds, rounded up."""
    return -(-expires_at // 1_000)


def invites_of(user: str) -> str:
    """Return the partition of a user's invitations in the table of claimed keys.

    The `#` distinguishes it from partitions whose name is a chat id.
    """
    return f"i#{user}"


def mentions_of(user: str) -> str:
    """Return the partition of the messages that mention a user, in the table of claimed keys.

    The `#` distinguishes it from partitions whose name is a chat id.
    """
    return f"m#{user}"


REPORTS: Final = "report#"


def reports_of(tenant: str, part: str) -> str:
    """Return the partition of a tenant's reports in one state, or of the claims of one reporter, in
    the table of claimed keys.

    The `#` distinguishes it from partitions whose name is a chat id.
    """
    return f"{REPORTS}{tenant}#{part}"


def index_of(chat: str) -> str:
    """Return the partition of the search index of a chat, in the table of claimed keys.

    The `#` distinguishes it from partitions whose name is a chat id.
    """
    return f"s#{chat}"


def request_keys_of(user: str) -> str:
    """Return the partition of a user's request keys in the table of claimed keys.

    The `#` distinguishes it from partitions whose name is a chat id.
    """
    return f"r#{user}"

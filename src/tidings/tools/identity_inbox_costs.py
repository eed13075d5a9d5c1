# SPDX-License-Identifier: Apache-2.0
"""Units that each use case of identity and the inbox takes, by access pattern.

A contract test compares every figure with the units that a real engine reports. The process has
the tenant and its signing key in its cache and follows the feed of revocations. A session's item
is written twice: in its table and in the index that lists a user's sessions.

A contract test compares every figure with the units that a real engine reports. The inbox is in
the process's cache. Each process that uses an inbox reads its settings and its log again at most
once per second, however many requests it gets.
"""

import math
from typing import Final

from tidings.model import limits
from tidings.tools.charges import Charge, Units, relaxed_units, strong_units, write_units
from tidings.tools.chat_costs import BATCH_ITEMS_MAX, Cost

TABLE: Final = "inbox"
BODY_BYTES: Final = 230
"""Size of the item of a notification or broadcast: with encryption, without the text."""
COPY_BYTES: Final = 136
JOB_BYTES: Final = 250
JOB_USER_BYTES: Final = 28
BATCH_JOBS_MAX: Final = 25
QUEUE: Final = frozenset({"put_jobs", "take_jobs", "delete_job"})
"""Access patterns of a deployment that stores its delivery jobs in DynamoDB: a single process."""

SESSION_BYTES: Final = 360
"""Size of a session's item after a refresh, with names and digests."""
CODE_BUDGETS: Final = 6
"""Budgets that a code to a user's number spends in one transaction: number, prefix, country,
tenant, deployment. A code to a number without a user spends three more."""
ADDRESS_BUDGETS: Final = 2
"""Budgets of the caller's address: for some minutes, and for the day."""
REDEEMED_BUDGETS: Final = 2
"""Budgets that a redeemed code gives back: prefix and country."""
REDEEMED_BUDGETS_NEW: Final = 3
"""The same for a new user, who also gets back the number's budget across all tenants."""
LISTING_BYTES: Final = 60
"""Size of the item of a user or chat in a list."""
LISTING_SHARDS: Final = 4
IN_TRANSACTION: Final = 2
IN_INDEX: Final = 2
"""An item that is also in an index is written twice."""


def _inbox_writes(pattern: str, units: float, requests: float = 1) -> Charge:
    return Charge(pattern, TABLE, Units(write=units), requests)


def _inbox_reads(pattern: str, units: float, requests: float = 1) -> Charge:
    return Charge(pattern, TABLE, Units(read=units), requests)


def post(users: int, content: int, *, in_store: bool = False) -> Cost:
    """Return the cost of a post to listed users until each has a copy.

    The delivery jobs are in the store, or in Kafka or SQS.
    """
    portions = math.ceil(users / limits.JOB_USERS_MAX)
    each = JOB_BYTES + JOB_USER_BYTES * min(users, limits.JOB_USERS_MAX)
    jobs = portions * write_units(each)
    put = _inbox_writes("put_jobs", jobs, math.ceil(portions / BATCH_JOBS_MAX))
    queue = [
        _inbox_reads("take_jobs", strong_units(portions * each)),
        _inbox_writes("delete_job", jobs, portions),
    ]
    return Cost(
        [
            _inbox_writes("put_notification", write_units(BODY_BYTES + content)),
            *([put] if in_store else ()),
        ],
        [
            _inbox_writes("deliver_copy", users, users),
            _inbox_writes("finish_portion", portions, portions),
            *(queue if in_store else ()),
        ],
    )


def post_to_everyone(content: int, *, has_key: bool) -> Cost:
    """Return the cost of a broadcast: one write, however many users there are.

    After it, the previous entry is allowed to expire.
    """
    claim = [_inbox_writes("claim_post_key", 1)] if has_key else []
    announced = _inbox_writes("append_broadcast", write_units(BODY_BYTES + content))
    return Cost(
        [*claim, _inbox_reads("show_user_count", 0.5), announced],
        [_inbox_writes("let_go", 1)],
    )


def redact(content: int, *, is_for_everyone: bool) -> Cost:
    """Return the cost of a retraction, however many users have a copy.

    An entry in the inbox's log announces it, and the content is deleted.
    """
    body = BODY_BYTES + content
    found = _inbox_reads("show_notifications", relaxed_units(body))
    pattern = "retract_broadcast" if is_for_everyone else "empty_notification"
    log = strong_units(body) + 1 if is_for_everyone else 1
    return Cost(
        [
            *([] if is_for_everyone else [found]),
            _inbox_reads("read_broadcasts", log, 2 if is_for_everyone else 1),
            _inbox_writes("append_broadcast", 1),
            _inbox_writes(pattern, write_units(body)),
        ],
        [_inbox_writes("let_go", 1)],
    )


def list_page(count: int, content: int) -> Cost:
    """Return the cost of a page of a user's copies with their texts."""
    bodies = count * relaxed_units(BODY_BYTES + content)
    return Cost(
        [
            _inbox_reads("list_copies", strong_units((count + 1) * COPY_BYTES)),
            _inbox_reads("read_marks", 1),
            _inbox_reads("show_notifications", bodies, math.ceil(count / BATCH_ITEMS_MAX)),
        ]
    )


def unread(copies: int) -> Cost:
    """Return the cost of an unread count from all copies of a user and the cached log."""
    return Cost(
        [
            _inbox_reads("read_marks", 1),
            _inbox_reads("list_copies", strong_units(copies * COPY_BYTES)),
        ]
    )


def read_one(copies: int) -> Cost:
    """Return the cost of marking one copy read; the answer contains the new unread count."""
    return Cost([_inbox_writes("mark_copy", 1), *unread(copies).to_the_answer])


def read_before(copies: int) -> Cost:
    """Return the cost of marking everything read, broadcasts up to the log's current end.

    The answer contains the new unread count.
    """
    log = _inbox_reads("read_broadcasts", 1)
    return Cost([_inbox_writes("move_marks", 1), log, *unread(copies).to_the_answer])


def progress(content: int) -> Cost:
    """Return the cost of asking how many users have their copy."""
    body = relaxed_units(BODY_BYTES + content)
    return Cost([_inbox_reads("show_notifications", body), _inbox_reads("read_progress", 1)])


def look_anew() -> Cost:
    """Return the cost of reading an inbox again, at most once per second and process."""
    return Cost([_inbox_reads("read_inbox", 1), _inbox_reads("read_broadcasts", 1)])


def _writes(pattern: str, table: str, units: float, requests: float = 1) -> Charge:
    return Charge(pattern, table, Units(write=units), requests)


def _reads(pattern: str, table: str, units: float, requests: float = 1) -> Charge:
    return Charge(pattern, table, Units(read=units), requests)


def _session(pattern: str) -> Charge:
    return _writes(pattern, "sessions", 2)


def _revoked(table: str, units: int) -> list[Charge]:
    """Charge a revocation: the change itself and its entry in the feed, in one transaction."""
    return [
        _reads("read_revocations", "tenants", 1),
        _writes("revoke", "tenants", IN_TRANSACTION),
        _writes("revoke", table, IN_TRANSACTION * units, 0),
    ]


def ask_for_code() -> Cost:
    """Return the cost of requesting a code.

    The caller's address is counted before the answer. The text message itself is not included.
    """
    return Cost(
        [_writes("spend", "sessions", IN_TRANSACTION * ADDRESS_BUDGETS)],
        [
            _writes("spend", "sessions", IN_TRANSACTION * CODE_BUDGETS),
            _reads("find_tenant", "tenants", 1),
            _reads("read_settings", "inbox", 1),
            _reads("find_numbers", "users", 1),
            _reads("read_code", "sessions", 1),
            _writes("keep_code", "sessions", 1),
        ],
    )


def _log_in(users: list[Charge], redeemed: int) -> list[Charge]:
    """Charge a login; the tenant is read twice, for its suspension and for its quota of users."""
    return [
        _reads("find_tenant", "tenants", 2, 2),
        _reads("read_settings", "inbox", 1),
        _writes("count_attempt", "sessions", 1),
        _writes("use_code", "sessions", 1),
        _writes("give_back", "sessions", IN_TRANSACTION * redeemed),
        _reads("find_number", "users", 1),
        *users,
        _session("open_session"),
        _reads("find_numbers", "users", 1),
        _reads("list_sessions", "sessions", 0.5),
    ]


def first_login() -> Cost:
    """Return the cost of a login that creates and lists the user and claims the number at once.

    The tenant's count of users is written after the answer.
    """
    listed = _writes("claim_number", "listings", IN_TRANSACTION, 0)
    charges = _log_in([_claimed(), listed], REDEEMED_BUDGETS_NEW)
    return Cost(charges, [_writes("count_users", "inbox", 1)])


def next_login() -> Cost:
    """Return the cost of a login that ends the user's previous session on the device."""
    found = [_reads("find_user", "users", 1)]
    return Cost([*_log_in(found, REDEEMED_BUDGETS), *_revoked("sessions", 2)])


def refresh() -> Cost:
    """Return the cost of a refresh.

    The session is read to find its user; then session and user are checked at the same time.
    """
    return Cost(
        [
            _reads("read_session", "sessions", 2, 2),
            _reads("find_tenant", "tenants", 1),
            _reads("check_user", "users", 1),
            _session("rotate_session"),
        ]
    )


def first_sight() -> Cost:
    """Return the cost of a token that is new to the process; later uses read nothing."""
    return Cost([_reads("check_user", "users", 1), _reads("read_session", "sessions", 1)])


def look_at_feed() -> Cost:
    """Return the cost of one read of the revocation feed, which each process does every 2 s."""
    return Cost([_reads("read_revocations", "tenants", 1)])


def give_number(*, has_one: bool) -> Cost:
    """Return the cost of a user's new phone number: the profile and the claim of the number.

    A former number's claim is deleted, and the user's sessions and tokens are revoked.
    """
    claimed = _revoked("users", 3) if has_one else [_claimed()]
    return Cost([_reads("find_user", "users", 1), *claimed])


def _claimed() -> Charge:
    return _writes("claim_number", "users", 2 * IN_TRANSACTION)


def end_session() -> Cost:
    """Return the cost of ending one session of a user."""
    return Cost(_revoked("sessions", 2))


def end_all() -> Cost:
    """Return the cost of revoking all sessions and tokens of a user, however many there are."""
    return Cost([_reads("find_user", "users", 1), *_revoked("users", 1)])


def make_token() -> Cost:
    """Return the cost of a single token; of many at once, up to 25 share an audit entry."""
    return Cost([_reads("check_user", "users", 1), _writes("append_audit", "audit", IN_INDEX)])


def record_act() -> Cost:
    """Return the cost of an audit entry: intent before the action, outcome after it.

    Each of the two writes also writes the index over all tenants.
    """
    return Cost(
        [
            _writes("append_audit", "audit", IN_INDEX),
            _writes("complete_audit", "audit", IN_INDEX),
        ]
    )


def new_user() -> Cost:
    """Return the cost of a user without a phone number: the profile, and the item in the list.

    The tenant's count of users is written after the answer.
    """
    return Cost(
        [
            _reads("find_user", "users", 1),
            _writes("add_listing", "listings", 1),
            _writes("create_user", "users", 1),
        ],
        [_writes("count_users", "inbox", 1)],
    )


def list_users(count: int) -> Cost:
    """Return the cost of a page of a tenant's users: the parts of the list, and each profile."""
    part = strong_units((count + 1) * LISTING_BYTES)
    return Cost(
        [
            _reads("read_listing", "listings", LISTING_SHARDS * part, LISTING_SHARDS),
            _reads("show_users", "users", count / 2, math.ceil(count / BATCH_ITEMS_MAX)),
        ]
    )


def find_contacts(numbers: int) -> Cost:
    """Return the cost of looking up contacts when every number belongs to a user."""
    return Cost(
        [
            _writes("add_up", "sessions", 1),
            _reads("find_numbers", "users", numbers),
            _reads("show_user", "users", numbers / 2, numbers),
        ]
    )

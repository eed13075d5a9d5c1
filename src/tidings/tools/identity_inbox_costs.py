# SPDX-License-Identifier: Apache-2.0
"""Units that each use case of identity and the inbox takes, by access pattern.

A contract test compares every figure with the units that a real engine reports.

Identity: the figures are for a process that has cached the tenant and its signing key, and follows
the revocation feed. A session's item is written twice, to its table and to the index that lists a
user's sessions.

Inbox: the figures are for a process that has cached the inbox. It reads the settings and the log of
the inbox again at most once per second, however many requests it gets.
"""

import math
from typing import Final

from tidings.model import limits
from tidings.tools.charges import Charge, Units, relaxed_units, strong_units, write_units
from tidings.tools.chat_costs import BATCH_ITEMS_MAX, Cost

TABLE: Final = "inbox"
BODY_BYTES: Final = 230
"""Size of the item of a notification or broadcast, with encryption and without the text."""
COPY_BYTES: Final = 136
JOB_BYTES: Final = 250
JOB_USER_BYTES: Final = 28
BATCH_JOBS_MAX: Final = 25
QUEUE: Final = frozenset({"put_jobs", "take_jobs", "delete_job"})
"""Access patterns of the delivery queue if it is in DynamoDB, as in a deployment with a single
process."""

SESSION_BYTES: Final = 360
"""Size of a session's item after a refresh, including attribute names and digests."""
CODE_BUDGETS: Final = 6
"""Number of budgets that a code to a user's number is charged to, in one transaction: two of the
number, and those of the prefix, country, tenant and deployment. A code to a number without a user
is charged to three more."""
ADDRESS_BUDGETS: Final = 2
"""Number of budgets of the caller's address: one for some minutes, one for the day."""
REDEEMED_BUDGETS: Final = 2
"""Number of budgets whose charge is undone when a code is redeemed: prefix and country."""
REDEEMED_BUDGETS_NEW: Final = 3
"""The same for a new user: also the budget of the number across all tenants."""
IN_TRANSACTION: Final = 2
IN_INDEX: Final = 2
"""Writes of an item that is also in an index."""


def _inbox_writes(pattern: str, units: float, requests: float = 1) -> Charge:
    return Charge(pattern, TABLE, Units(write=units), requests)


def _inbox_reads(pattern: str, units: float, requests: float = 1) -> Charge:
    return Charge(pattern, TABLE, Units(read=units), requests)


def post(users: int, content: int, *, in_store: bool = False) -> Cost:
    """Return the cost of a post to listed users, until each user has a copy.

    The delivery jobs are in the store if `in_store` is true; otherwise they are in Kafka or SQS.
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
    """Return the cost of a broadcast, which takes one write, however many users there are.

    After the answer, another write allows the previous entry to expire.
    """
    claim = [_inbox_writes("claim_post_key", 1)] if has_key else []
    announced = _inbox_writes("append_broadcast", write_units(BODY_BYTES + content))
    return Cost(
        [*claim, _inbox_reads("show_user_count", 0.5), announced],
        [_inbox_writes("let_go", 1)],
    )


def redact(content: int, *, is_for_everyone: bool) -> Cost:
    """Return the cost of a retraction, which is the same however many users have a copy.

    An entry in the inbox's log announces the retraction, and the content is deleted.
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
    """Return the cost of an unread count, which uses all copies of a user and the cached log."""
    return Cost(
        [
            _inbox_reads("read_marks", 1),
            _inbox_reads("list_copies", strong_units(copies * COPY_BYTES)),
        ]
    )


def read_one(copies: int) -> Cost:
    """Return the cost of marking one copy as read, and of the new unread count in the answer."""
    return Cost([_inbox_writes("mark_copy", 1), *unread(copies).to_the_answer])


def read_before(copies: int) -> Cost:
    """Return the cost of marking everything as read, including all broadcasts in the log.

    The cost includes the new unread count in the answer.
    """
    log = _inbox_reads("read_broadcasts", 1)
    return Cost([_inbox_writes("move_marks", 1), log, *unread(copies).to_the_answer])


def progress(content: int) -> Cost:
    """Return the cost of a request for the number of users who have their copy."""
    body = relaxed_units(BODY_BYTES + content)
    return Cost([_inbox_reads("show_notifications", body), _inbox_reads("read_progress", 1)])


def look_anew() -> Cost:
    """Return the cost of reading an inbox again, which a process does at most once per second."""
    return Cost([_inbox_reads("read_inbox", 1), _inbox_reads("read_broadcasts", 1)])


def _writes(pattern: str, table: str, units: float, requests: float = 1) -> Charge:
    return Charge(pattern, table, Units(write=units), requests)


def _reads(pattern: str, table: str, units: float, requests: float = 1) -> Charge:
    return Charge(pattern, table, Units(read=units), requests)


def _session(pattern: str) -> Charge:
    return _writes(pattern, "sessions", 2)


def _revoked(table: str, units: int) -> list[Charge]:
    """Return the charges for a revocation: one transaction for the change and its feed entry."""
    return [
        _reads("read_revocations", "tenants", 1),
        _writes("revoke", "tenants", IN_TRANSACTION),
        _writes("revoke", table, IN_TRANSACTION * units, 0),
    ]


def ask_for_code() -> Cost:
    """Return the cost of requesting a code.

    The caller's address is charged before the answer. The cost does not include the text message.
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
    """Return the charges for a login.

    The tenant is read twice, for its suspension and for its quota of users.
    """
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
    """Return the cost of a login that creates the user and claims the number in one write.

    The tenant's count of users is written after the answer.
    """
    charges = _log_in([_claimed()], REDEEMED_BUDGETS_NEW)
    return Cost(charges, [_writes("count_users", "inbox", 1)])


def next_login() -> Cost:
    """Return the cost of a login that ends the user's previous session on the device."""
    found = [_reads("find_user", "users", 1)]
    return Cost([*_log_in(found, REDEEMED_BUDGETS), *_revoked("sessions", 2)])


def refresh() -> Cost:
    """Return the cost of a refresh.

    The session is read to find its user; then session and user are read together to check them.
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
    """Return the cost of the first use of a token in a process; later uses read nothing."""
    return Cost([_reads("check_user", "users", 1), _reads("read_session", "sessions", 1)])


def look_at_feed() -> Cost:
    """Return the cost of one read of the revocation feed, which each process does every 2 s."""
    return Cost([_reads("read_revocations", "tenants", 1)])


def give_number(*, has_one: bool) -> Cost:
    """Return the cost of giving a user a phone number: a new profile, and a claim of the number.

    If the user has a number already (`has_one`), its claim is deleted, and the user's sessions and
    tokens are revoked.
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
    """Return the cost of making a single token.

    If many tokens are made at once, up to 25 of them share an audit entry.
    """
    return Cost([_reads("check_user", "users", 1), _writes("append_audit", "audit", IN_INDEX)])


def record_act() -> Cost:
    """Return the cost of recording an act: the intent before it, and the outcome after it.

    Each of the two writes also writes to the index over all tenants.
    """
    return Cost(
        [
            _writes("append_audit", "audit", IN_INDEX),
            _writes("complete_audit", "audit", IN_INDEX),
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

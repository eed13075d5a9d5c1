# SPDX-License-Identifier: Apache-2.0
"""Units that each use case of identity takes, by access pattern.

A contract test compares every figure with the units that a real engine reports.

The figures are for a process that has cached the tenant and its signing key, and follows the
revocation feed. A session's item is written twice, to its table and to the index that lists a
user's sessions.
"""

import math
from typing import Final

from tidings.tools.charges import Charge, Units, strong_units
from tidings.tools.chat_costs import BATCH_ITEMS_MAX, Cost, change_members

SESSION_BYTES: Final = 360
"""Size of a session's item after a refresh, including attribute names and digests."""
CODE_BUDGETS: Final = 4
"""Number of budgets that a code to a user's number is charged to, in one transaction: prefix,
country, tenant and deployment. A code to a number without a user is charged to three more."""
REQUEST_BUDGETS: Final = 4
"""Number of budgets that a request for a code is charged to. The number and the caller's address
have two each: one for some minutes and one for the day."""
REDEEMED_BUDGETS: Final = 2
"""Number of budgets whose charge is undone when a code is redeemed: prefix and country."""
REDEEMED_BUDGETS_NEW: Final = 3
"""Number of budgets whose charge is undone when a new user redeems a code: prefix, country, and the
number across all tenants."""
LISTING_BYTES: Final = 60
"""Size of the item of a user or chat in a list."""
LISTING_SHARDS: Final = 4
ACT_BYTES: Final = 230
"""Size of the item of an act in the audit trail."""
IN_TRANSACTION: Final = 2
IN_INDEX: Final = 2
"""Writes of an item that is also in an index."""


def _writes(pattern: str, table: str, units: float, requests: float = 1) -> Charge:
    return Charge(pattern, table, Units(write=units), requests)


def _reads(pattern: str, table: str, units: float, requests: float = 1) -> Charge:
    return Charge(pattern, table, Units(read=units), requests)


def _session(pattern: str) -> Charge:
    return _writes(pattern, "sessions", 2)


def _revoked(table: str, units: int) -> list[Charge]:
    """Return the charges for a revocation: one transaction writes the change, and an entry in the
    revocation feed."""
    return [
        _reads("read_revocations", "tenants", 1),
        _writes("revoke", "tenants", IN_TRANSACTION),
        _writes("revoke", table, IN_TRANSACTION * units, 0),
    ]


def ask_for_code() -> Cost:
    """Return the cost of requesting a code.

    The number and the caller's address are charged before the answer. The cost does not include
    the text message.
    """
    return Cost(
        [_writes("spend", "sessions", IN_TRANSACTION * REQUEST_BUDGETS)],
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
    """Return the cost of a login that creates a user.

    One transaction creates the user, adds them to the tenant's list and claims the phone number.
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


def register_push() -> Cost:
    """Return the cost of registering a device that was not registered before.

    The devices of the user are read twice: to see whether anything changes, and with the claim of
    the target. One transaction writes the registration, the claim, the listing, and an entry in the
    revocation feed.
    """
    return Cost(
        [
            _reads("read_push_devices", "tenants", 2, 2),
            _reads("find_push_target", "tenants", 1),
            _reads("read_revocations", "tenants", 1),
            _writes("revoke", "tenants", IN_TRANSACTION * 3),
            _writes("revoke", "listings", IN_TRANSACTION, 0),
        ]
    )


def register_push_again() -> Cost:
    """Return the cost of registering a device as it is registered, with a token of a session."""
    return Cost([_reads("read_push_devices", "tenants", 1)])


def block() -> Cost:
    """Return the cost of blocking a user with whom the blocker has no direct chat.

    One transaction writes an item for each of the two users, and two entries in the revocation
    feed.
    """
    return Cost(
        [
            _reads("find_users", "users", 1),
            _reads("read_blocks", "tenants", 1),
            _reads("find_pair", "chats", 2, 2),
            _reads("read_revocations", "tenants", 1),
            _writes("revoke", "tenants", IN_TRANSACTION * 4),
        ]
    )


def erase() -> Cost:
    """Return the cost of destroying a user's data key in two steps, each with an entry in the
    revocation feed.

    The entry of the second step is also written to the list of the tenant's erasures.
    """
    return Cost(
        [
            _reads("read_data_key", "keys", 2, 2),
            *_revoked("keys", 1),
            *_revoked("keys", 1),
            _writes("revoke", "tenants", IN_TRANSACTION, 0),
        ]
    )


def delete_user() -> Cost:
    """Return the cost of deleting a user who has a session, a data key and a group.

    Before the answer, the ledger, the job (two items), and the mark that the user is deleted are
    written, and an entry in the revocation feed. The job has 15 steps. It checks the mark, goes
    through its seven parts, and goes through all of them again at the end. A part takes one step,
    or three if it removes items, as three parts do here. For each step, a round looks for jobs
    twice, and the job is leased and recorded. The last record has the signed receipt, which takes
    four more units.
    """
    steps, receipt_units = 1 + 3 * 3 + 4 + 1, 4
    begun = [
        _reads("show_user", "users", 0.5),
        _reads("find_job", "tenants", 1),
        _writes("record_erasure", "keys", 1),
        _writes("note_erasure", "tenants", 1),
        _writes("create_job", "tenants", 2 * IN_TRANSACTION),
        _reads("find_user", "users", 1),
        *_revoked("users", 1),
        _writes("revoke", "listings", IN_TRANSACTION, 0),
    ]
    job = [
        _reads("list_jobs", "tenants", 2 * steps, 2 * steps),
        _writes("move_job", "tenants", 2 * steps + receipt_units, 2 * steps),
        _reads("read_value", "tenants", 1),
        _writes("unlist_job", "tenants", 1),
        _writes("count_users", "inbox", 1),
    ]
    return Cost(begun, [*job, *_parts_of_deletion()])


def _parts_of_deletion() -> list[Charge]:
    """Return the charges for the items that the steps of a deletion read and remove."""
    return [
        _reads("find_user", "users", 2, 2),
        _reads("list_sessions", "sessions", 1.5, 3),
        _reads("check_sessions", "sessions", 1),
        _writes("forget_sessions", "sessions", 2),
        _reads("read_data_key", "keys", 3, 3),
        *erase().to_the_answer,
        _reads("list_personal_claims", "idempotency_keys", 6, 6),
        _reads("read_blocks", "tenants", 2, 2),
        _reads("read_push_devices", "tenants", 3, 3),
        _reads("list_scheduled", "inbox", 2, 2),
        _reads("list_uploads", "reactions", 2, 2),
        _reads("list_user_chats", "delivery_state", 3, 3),
        _reads("show_listed_chats", "chats", 1),
        *change_members(joins=False).in_all,
        _reads("list_inboxes", "inbox", 2, 2),
        _reads("list_jobs", "tenants", 2, 2),
    ]


def missed_erasures() -> Cost:
    """Return the cost of sending erasures to a device, if its gateway has not cached them.

    A gateway caches the erasures of a tenant, so the next device of the tenant costs nothing.
    """
    return Cost([_reads("read_erasures", "tenants", 1)])


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


def list_acts(count: int) -> Cost:
    """Return the cost of a page of a tenant's acts, all of one month. Two acts more than the page
    has are read.

    Each further month, down to 400 days ago, costs at least one unit.
    """
    acts = _reads("read_audit", "audit", strong_units((count + 2) * ACT_BYTES))
    return Cost([_reads("find_tenant", "tenants", 1), acts])


def list_connections() -> Cost:
    """Return the cost of listing a user's connections: whether tenant and user exist.

    The connections themselves are in the memory of the processes.
    """
    return Cost([_reads("find_tenant", "tenants", 1), _reads("show_user", "users", 0.5)])


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
            *show_profiles(count).to_the_answer,
        ]
    )


def find_contacts(numbers: int) -> Cost:
    """Return the cost of looking up contacts when every number belongs to a user."""
    return Cost(
        [
            _writes("add_up", "sessions", 1),
            _reads("find_numbers", "users", numbers),
            *show_profiles(numbers).to_the_answer,
        ]
    )


def show_profiles(users: int) -> Cost:
    """Return the cost of reading profiles that no process has cached."""
    return Cost([_reads("show_users", "users", users / 2, math.ceil(users / BATCH_ITEMS_MAX))])


def disconnect() -> Cost:
    """Return the cost of storing when a user was last seen, after the last connection closed."""
    return Cost([], [_writes("keep_last_seen", "users", 1)])

# SPDX-License-Identifier: Apache-2.0
"""What our own use cases of identity use: held to the recorder by the contract suite.

All of it in a process that knows the tenant and its signing key, and sees the feed of revocations.
An item of a session is written twice, in its table and in the index that lists a user's sessions.
"""

from typing import Final

from tidings.tools.capacity.charges import Charge, Units
from tidings.tools.capacity.costs import Cost

SESSION_BYTES: Final = 360
"""Of a session's item once it was refreshed, with names and digests."""
CODE_BUDGETS: Final = 6
"""Allowances that are spent together on a code to a user's number: of number, prefix, country,
tenant and all. One to a number that is nobody's has three more."""
ADDRESS_BUDGETS: Final = 2
"""Those of who asks: for some minutes and for the day."""
REDEEMED_BUDGETS: Final = 2
"""Those that a code which was used does not count for: of prefix and country."""
REDEEMED_BUDGETS_NEW: Final = 3
"""Of a new user also that of the number in all tenants."""
IN_TRANSACTION: Final = 2
IN_INDEX: Final = 2
"""An item that also stands in an index is written twice."""


def _writes(pattern: str, table: str, units: float, requests: float = 1) -> Charge:
    return Charge(pattern, table, Units(write=units), requests)


def _reads(pattern: str, table: str, units: float, requests: float = 1) -> Charge:
    return Charge(pattern, table, Units(read=units), requests)


def _session(pattern: str) -> Charge:
    return _writes(pattern, "sessions", 2)


def _revoked(table: str, units: int) -> list[Charge]:
    """Something ends, together with its place in the feed."""
    return [
        _reads("read_revocations", "tenants", 1),
        _writes("revoke", "tenants", IN_TRANSACTION),
        _writes("revoke", table, IN_TRANSACTION * units, 0),
    ]


def ask_for_code() -> Cost:
    """Who asks is counted before the answer; the text itself is somebody else's."""
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
    """The tenant is looked at twice: whether it is suspended, and how many users it may have."""
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
    """A user is made together with the claim of the number, and counted later."""
    charges = _log_in([_claimed()], REDEEMED_BUDGETS_NEW)
    return Cost(charges, [_writes("count_users", "inbox", 1)])


def next_login() -> Cost:
    """The session that the user had on the device ends."""
    found = [_reads("find_user", "users", 1)]
    return Cost([*_log_in(found, REDEEMED_BUDGETS), *_revoked("sessions", 2)])


def refresh() -> Cost:
    """The session says whose it is; then both are looked at once more, together."""
    return Cost(
        [
            _reads("read_session", "sessions", 2, 2),
            _reads("find_tenant", "tenants", 1),
            _reads("check_user", "users", 1),
            _session("rotate_session"),
        ]
    )


def first_sight() -> Cost:
    """A token that the process has not seen before; after that nothing is read for it."""
    return Cost([_reads("check_user", "users", 1), _reads("read_session", "sessions", 1)])


def look_at_feed() -> Cost:
    """What each process does every two seconds, so that it need not look at anything else."""
    return Cost([_reads("read_revocations", "tenants", 1)])


def give_number(*, has_one: bool) -> Cost:
    """Profile and claim; the claim of a number before goes, and with it what the user was given."""
    claimed = _revoked("users", 3) if has_one else [_claimed()]
    return Cost([_reads("find_user", "users", 1), *claimed])


def _claimed() -> Charge:
    return _writes("claim_number", "users", 2 * IN_TRANSACTION)


def end_session() -> Cost:
    """One of a user's sessions."""
    return Cost(_revoked("sessions", 2))


def end_all() -> Cost:
    """All sessions and tokens of a user, however many there are."""
    return Cost([_reads("find_user", "users", 1), *_revoked("users", 1)])


def make_token() -> Cost:
    """One that comes alone; of many at once up to 25 share an entry."""
    return Cost([_reads("check_user", "users", 1), _writes("append_audit", "audit", IN_INDEX)])


def record_act() -> Cost:
    """The intent before, the outcome after; each is written in the index over all, too."""
    return Cost(
        [
            _writes("append_audit", "audit", IN_INDEX),
            _writes("complete_audit", "audit", IN_INDEX),
        ]
    )


def find_contacts(numbers: int) -> Cost:
    """Numbers that are all somebody's."""
    return Cost(
        [
            _writes("add_up", "sessions", 1),
            _reads("find_numbers", "users", numbers),
            _reads("show_user", "users", numbers / 2, numbers),
        ]
    )

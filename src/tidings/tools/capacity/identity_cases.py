# SPDX-License-Identifier: Apache-2.0
"""Use cases of identity that the cost page lists."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from tidings.tools.capacity import identity_costs as ours
from tidings.tools.capacity.costs import Cost

CONTACTS: Final = 50

ASK: Final = "request a code"
FIRST_LOGIN: Final = "log in, a new user"
NEXT_LOGIN: Final = "log in, again on the same device"
REFRESH: Final = "refresh a session"
FIRST_SIGHT: Final = "a token that a process sees for the first time"
LOOK: Final = "the feed of revocations, every two seconds for each process"
FIRST_NUMBER: Final = "a user gets a phone number"
NEXT_NUMBER: Final = "a user gets another phone number"
END_SESSION: Final = "end a session"
END_ALL: Final = "end all of a user's sessions and tokens"
MAKE_TOKEN: Final = "a token for a user, and its record in the audit trail"
RECORD_ACT: Final = "any other administrative action: its record in the audit trail"
FIND_CONTACTS: Final = f"contacts, {CONTACTS} numbers of users"


class IdentityCase(NamedTuple):
    """One row of the table: a step from its request until the system is quiet."""

    name: str
    ours: Cost


def identity_cases() -> Iterator[IdentityCase]:
    """Yield all use cases in the order of the table."""
    yield IdentityCase(ASK, ours.ask_for_code())
    yield IdentityCase(FIRST_LOGIN, ours.first_login())
    yield IdentityCase(NEXT_LOGIN, ours.next_login())
    yield IdentityCase(REFRESH, ours.refresh())
    yield IdentityCase(FIRST_SIGHT, ours.first_sight())
    yield IdentityCase(LOOK, ours.look_at_feed())
    yield IdentityCase(FIRST_NUMBER, ours.give_number(has_one=False))
    yield IdentityCase(NEXT_NUMBER, ours.give_number(has_one=True))
    yield IdentityCase(END_SESSION, ours.end_session())
    yield IdentityCase(END_ALL, ours.end_all())
    yield IdentityCase(MAKE_TOKEN, ours.make_token())
    yield IdentityCase(RECORD_ACT, ours.record_act())
    yield IdentityCase(FIND_CONTACTS, ours.find_contacts(CONTACTS))

# SPDX-License-Identifier: Apache-2.0
"""Use cases of the inbox that the cost page lists, in Tidings and in a row per notification."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from tidings.tools.capacity import inbox_costs as ours
from tidings.tools.capacity.charges import Units
from tidings.tools.capacity.costs import Cost
from tidings.tools.capacity.other_designs import ROW_PER_NOTIFICATION

TEXT: Final = 300
"""Title, text, link and the names of their fields."""
AUDIENCES: Final = (1, 100, 1_000)
EVERYONE: Final = 10_000
"""Users of the tenant, which matters to the other design only."""
COPIES: Final = 50
COPIES_MOST: Final = 1_000


class InboxCase(NamedTuple):
    """One row of the table: a step from its request until the system is quiet."""

    name: str
    ours: Cost
    row_per_notification: Units | None = None


def post_name(users: int, *, in_store: bool = False) -> str:
    """Return the name of a post to listed users in the table."""
    people = "1 user" if users == 1 else f"{users:,} users"
    return f"post to {people}, jobs in the store" if in_store else f"post to {people}"


def inbox_cases() -> Iterator[InboxCase]:
    """Yield all use cases in the order of the table."""
    theirs = ROW_PER_NOTIFICATION
    for users in AUDIENCES:
        yield InboxCase(post_name(users), ours.post(users, TEXT), theirs.post(users, TEXT))
    for users in AUDIENCES:
        name = post_name(users, in_store=True)
        yield InboxCase(name, ours.post(users, TEXT, in_store=True))
    for has_key in (False, True):
        name = "broadcast, with a key" if has_key else "broadcast"
        cost = ours.post_to_everyone(TEXT, has_key=has_key)
        yield InboxCase(name, cost, theirs.post(EVERYONE, TEXT))
    most, text = max(AUDIENCES), TEXT
    listed, everyone = (ours.redact(TEXT, is_for_everyone=flag) for flag in (False, True))
    yield InboxCase(f"retract, of {most:,} users", listed, theirs.redact(most, text))
    yield InboxCase("retract a broadcast", everyone, theirs.redact(EVERYONE, text))
    yield InboxCase(f"progress, of {most:,} users", ours.progress(TEXT))
    yield InboxCase(f"list of {COPIES}", ours.list_page(COPIES, TEXT), theirs.list(COPIES, TEXT))
    for copies in (COPIES, COPIES_MOST):
        yield InboxCase(f"unread count, {copies:,} copies", ours.unread(copies), theirs.unread())
    yield InboxCase(f"read one of {COPIES}", ours.read_one(COPIES), theirs.read_one(TEXT))
    marked = theirs.read_before(COPIES, TEXT)
    yield InboxCase(f"read all of {COPIES}", ours.read_before(COPIES), marked)
    yield InboxCase("an inbox read again, at most once a second", ours.look_anew())

# SPDX-License-Identifier: Apache-2.0
"""The use cases of the inbox whose cost is told, ours beside that of s4."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from tidings.tools.capacity import inbox_costs as ours
from tidings.tools.capacity.charges import Units
from tidings.tools.capacity.costs import Cost
from tidings.tools.capacity.other_designs import ROWS_AND_COUNTERS

TEXT: Final = 300
"""Title, text, link and the names of their fields."""
AUDIENCES: Final = (1, 100, 1_000)
EVERYONE: Final = 10_000
"""Users of the tenant, where that makes a difference: with us it does not."""
COPIES: Final = 50
COPIES_MOST: Final = 1_000


class InboxCase(NamedTuple):
    """One step, from the request until all is quiet."""

    name: str
    ours: Cost
    s4: Units | None = None


def post_name(users: int, *, in_store: bool = False) -> str:
    """How a post to listed users is called in the table."""
    people = "1 user" if users == 1 else f"{users:,} users"
    return f"post to {people}, jobs in the store" if in_store else f"post to {people}"


def inbox_cases() -> Iterator[InboxCase]:
    """All of them, in the order of the table."""
    s4 = ROWS_AND_COUNTERS
    for users in AUDIENCES:
        yield InboxCase(post_name(users), ours.post(users, TEXT), s4.post(users, TEXT))
    for users in AUDIENCES:
        name = post_name(users, in_store=True)
        yield InboxCase(name, ours.post(users, TEXT, in_store=True))
    for has_key in (False, True):
        name = "broadcast, with a key" if has_key else "broadcast"
        cost = ours.post_to_everyone(TEXT, has_key=has_key)
        yield InboxCase(name, cost, s4.post(EVERYONE, TEXT))
    most, text = max(AUDIENCES), TEXT
    listed, everyone = (ours.redact(TEXT, is_for_everyone=one) for one in (False, True))
    yield InboxCase(f"retract, of {most:,} users", listed, s4.redact(most, text))
    yield InboxCase("retract a broadcast", everyone, s4.redact(EVERYONE, text))
    yield InboxCase(f"progress, of {most:,} users", ours.progress(TEXT))
    yield InboxCase(f"list of {COPIES}", ours.list_page(COPIES, TEXT), s4.list(COPIES, TEXT))
    for copies in (COPIES, COPIES_MOST):
        yield InboxCase(f"unread count, {copies:,} copies", ours.unread(copies), s4.unread())
    yield InboxCase(f"read one of {COPIES}", ours.read_one(COPIES), s4.read_one(TEXT))
    marked = s4.read_before(COPIES, TEXT)
    yield InboxCase(f"read all of {COPIES}", ours.read_before(COPIES), marked)
    yield InboxCase("an inbox read again, at most once a second", ours.look_anew())

# SPDX-License-Identifier: Apache-2.0
"""Use cases of chats that the cost page lists, in Tidings and in other designs."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from tidings.model import limits
from tidings.tools.capacity import costs
from tidings.tools.capacity.charges import Units
from tidings.tools.capacity.costs import Cost
from tidings.tools.capacity.other_designs import COUNTER_AND_ROWS, ROW_PER_MEMBER, SINGLE_TABLE

SMALL: Final = 100
LARGE: Final = limits.CONTENT_BYTES_MAX
CHATS: Final = 50
PAGE: Final = 50
MISSED: Final = 100
ONLINE: Final = {2: 1, 10: 9, 100: 99, 1_000: 100}
"""Connected readers by members of the chat: all of them, except in the largest."""
_DESIGNS: Final = (ROW_PER_MEMBER, SINGLE_TABLE, COUNTER_AND_ROWS)


class UseCase(NamedTuple):
    """One row of the table: a step from its request until the system is quiet."""

    name: str
    ours: Cost
    row_per_member: Units | None = None
    single_table: Units | None = None
    counter_and_rows: Units | None = None

    @property
    def other_designs(self) -> tuple[Units | None, ...]:
        """Units of the other designs; None if a design lacks the feature."""
        return self.row_per_member, self.single_table, self.counter_and_rows


def send_name(members: int, content: int, readers: int) -> str:
    """Return the name of a send in the table."""
    people = "1:1" if members == 2 else f"{members:,} members"
    online = f"{readers} online" if 0 < readers < members - 1 else "online"
    return f"send, {people}, {online if readers else 'offline'}, {content:,} bytes"


def use_cases() -> Iterator[UseCase]:
    """Yield all use cases in the order of the table."""
    yield from _sends()
    expiring = costs.send(2, SMALL, 1, expires=True)
    sent = ROW_PER_MEMBER.send(2, SMALL) + ROW_PER_MEMBER.deliver(2, SMALL, 1)
    yield UseCase("send, 1:1, online, expires", expiring, sent)
    yield UseCase("send, 1:1, two processes in turn", costs.send_in_turn(2, SMALL))
    yield UseCase("edit", costs.edit(2, SMALL))
    yield UseCase("redact", costs.redact(2, SMALL))
    yield UseCase("react", costs.react(2, SMALL))
    for joins in (True, False):
        name = "add a member to ten" if joins else "remove a member of ten"
        others = (design.change_members(10) for design in _DESIGNS)
        yield UseCase(name, costs.change_members(joins=joins), *others)
    yield UseCase("delete a chat of ten, 2 messages", costs.delete_chat(10, 2))
    marks = (design.mark_read(2, SMALL) for design in _DESIGNS)
    yield UseCase("mark read, over REST", costs.mark_read(), *marks)
    yield from _reads()


def _sends() -> Iterator[UseCase]:
    for members, readers in ONLINE.items():
        for content in (SMALL, LARGE):
            yield _send(members, content, readers)
    for content in (SMALL, LARGE):
        yield _send(2, content, 0)


def _send(members: int, content: int, readers: int) -> UseCase:
    others = (
        design.send(members, content) + design.deliver(members, content, readers)
        for design in _DESIGNS
    )
    name = send_name(members, content, readers)
    return UseCase(name, costs.send(members, content, readers), *others)


def _reads() -> Iterator[UseCase]:
    pages = (design.history(PAGE, SMALL) for design in _DESIGNS)
    yield UseCase(f"history page of {PAGE}", costs.history(2, PAGE, SMALL), *pages)
    lists = (design.chat_list(CHATS) for design in _DESIGNS)
    yield UseCase(f"chat list of {CHATS}", costs.chat_list(CHATS), *lists)
    yield UseCase(
        f"hello, {CHATS} chats, nothing new",
        costs.hello(CHATS, 1),
        counter_and_rows=COUNTER_AND_ROWS.hello(CHATS),
    )
    missed = costs.reconnect(CHATS, 1, MISSED, SMALL)
    yield UseCase(
        f"reconnect, {CHATS} chats, {MISSED} missed",
        missed,
        counter_and_rows=COUNTER_AND_ROWS.reconnect(CHATS, MISSED, SMALL),
    )

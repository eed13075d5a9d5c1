# SPDX-License-Identifier: Apache-2.0
"""The use cases whose cost is told, ours beside that of other designs."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from tidings.model import limits
from tidings.tools.capacity import costs
from tidings.tools.capacity.charges import Units
from tidings.tools.capacity.costs import Cost
from tidings.tools.capacity.other_designs import COUNTER, FAN_OUT, SINGLE_TABLE

SMALL: Final = 100
LARGE: Final = limits.CONTENT_BYTES_MAX
CHATS: Final = 50
PAGE: Final = 50
MISSED: Final = 100
ONLINE: Final = {2: 1, 10: 9, 100: 99, 1_000: 100}
"""How many readers of a chat of each size are connected: all, but not in the largest."""


class UseCase(NamedTuple):
    """One step, from the request until all is quiet."""

    name: str
    ours: Cost
    s0: Units | None = None
    s1: Units | None = None
    s2: Units | None = None


def send_name(members: int, content: int, readers: int) -> str:
    """How a send is called in the table."""
    people = "1:1" if members == 2 else f"{members:,} members"
    online = f"{readers} online" if 0 < readers < members - 1 else "online"
    return f"send, {people}, {online if readers else 'offline'}, {content:,} bytes"


def use_cases() -> Iterator[UseCase]:
    """All of them, in the order of the table."""
    yield from _sends()
    expiring = costs.send(2, SMALL, 1, expires=True)
    sent = FAN_OUT.send(2, SMALL) + FAN_OUT.deliver(2, SMALL, 1)
    yield UseCase("send, 1:1, online, expires", expiring, sent)
    yield UseCase("send, 1:1, two processes in turn", costs.send_in_turn(2, SMALL))
    yield UseCase("edit", costs.edit(2, SMALL))
    yield UseCase("redact", costs.redact(2, SMALL))
    yield UseCase("react", costs.react(2, SMALL))
    for joins in (True, False):
        name = "add a member to ten" if joins else "remove a member of ten"
        others = (one.change_members(10) for one in (FAN_OUT, SINGLE_TABLE, COUNTER))
        yield UseCase(name, costs.change_members(joins=joins), *others)
    yield UseCase("delete a chat of ten, 2 messages", costs.delete_chat(10, 2))
    marks = (one.mark_read(2, SMALL) for one in (FAN_OUT, SINGLE_TABLE, COUNTER))
    yield UseCase("mark read, over REST", costs.mark_read(), *marks)
    yield from _reads()


def _sends() -> Iterator[UseCase]:
    for members, readers in ONLINE.items():
        for content in (SMALL, LARGE):
            yield _send(members, content, readers)
    for content in (SMALL, LARGE):
        yield _send(2, content, 0)


def _send(members: int, content: int, readers: int) -> UseCase:
    s0, s1, s2 = (
        one.send(members, content) + one.deliver(members, content, readers)
        for one in (FAN_OUT, SINGLE_TABLE, COUNTER)
    )
    name = send_name(members, content, readers)
    return UseCase(name, costs.send(members, content, readers), s0, s1, s2)


def _reads() -> Iterator[UseCase]:
    pages = (one.history(PAGE, SMALL) for one in (FAN_OUT, SINGLE_TABLE, COUNTER))
    yield UseCase(f"history page of {PAGE}", costs.history(2, PAGE, SMALL), *pages)
    lists = (one.chat_list(CHATS) for one in (FAN_OUT, SINGLE_TABLE, COUNTER))
    yield UseCase(f"chat list of {CHATS}", costs.chat_list(CHATS), *lists)
    hello = costs.hello(CHATS, 1)
    yield UseCase(f"hello, {CHATS} chats, nothing new", hello, s2=COUNTER.hello(CHATS))
    missed = costs.reconnect(CHATS, 1, MISSED, SMALL)
    yield UseCase(
        f"reconnect, {CHATS} chats, {MISSED} missed",
        missed,
        s2=COUNTER.reconnect(CHATS, MISSED, SMALL),
    )

# SPDX-License-Identifier: Apache-2.0
"""What the sockets of two users are told about each other when Amy blocks Ben: every frame, for
each side.

The same happens twice on one server: to a pair with a block, and then to a pair without one. What
has reached the second pair would have reached the first one, too.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

import msgspec
import pytest
import pytest_asyncio

from tests.integration.engines import long_engine as long_engine
from tests.integration.engines import no_limits as no_limits
from tests.integration.socket_town import people, settled, told
from tests.support.client_socket import Frame, Socket
from tests.support.people import Person, Town
from tests.support.waiting import NotInTime, until
from tidings.api.documents import FROM_SERVER

pytestmark = pytest.mark.asyncio(loop_scope="module")

Cell = Literal["same", "masked", "less", "nothing"]
"""Frames compared with those where nobody blocks anybody. `masked`: they say `blocked` and have no
content; `less`: something is counted less; `nothing`: there are none."""
AMY, BEN = 0, 1
CHANGING: Final = frozenset(
    "at connection created_at edited_at id last_seen message_id client_message_id as_of content"
    " device user_id heartbeat_ms window epoch".split()
)
"""Fields that differ without a block."""


class Row(NamedTuple):
    """What Amy is told of Ben, whom she blocks, and Ben of Amy."""

    blocker: Cell
    blocked: Cell


@dataclass
class Pair:
    """Two people with a group and a direct chat, each with a connected device."""

    people: tuple[Person, Person]
    chats: dict[str, str]
    sockets: tuple[Socket, Socket]
    is_blocked: bool

    def plain(self, frame: Frame) -> str:
        """A frame without what differs from pair to pair."""
        text = msgspec.json.encode(_lasting(frame)).decode()
        names = {self.people[AMY].user_id: "amy", self.people[BEN].user_id: "ben"}
        for name, value in {**names, **{chat: where for where, chat in self.chats.items()}}.items():
            text = text.replace(name, value)
        return text


def _lasting(value: Any) -> Any:
    """A frame, or a part of it, without the values of fields that differ without a block."""
    if isinstance(value, list):
        return [_lasting(one) for one in value]
    if isinstance(value, dict):
        return {name: "" if name in CHANGING else _lasting(one) for name, one in value.items()}
    return value


Act = Callable[[Pair, int], Awaitable[object]]
"""What one of the pair does."""


def say(op: str, where: str, **more: Any) -> Act:
    """Say a frame about a chat on one's own socket."""

    async def act(pair: Pair, who: int) -> None:
        pair.sockets[who].tell({"op": op, "chat": pair.chats[where], **more})

    return act


def write(where: str, **more: Any) -> Act:
    """Post a message; `mentions` names the other."""

    async def act(pair: Pair, who: int) -> None:
        named = {"mentions": [pair.people[1 - who].user_id]} if "mentions" in more else {}
        await pair.people[who].send(pair.chats[where], **{**more, **named})

    return act


def change(method: str, path: str, body: Frame | None = None) -> Act:
    """Change one's own last message in the group."""

    async def act(pair: Pair, who: int) -> None:
        messages = await pair.people[who].history(pair.chats["group"])
        own = next(one for one in messages if one["sender_id"] == pair.people[who].user_id)
        base = f"/v1/chats/{pair.chats['group']}/messages/{own['sequence']}"
        await pair.people[who].call(method, base + path, body)

    return act


def look(where: str) -> Act:
    """Read everything in a chat."""

    async def act(pair: Pair, who: int) -> None:
        chat = pair.chats[where]
        head = (await pair.people[who].call("GET", f"/v1/chats/{chat}"))["last_message"]["sequence"]
        marks = {"delivered": head, "read": head}
        await pair.people[who].call("PUT", f"/v1/chats/{chat}/receipt", marks)

    return act


async def go(pair: Pair, who: int) -> None:
    """Disconnect, once the other has been told that one is there."""
    if not pair.is_blocked:
        me, other = pair.people[who].user_id, pair.sockets[1 - who]
        await other.until(
            lambda: [frame["online"] for frame in told(other, "presence", user=me)][-1:] == [True]
        )
    await pair.sockets[who].drop()


async def hide(pair: Pair, who: int) -> None:
    """Hide one's presence, while the other shows it."""
    await pair.people[1 - who].call("PATCH", "/v1/me", {"show_last_seen": True})
    await pair.people[who].call("PATCH", "/v1/me", {"show_last_seen": False})


def connect_as_other(**hello: Any) -> Act:
    """Let the other one connect again."""

    async def act(pair: Pair, who: int) -> None:
        socket = pair.sockets[1 - who]
        await socket.drop()
        await greeted(socket, pair.people[1 - who], **hello)

    return act


def fetch_as_other(where: str) -> Act:
    """Let the other one fetch a page."""

    async def act(pair: Pair, who: int) -> None:
        await pair.sockets[1 - who].ask({"op": "fetch", "chat": pair.chats[where], "after": 0})

    return act


ROWS: Final[dict[str, tuple[Act, Row]]] = {
    "entry: message": (write("group"), Row("masked", "same")),
    "entry: message, direct": (write("direct"), Row("masked", "same")),
    "entry: mention": (write("group", mentions=True), Row("masked", "same")),
    "entry: edited": (change("PATCH", "", {"content": "new"}), Row("masked", "same")),
    "entry: reaction": (change("PUT", "/reactions/👍"), Row("masked", "same")),
    "entry: redacted": (change("DELETE", ""), Row("masked", "same")),
    "typing: in a group": (say("typing", "group"), Row("nothing", "same")),
    "typing: direct": (say("typing", "direct"), Row("nothing", "nothing")),
    "receipt: in a group": (look("group"), Row("same", "same")),
    "receipt: direct": (look("direct"), Row("same", "nothing")),
    "unread_total: after a mention": (write("group", mentions=True), Row("nothing", "same")),
    "page: of a group": (fetch_as_other("group"), Row("masked", "same")),
    "page: direct": (fetch_as_other("direct"), Row("masked", "same")),
    "entry: on catch-up": (connect_as_other(), Row("masked", "same")),
    "heads: on catch-up": (connect_as_other(catch_up="heads"), Row("same", "same")),
    "unread_total: on catch-up": (connect_as_other(totals=True), Row("less", "same")),
    "presence: offline": (go, Row("nothing", "nothing")),
    "presence: hidden": (hide, Row("nothing", "nothing")),
}
"""What one does, and the frames that the other gets."""
ONLY: Final[dict[str, Frame]] = {"presence": {"online": False}}
"""Fields of the frames that are compared. A new connection is told later who is online."""
NOT_ABOUT_OTHERS: Final = frozenset(
    "welcome live sent refused chat_changed unread inbox_missed notification retracted marked"
    " erased resync gone bye pong invited scheduled_failed profile".split()
)
"""Frames about the user alone, about the tenant, or with what REST answers to the same user.
`profile` is public, and `invited` is about a chat in which nobody has written."""


async def greeted(socket: Socket, person: Person, **more: Any) -> Socket:
    since = len(socket.raw)
    await socket.open()
    socket.tell({"op": "hello", "token": person.token, "device": "phone", "totals": True, **more})
    await socket.frame("live", since=since)
    return socket


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pairs(town: Town) -> AsyncIterator[list[Pair]]:
    """One with a block, and one without."""
    made: list[Pair] = []
    for is_blocked in (True, False):
        amy, ben = await people(town, "amy", "ben")
        chats = {
            "group": await amy.create_group("A group", [ben]),
            "direct": await amy.create_direct(ben),
        }
        await ben.send(chats["direct"])
        await amy.send(chats["direct"])
        if is_blocked:
            await amy.call("PUT", f"/v1/me/blocks/{ben.user_id}")
        sockets = [await greeted(Socket(town.url), one) for one in (amy, ben)]
        made.append(Pair((amy, ben), chats, (sockets[AMY], sockets[BEN]), is_blocked))
    yield made
    for pair in made:
        for socket in pair.sockets:
            await socket.drop()


async def seen(pairs: list[Pair], watcher: int, op: str, act: Act, expected: Cell) -> Cell:
    """What a watcher is told of the other, compared with the pair without a block."""
    marks = [len(pair.sockets[watcher].raw) for pair in pairs]
    for pair in pairs:
        await act(pair, 1 - watcher)
    for pair, mark in reversed(list(zip(pairs, marks, strict=True))):
        if pair is pairs[1] or expected != "nothing":
            await pair.sockets[watcher].frame(op, since=mark, **ONLY.get(op, {}))
        await settled(pair.sockets[watcher])

    def cell() -> Cell:
        return compare(
            *[
                [pair.plain(frame) for frame in about_other(pair, watcher, op, mark)]
                for pair, mark in zip(pairs, marks, strict=True)
            ]
        )

    with suppress(NotInTime):  # the total of a second may come after that of the second before it
        await until(lambda: cell() == expected)
    found = cell()
    for pair in pairs:
        for socket, person in zip(pair.sockets, pair.people, strict=True):
            if not socket.is_open:
                await greeted(socket, person)
    return found


def about_other(pair: Pair, watcher: int, op: str, since: int) -> list[Frame]:
    """The frames that the watcher got since then, without those about the watcher; of totals, the
    last one."""
    own, wanted = pair.people[watcher].user_id, {"op": op, **ONLY.get(op, {})}
    frames = [
        frame for frame in pair.sockets[watcher].raw[since:] if wanted.items() <= frame.items()
    ]
    others = [frame for frame in frames if own not in (frame.get("sender"), frame.get("user"))]
    return others[-1:] if op == "unread_total" else others


def compare(found: list[str], plain: list[str]) -> Cell:
    """What is different where somebody is blocked."""
    if not found and plain:
        return "nothing"
    if set(found) == set(plain):
        return "same"
    return "masked" if any('"blocked":true' in one for one in found) else "less"


async def test_every_frame_has_a_row_unless_it_is_about_nobody_else() -> None:
    every = {frame.__struct_config__.tag for frame in FROM_SERVER}
    named = {row.partition(":")[0] for row in ROWS}
    assert not named & NOT_ABOUT_OTHERS
    assert every - NOT_ABOUT_OTHERS == named


@pytest.mark.attack("D19")
async def test_who_is_told_what_of_whom(pairs: list[Pair]) -> None:
    """All in one test: the rows follow each other."""
    found = {}
    for name, (act, expected) in ROWS.items():
        op = name.partition(":")[0]
        found[name] = Row(
            *[await seen(pairs, watcher, op, act, expected[watcher]) for watcher in (AMY, BEN)]
        )
    assert found == {name: expected for name, (_, expected) in ROWS.items()}
    assert told(pairs[0].sockets[BEN], "chat_changed") == []

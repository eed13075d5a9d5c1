# SPDX-License-Identifier: Apache-2.0
"""Attacks of an ordinary user, within the limits: dear reads, large groups, fetches, many peers."""

import asyncio
from typing import Final

import msgspec

from bench.neighbours.ground import Ground
from bench.neighbours.http_client import HttpClient
from bench.plain_socket import PlainSocket
from tidings.model import limits

READERS: Final = 50
SOCKETS: Final = 20
FRAMES: Final = 200
GROUP: Final = limits.SMALL_CHAT_MEMBERS_MAX


class ManyUnread:
    """A user with 100 chats of 980 unread messages each asks for the chat list, all the time."""

    id = "S03"
    title = "chat lists, 100 chats of 980 unread"

    def __init__(self) -> None:
        self._token = ""

    async def prepare(self, ground: Ground) -> None:
        """Somebody else writes in each chat."""
        friends = [f"friend{number}" for number in range(ground.of(100, 5))]
        self._token, *tokens = await ground.tokens(["reader", *friends])
        for token in tokens:
            made = await ground.call(
                "POST", "/v1/chats", token, {"type": "direct", "members": ["reader"]}
            )
            await asyncio.to_thread(
                _write, ground.target.url, token, made["chat_id"], ground.of(980, 50)
            )

    async def strike(self, ground: Ground) -> None:
        """300 requests, 50 at once."""
        await _ask_at_once(ground, self._token, "/v1/chats?limit=100", ground.of(300, 50))


class ManyChats:
    """A user in 1,000 empty chats asks for the chat list, all the time."""

    id = "S03"
    title = "chat lists, 1,000 empty chats"

    def __init__(self) -> None:
        self._token = ""

    async def prepare(self, ground: Ground) -> None:
        """Groups of one's own."""
        [self._token] = await ground.tokens(["collector"])
        body = {"type": "group", "name": "empty", "members": []}
        count = ground.of(limits.USER_CHATS_MAX - 10, 20)
        await ground.all_of(
            [ground.call("POST", "/v1/chats", self._token, body) for _ in range(count)]
        )

    async def strike(self, ground: Ground) -> None:
        """500 requests, 50 at once."""
        await _ask_at_once(ground, self._token, "/v1/chats?limit=100", ground.of(500, 50))


class LargeGroups:
    """A user makes groups of 1,000, many at once."""

    id = "S04"
    title = "groups of 1,000"

    def __init__(self) -> None:
        self._token = ""
        self._body = b""

    async def prepare(self, ground: Ground) -> None:
        """As many users as a group may have."""
        names = [f"m{number}" for number in range(ground.of(limits.GROUP_MEMBERS_MAX - 1, 20))]
        self._token, *_ = await ground.tokens(["maker", *names])
        self._body = msgspec.json.encode({"type": "group", "name": "large", "members": names})

    async def strike(self, ground: Ground) -> None:
        """150 of them, 50 at once."""
        await _ask_at_once(ground, self._token, "/v1/chats", ground.of(150, 10), self._body)


class Fetching:
    """A user fetches pages over as many sockets as one may have."""

    id = "S10"
    title = "fetches over 20 sockets"

    def __init__(self) -> None:
        self._token = self._chat = ""

    async def prepare(self, ground: Ground) -> None:
        """A chat with some pages."""
        self._token, *_ = await ground.tokens(["fetcher", "other"])
        body = {"type": "direct", "members": ["other"]}
        self._chat = (await ground.call("POST", "/v1/chats", self._token, body))["chat_id"]
        await asyncio.to_thread(
            _write, ground.target.url, self._token, self._chat, ground.of(1_000, 50)
        )

    async def strike(self, ground: Ground) -> None:
        """200 fetches on each."""
        opened = await ground.all_of([_connected(ground, self._token) for _ in range(SOCKETS)])
        sockets = [one for one in opened if one is not None]
        frame = {"op": "fetch", "chat": self._chat, "after": 0, "limit": 100}
        frames = [
            msgspec.json.encode(frame | {"id": f"{number}"})
            for number in range(ground.of(FRAMES, 20))
        ]
        try:
            found = await asyncio.gather(
                *(asyncio.to_thread(_answers, one, frames) for one in sockets)
            )
            for counts in found:
                ground.outcomes.update(counts)
        finally:
            for one in sockets:
                one.close()


class ManyPeers:
    """A user who shares small groups with thousands of others connects, again and again."""

    id = "S15"
    title = "hello among thousands of peers"

    def __init__(self) -> None:
        self._token = ""

    async def prepare(self, ground: Ground) -> None:
        """Groups of 64, each made by somebody else in it."""
        groups = ground.of(60, 2)
        self._token, *_ = await ground.tokens(["popular"])
        for group in range(groups):
            names = [f"p{group}-{number}" for number in range(GROUP - 1)]
            owner, *_ = await ground.tokens(names)
            members = ["popular", *names[1:]]
            body = {"type": "group", "name": "small", "members": members}
            await ground.call("POST", "/v1/chats", owner, body)

    async def strike(self, ground: Ground) -> None:
        """20 hellos."""
        for _ in range(ground.of(20, 2)):
            plain = await _connected(ground, self._token)
            if plain is not None:
                plain.close()


async def _ask_at_once(
    ground: Ground, token: str, path: str, count: int, body: bytes | None = None
) -> None:
    """So many requests of one user, over as many connections as a browser farm would have."""

    async def some(share: int) -> None:
        async with HttpClient(ground.target.url) as client:
            for _ in range(share):
                await ground.strike(client, "GET" if body is None else "POST", path, token, body)

    clients = min(READERS, count)
    async with asyncio.TaskGroup() as group:
        for number in range(clients):
            group.create_task(some(count // clients + (number < count % clients)))


async def _connected(ground: Ground, token: str) -> PlainSocket | None:
    """One more socket of this user, if the server still lets the user in."""

    def connect() -> PlainSocket | None:
        try:
            return PlainSocket(ground.target.url, token)
        except (OSError, SystemExit):
            return None

    plain = await asyncio.to_thread(connect)
    ground.outcomes["live" if plain else "turned away"] += 1
    return plain


def _write(url: str, token: str, chat: str, count: int) -> None:
    """So many messages, without waiting for each answer."""
    plain = PlainSocket(url, token)
    for number in range(count):
        frame = {
            "op": "send",
            "id": f"{number}",
            "chat": chat,
            "client_message_id": f"m{number}",
            "content": "hello",
        }
        plain.send(msgspec.json.encode(frame))
    for _ in range(count):
        plain.receive("sent")
    plain.close()


def _answers(plain: PlainSocket, frames: list[bytes]) -> dict[str, int]:
    """What became of these frames."""
    counts = {"page": 0, "refused": 0}
    try:
        for frame in frames:
            plain.send(frame)
            counts[plain.receive_any("page", "refused")["op"]] += 1
    except (OSError, SystemExit):
        counts["closed"] = 1
    return counts

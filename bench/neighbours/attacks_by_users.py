# SPDX-License-Identifier: Apache-2.0
"""Attacks by an ordinary user within the limits: expensive reads, large groups, fetches, many
peers, downloads."""

import asyncio
from typing import Final

import msgspec

from bench.downloads import seconds_to_read
from bench.neighbours.ground import Ground
from bench.neighbours.http_client import HttpClient
from bench.plain_socket import PlainSocket
from tidings.model import limits
from tidings.model.attachments import USER_DOWNLOADS_AT_ONCE_MAX

READERS: Final = 50
SOCKETS: Final = 20
FRAMES: Final = 200
GROUP: Final = limits.SMALL_CHAT_MEMBERS_MAX


class ManyUnread:
    """A user with 100 chats of 980 unread messages each requests the chat list again and again."""

    id = "S03"
    title = "chat lists, 100 chats of 980 unread"

    def __init__(self) -> None:
        self._token = ""

    async def prepare(self, ground: Ground) -> None:
        """Create the chats, and let another user write in each of them."""
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
        """Send 300 requests over 50 connections."""
        await _ask_at_once(ground, self._token, "/v1/chats?limit=100", ground.of(300, 50))


class ManyChats:
    """A user in 1,000 empty chats requests the chat list again and again."""

    id = "S03"
    title = "chat lists, 1,000 empty chats"

    def __init__(self) -> None:
        self._token = ""

    async def prepare(self, ground: Ground) -> None:
        """Create groups without other members."""
        [self._token] = await ground.tokens(["collector"])
        body = {"type": "group", "name": "empty", "members": []}
        count = ground.of(limits.USER_CHATS_MAX - 10, 20)
        await ground.all_of(
            [ground.call("POST", "/v1/chats", self._token, body) for _ in range(count)]
        )

    async def strike(self, ground: Ground) -> None:
        """Send 500 requests over 50 connections."""
        await _ask_at_once(ground, self._token, "/v1/chats?limit=100", ground.of(500, 50))


class LargeGroups:
    """A user creates groups of 1,000 members, many at once."""

    id = "S04"
    title = "groups of 1,000"

    def __init__(self) -> None:
        self._token = ""
        self._body = b""

    async def prepare(self, ground: Ground) -> None:
        """Create as many users as a group may have."""
        names = [f"m{number}" for number in range(ground.of(limits.GROUP_MEMBERS_MAX - 1, 20))]
        self._token, *_ = await ground.tokens(["maker", *names])
        self._body = msgspec.json.encode({"type": "group", "name": "large", "members": names})

    async def strike(self, ground: Ground) -> None:
        """Create 150 groups over 50 connections."""
        await _ask_at_once(ground, self._token, "/v1/chats", ground.of(150, 10), self._body)


class Fetching:
    """A user fetches pages over the maximum number of sockets."""

    id = "S10"
    title = "fetches over 20 sockets"

    def __init__(self) -> None:
        self._token = self._chat = ""

    async def prepare(self, ground: Ground) -> None:
        """Create a chat with several pages of messages."""
        self._token, *_ = await ground.tokens(["fetcher", "other"])
        body = {"type": "direct", "members": ["other"]}
        self._chat = (await ground.call("POST", "/v1/chats", self._token, body))["chat_id"]
        await asyncio.to_thread(
            _write, ground.target.url, self._token, self._chat, ground.of(1_000, 50)
        )

    async def strike(self, ground: Ground) -> None:
        """Send 200 fetches over each socket."""
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
    """A user who shares small groups with thousands of other users connects again and again."""

    id = "S15"
    title = "hello among thousands of peers"

    def __init__(self) -> None:
        self._token = ""

    async def prepare(self, ground: Ground) -> None:
        """Create groups of 64 members, each by another user."""
        groups = ground.of(60, 2)
        self._token, *_ = await ground.tokens(["popular"])
        for group in range(groups):
            names = [f"p{group}-{number}" for number in range(GROUP - 1)]
            owner, *_ = await ground.tokens(names)
            members = ["popular", *names[1:]]
            body = {"type": "group", "name": "small", "members": members}
            await ground.call("POST", "/v1/chats", owner, body)

    async def strike(self, ground: Ground) -> None:
        """Connect 20 times."""
        for _ in range(ground.of(20, 2)):
            plain = await _connected(ground, self._token)
            if plain is not None:
                plain.close()


class Downloading:
    """A user downloads a large file as fast as the server can send it, several times at once."""

    id = "D21"
    title = "fast downloads of a large file"

    def __init__(self) -> None:
        self._url, self._headers, self._size = "", dict[str, str](), 0

    async def prepare(self, ground: Ground) -> None:
        """Upload a file of 100 MiB, and send it."""
        self._size = ground.of(100) * 2**20
        [token] = await ground.tokens(["hoarder"])
        self._headers = {"Authorization": f"Bearer {token}"}
        chat = await ground.call(
            "POST", "/v1/chats", token, {"type": "group", "name": "files", "members": []}
        )
        file = {"name": "f", "content_type": "application/x-file", "size": self._size}
        name = (await ground.call("POST", "/v1/attachments", token, file))["attachment_id"]
        await ground.put_file(f"/v1/attachments/{name}", token, self._size)
        message = {"client_message_id": "m1", "content": "", "attachments": [name]}
        messages = f"/v1/chats/{chat['chat_id']}/messages"
        sent = await ground.call("POST", messages, token, message)
        self._url = f"{ground.target.url}{messages}/{sent['sequence']}/attachments/{name}"

    async def strike(self, ground: Ground) -> None:
        """Read the file as often at the same time as one user may."""
        read = [
            asyncio.to_thread(seconds_to_read, self._url, self._headers, self._size)
            for _ in range(USER_DOWNLOADS_AT_ONCE_MAX)
        ]
        ground.outcomes["200"] += len(await asyncio.gather(*read))


async def _ask_at_once(
    ground: Ground, token: str, path: str, count: int, body: bytes | None = None
) -> None:
    """Send this many requests of one user, spread over up to `READERS` connections."""

    async def some(share: int) -> None:
        async with HttpClient(ground.target.url) as client:
            for _ in range(share):
                await ground.strike(client, "GET" if body is None else "POST", path, token, body)

    clients = min(READERS, count)
    async with asyncio.TaskGroup() as group:
        for number in range(clients):
            group.create_task(some(count // clients + (number < count % clients)))


async def _connected(ground: Ground, token: str) -> PlainSocket | None:
    """Open another socket of this user; return None if the server refuses it."""

    def connect() -> PlainSocket | None:
        try:
            return PlainSocket(ground.target.url, token)
        except (OSError, SystemExit):
            return None

    plain = await asyncio.to_thread(connect)
    ground.outcomes["live" if plain else "turned away"] += 1
    return plain


def _write(url: str, token: str, chat: str, count: int) -> None:
    """Send this many messages, then wait for all answers."""
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
    """Send these frames one by one; return how many were answered with a page, and how many were
    refused."""
    counts = {"page": 0, "refused": 0}
    try:
        for frame in frames:
            plain.send(frame)
            counts[plain.receive_any("page", "refused")["op"]] += 1
    except (OSError, SystemExit):
        counts["closed"] = 1
    return counts

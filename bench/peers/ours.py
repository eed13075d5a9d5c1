# SPDX-License-Identifier: Apache-2.0
"""Our own server with all its features on, and its users in the terms of the load."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import urlsplit

import msgspec

from bench.peers.member import NUMBER, Member, Ping, Receipt, Server
from bench.peers.wire import Connection, Steps, connect, number_after
from bench.server import Target, own_server
from bench.websocket import text_frame, upgrade_request
from tidings.tools.load_crowd import LoadUser, People
from tidings.tools.load_talker import CONTENT, Rest

MESSAGE: Final = b'"kind":"message","sender":"'
SENT: Final = b'"op":"sent"'

_REFUSALS: Final = (b'"op":"refused"', b'"op":"bye"')
_ENTRY: Final = b'"op":"entry"'
_SEQUENCE: Final = re.compile(rb'"sequence":(\d+),')


class Tidings(Server):
    """Our server while it runs."""

    copies_to_sender = 0

    def __init__(self, target: Target) -> None:
        self._target = target
        port = urlsplit(target.url).port
        assert port is not None
        self._port = port

    def cpu_seconds(self) -> dict[str, float]:
        """Return the CPU time."""
        return {"tidings": self._target.cpu_seconds()}

    async def pairs(self, count: int) -> list[tuple[Member, Member]]:
        """Create pairs of users, each with a direct chat, and connect them."""
        async with self._people() as people:
            pairs = await people.pairs(range(count))
        members = []
        for pair in pairs:
            left, right = pair.users
            members.append(
                (
                    await self._member(left, pair.chat, sender=right.name),
                    await self._member(right, pair.chat, sender=left.name),
                )
            )
        return members

    async def group(self, size: int, senders: int) -> list[Member]:
        """Create a group of new users and connect them."""
        async with self._people() as people:
            users = await people.users(range(size))
            chat = await people.group(users)
        return [
            await self._member(user, chat, is_sender=number < senders)
            for number, user in enumerate(users)
        ]

    async def ping(self) -> Ping:
        """Create a user who pings."""
        async with self._people() as people:
            (user,) = await people.users([0])
        pong = b'"op":"pong"'
        return Ping(
            port=self._port,
            login=self._login(user),
            ping=text_frame(b'{"op":"ping"}'),
            pong=pong,
        )

    @asynccontextmanager
    async def _people(self) -> AsyncIterator[People]:
        rest = Rest(self._target.url)
        try:
            people = People(rest, self._target.root_key)
            await people.start()
            yield people
        finally:
            rest.close()

    async def _member(
        self, user: LoadUser, chat: str, *, sender: str = "", is_sender: bool = False
    ) -> Member:
        """Connect a user. In a pair, `sender` is the other user; in a group, a user who sends may
        get their own messages again when the connection has fallen behind."""
        connection = await connect(self._port, user.name, _REFUSALS)
        await connection.take(self._login(user))
        return Member(
            connection=connection,
            message=_message(connection, chat),
            arrival=_from(sender) if sender else MESSAGE,
            answer=SENT,
            echo=_from(user.name) if is_sender else b"",
            receipt=_receipt(chat),
        )

    def _login(self, user: LoadUser) -> Steps:
        hello = {"op": "hello", "token": user.token, "device": f"load-{user.name}"}
        return [
            (upgrade_request(f"127.0.0.1:{self._port}", "/v1/ws"), b" 101 "),
            (text_frame(msgspec.json.encode(hello)), b'"op":"live"'),
        ]


@asynccontextmanager
async def own_tidings() -> AsyncIterator[Tidings]:
    """Start a new server without users; stop it afterwards."""
    async with own_server() as target:
        yield Tidings(target)


def _from(sender: str) -> bytes:
    return MESSAGE + sender.encode() + b'"'


def _message(connection: Connection, chat: str) -> bytes:
    number = NUMBER.decode()
    return text_frame(
        f'{{"op":"send","id":"{number}","chat":"{chat}",'
        f'"client_message_id":"{connection.user}-{number}","content":"{CONTENT}"}}'.encode()
    )


def _receipt(chat: str) -> Receipt:
    def receipt(data: bytes) -> bytes | None:
        if (sequence := number_after(data, _ENTRY, _SEQUENCE)) is None:
            return None
        return text_frame(f'{{"op":"received","chat":"{chat}","sequence":{sequence}}}'.encode())

    return receipt

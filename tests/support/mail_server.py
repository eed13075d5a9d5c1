# SPDX-License-Identifier: Apache-2.0
"""A mail server for tests, which speaks SMTP with STARTTLS and keeps what it gets.

A test scripts how it answers: `answers["RCPT"].append("451 later")` is the answer to the next
command RCPT. The answer to a whole message has the name `END`. The answer "hang up" closes the
connection instead.
"""

import asyncio
import email
import email.policy
import ssl
from base64 import b64decode
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from email.message import EmailMessage

HANG_UP = "hang up"


@dataclass
class Received:
    """An e-mail that the server took."""

    sender: str
    recipient: str
    content: bytes
    was_encrypted: bool
    login: str

    @property
    def message(self) -> EmailMessage:
        """The parsed message."""
        parsed = email.message_from_bytes(self.content, policy=email.policy.SMTP)
        assert isinstance(parsed, EmailMessage)
        return parsed

    def part(self, kind: str) -> str:
        """The text of the part of this kind: plain or html."""
        found = self.message.get_body((kind,))
        assert found is not None
        return str(found.get_content())


class Hangup(Exception):
    """The script says that the connection ends here."""


@dataclass
class TestMailServer:
    """Takes e-mails, and answers as the test says."""

    __test__ = False

    tls: ssl.SSLContext | None
    port: int = 0
    received: list[Received] = field(default_factory=list)
    answers: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    connections: int = 0
    released: asyncio.Event = field(default_factory=asyncio.Event)
    """While this is not set, the server does not answer a whole message."""
    waiting: int = 0

    def __post_init__(self) -> None:
        self.released.set()

    def to(self, recipient: str) -> list[Received]:
        """The e-mails to one address."""
        return [one for one in self.received if one.recipient == recipient]

    def answer(self, command: str, usual: str) -> str:
        """The next answer to a command."""
        scripted = self.answers[command]
        answer = scripted.pop(0) if scripted else usual
        if answer == HANG_UP:
            raise Hangup
        return answer


class _Conversation:
    """One connection of a client."""

    def __init__(
        self, server: TestMailServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._server, self._reader, self._writer = server, reader, writer
        self._is_encrypted = False
        self._sender = self._recipient = self._login = ""

    async def run(self) -> None:
        self._say(self._server.answer("CONNECT", "220 test"))
        while line := await self._reader.readline():
            command, _, rest = line.decode().strip().partition(" ")
            await self._do(command.upper(), rest)
            if command.upper() == "QUIT":
                return

    def _say(self, answer: str) -> None:
        self._writer.write(f"{answer}\r\n".encode())

    async def _do(self, command: str, rest: str) -> None:
        match command:
            case "EHLO":
                more = "STARTTLS" if self._server.tls and not self._is_encrypted else "AUTH PLAIN"
                self._say(f"250-test\r\n250 {more}")
            case "STARTTLS":
                self._say("220 go ahead")
                assert self._server.tls is not None
                await self._writer.start_tls(self._server.tls)
                self._is_encrypted = True
            case "AUTH":
                self._login = b64decode(rest.partition(" ")[2]).decode().strip("\0")
                self._say(self._server.answer("AUTH", "235 welcome"))
            case "MAIL":
                self._sender = rest.removeprefix("FROM:").partition(">")[0].lstrip("<")
                self._say(self._server.answer(command, "250 ok"))
            case "RCPT":
                self._recipient = rest.removeprefix("TO:").strip("<>")
                self._say(self._server.answer(command, "250 ok"))
            case "DATA":
                await self._take()
            case _:
                self._say("250 ok")

    async def _take(self) -> None:
        answer = self._server.answer("DATA", "354 go ahead")
        self._say(answer)
        if not answer.startswith("354"):
            return
        lines = []
        while (line := await self._reader.readline()) != b".\r\n":
            if not line:
                raise Hangup
            lines.append(line[1:] if line.startswith(b"..") else line)
        self._server.waiting += 1
        await self._server.released.wait()
        self._server.waiting -= 1
        answer = self._server.answer("END", "250 taken")
        if answer.startswith("250"):
            self._server.received.append(
                Received(
                    self._sender,
                    self._recipient,
                    b"".join(lines),
                    self._is_encrypted,
                    self._login.replace("\0", ":"),
                )
            )
        self._say(answer)


@asynccontextmanager
async def open_mail_server(tls: ssl.SSLContext | None = None) -> AsyncIterator[TestMailServer]:
    """Run a mail server on a free port of this machine."""
    made = TestMailServer(tls)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        made.connections += 1
        with suppress(Hangup, ConnectionError, ssl.SSLError, asyncio.IncompleteReadError):
            await _Conversation(made, reader, writer).run()
        with suppress(ConnectionError, ssl.SSLError):
            writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        made.released.set()
        server.close()

# SPDX-License-Identifier: Apache-2.0
"""Describes a connected user of any server in the few terms that the load needs."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, Final, Protocol, runtime_checkable

import msgspec

from bench.peers.outcome import Rows
from bench.peers.wire import Connection, Steps

Receipt = Callable[[bytes], bytes | None]
"""Returns the receipt for the last message in the bytes that have just arrived; None if no message
is complete in them."""

NUMBER: Final = b"#" * 9
"""Stands for the number of a message. All numbers are written with as many digits, so that all
messages of a sender have the same size."""


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """A connected user, and how to recognise messages in the bytes that arrive."""

    connection: Connection
    message: bytes
    """Sends a message to the other user or to the group; `NUMBER` is where its number belongs."""
    arrival: bytes
    """Occurs once in each message that arrives."""
    answer: bytes = b""
    """Occurs once in each answer to a message of this user. Empty if the server does not answer: a
    message is completed when it reaches the other user."""
    echo: bytes = b""
    """Occurs once in each message of this user that arrives at this user again; not counted."""
    receipt: Receipt | None = None
    """None if the server keeps no receipts."""

    def messages(self, numbers: range) -> bytes:
        """Return the bytes that send the messages with these numbers."""
        return b"".join([self.message.replace(NUMBER, b"%09d" % number) for number in numbers])


class Ping(msgspec.Struct, frozen=True, kw_only=True):
    """What a separate process says to a server to measure how soon it answers."""

    port: int
    login: Steps
    ping: bytes
    pong: bytes


class Server(ABC):
    """A running server with its databases."""

    copies_to_sender: ClassVar[int]
    """Number of times that a message to a group arrives at its sender."""

    @abstractmethod
    def cpu_seconds(self) -> dict[str, float]:
        """Return the CPU time so far, by program."""

    @abstractmethod
    async def pairs(self, count: int) -> list[tuple[Member, Member]]:
        """Connect pairs of new users who send to each other."""

    @abstractmethod
    async def group(self, size: int, senders: int) -> list[Member]:
        """Connect new users who are all in one group; the first ones send."""

    def rows(self, sent_to_pairs: int, sent_to_group: int) -> Rows | None:
        """Return how many rows the archive should have after these messages, and how many it has;
        None if an answer says whether the message is stored."""
        del sent_to_pairs, sent_to_group
        return None

    def errors(self) -> int:
        """Return the number of errors in the log; 0 if every error stops the load."""
        return 0

    def settings(self) -> dict[str, str]:
        """Return the settings that decide whether an answer means that a message is durable, if
        there are any."""
        return {}


@runtime_checkable
class Pinged(Protocol):
    """A server that a separate process can ping."""

    async def ping(self) -> Ping:
        """Create a user who pings."""

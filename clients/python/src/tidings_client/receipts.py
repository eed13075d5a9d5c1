# SPDX-License-Identifier: Apache-2.0
"""What a client owes the server: `received` for what the application took, and read marks. No I/O.

`received` moves with what the application has taken, not with what came in: an application that
takes nothing lets the server's window fill up, and the server stops sending.
"""

from typing import Final

from tidings_client.frames import Read, Received

RECEIVED_ENTRIES_MAX: Final = 100
"""After this many entries `received` is said at once; otherwise it waits for the next tick."""
READ_MARKS_MAX: Final = 200
"""How many chats' read marks are kept and repeated, the most recently read ones."""


class Receipts:
    """How far each chat was taken and read, and what the server was told of it."""

    def __init__(self, reads: dict[str, int]) -> None:
        self._taken: dict[str, int] = {}
        """Taken and not yet said."""
        self._said: dict[str, int] = {}
        """Said on this connection: whether it arrived is not known."""
        self._count = 0
        self._is_awaited = False
        """Whether somebody else's entry is among what was taken: its sender waits for the news."""
        self._reads = dict(reads)

    # Receiving.

    def taken(self, chat: str, sequence: int, *, is_awaited: bool) -> None:
        """The application has taken an entry."""
        self._taken[chat] = sequence
        self._count += 1
        self._is_awaited = self._is_awaited or is_awaited

    def received(self, *, is_tick: bool) -> list[Received]:
        """What has to be said now. At a tick, own messages alone are not worth a frame."""
        if not (self._is_awaited if is_tick else self._count >= RECEIVED_ENTRIES_MAX):
            return []
        frames = [Received(chat, sequence) for chat, sequence in self._taken.items()]
        self._said |= self._taken
        self._taken, self._count, self._is_awaited = {}, 0, False
        return frames

    # Reading.

    def read(self, chat: str, sequence: int) -> list[str] | None:
        """The user has read this far. None if that was known; else chats whose mark is dropped."""
        if sequence <= self._reads.get(chat, 0):
            return None
        self._reads.pop(chat, None)
        self._reads[chat] = sequence
        dropped = list(self._reads)[:-READ_MARKS_MAX]
        for old in dropped:
            del self._reads[old]
        return dropped

    def marks(self) -> list[Read]:
        """The latest read marks, to be repeated whenever a connection has become live."""
        return [Read(chat, sequence) for chat, sequence in self._reads.items()]

    # Losing.

    def lost(self) -> None:
        """The connection is gone: what was said on it may not have arrived."""
        self._taken = self._said | self._taken
        self._is_awaited = bool(self._taken)
        self._said = {}

    def forget(self, chat: str) -> None:
        """The chat is gone, or another one by now."""
        for known in (self._taken, self._said, self._reads):
            known.pop(chat, None)

    def forget_all(self) -> None:
        """The epoch changed: no sequence means what it did."""
        for known in (self._taken, self._said, self._reads):
            known.clear()
        self._count, self._is_awaited = 0, False

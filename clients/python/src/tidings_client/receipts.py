# SPDX-License-Identifier: Apache-2.0
"""Report to the server what the application has received and read. No I/O.

`received` is sent for entries that the application has confirmed, not for those that have arrived.
If the application confirms nothing, the server's window fills up, and the server stops sending.
"""

from typing import Final

from tidings_client.frames import Read, Received

RECEIVED_ENTRIES_MAX: Final = 100
"""After this many entries `received` is sent at once; otherwise it waits for the next tick."""
READ_MARKS_MAX: Final = 200
"""Number of chats whose read marks are saved and repeated: those that were read most recently."""


class Receipts:
    """How far each chat was confirmed and read, and how much of it was sent to the server."""

    def __init__(self, reads: dict[str, int]) -> None:
        self._taken: dict[str, int] = {}
        """The last confirmed entry of each chat, if it was not reported to the server yet."""
        self._said: dict[str, int] = {}
        """The last entry of each chat that was reported on this connection; the report may not have
        arrived."""
        self._count = 0
        self._is_awaited = False
        """Whether an entry of another user is among those that were not reported yet. Its sender
        waits for the report."""
        self._reads = dict(reads)

    # Receiving.

    def taken(self, chat: str, sequence: int, *, is_awaited: bool) -> None:
        """Record that the application has confirmed an entry."""
        self._taken[chat] = sequence
        self._count += 1
        self._is_awaited = self._is_awaited or is_awaited

    def received(self, *, is_tick: bool) -> list[Received]:
        """Return the frames to send now. At a tick, there are none if only the user's own messages
        are new."""
        if not (self._is_awaited if is_tick else self._count >= RECEIVED_ENTRIES_MAX):
            return []
        frames = [Received(chat, sequence) for chat, sequence in self._taken.items()]
        self._said |= self._taken
        self._taken, self._count, self._is_awaited = {}, 0, False
        return frames

    # Reading.

    def read(self, chat: str, sequence: int) -> list[str] | None:
        """Record that the user has read a chat up to a sequence.

        Return None if that was known, else the chats whose marks are dropped because of the limit.
        """
        if sequence <= self._reads.get(chat, 0):
            return None
        self._reads.pop(chat, None)
        self._reads[chat] = sequence
        dropped = list(self._reads)[:-READ_MARKS_MAX]
        for old in dropped:
            del self._reads[old]
        return dropped

    def marks(self) -> list[Read]:
        """Return the latest read marks, which are sent again whenever a connection becomes live."""
        return [Read(chat, sequence) for chat, sequence in self._reads.items()]

    # Losing.

    def lost(self) -> None:
        """Handle the loss of the connection: the reports that were sent on it may not have
        arrived."""
        self._taken = self._said | self._taken
        self._is_awaited = bool(self._taken)
        self._said = {}

    def forget(self, chat: str) -> None:
        """Forget a chat that was deleted or that the user left."""
        for known in (self._taken, self._said, self._reads):
            known.pop(chat, None)

    def forget_all(self) -> None:
        """Forget all chats, because the epoch has changed and no sequence is valid any more."""
        for known in (self._taken, self._said, self._reads):
            known.clear()
        self._count, self._is_awaited = 0, False

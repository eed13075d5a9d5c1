# SPDX-License-Identifier: Apache-2.0
"""Follow the log of each chat without gaps, as the protocol requires of a client. No I/O.

The result for each chat is a series of steps. `Apply` steps come in order, without a gap, each
entry once. `Restart` means that the entries begin again at its `start`. `Forget` means that the
chat is gone. If an entry cannot be applied now, because an earlier entry is missing or there is no
room, the chat is behind: its missing entries are requested from the server.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import Final

import msgspec

from tidings_client.frames import Entry

AHEAD_ENTRIES_MAX: Final = 200
"""Number of entries per chat that are kept if they arrive too early; others are fetched again."""


class Apply(msgspec.Struct, frozen=True):
    """The next entry of a chat must be applied."""

    entry: Entry


class Restart(msgspec.Struct, frozen=True):
    """The entries of a chat that were applied are invalid; entries from `start` on follow."""

    chat: str
    start: int


class Forget(msgspec.Struct, frozen=True):
    """The chat is gone, or no longer the user's."""

    chat: str


Step = Apply | Restart | Forget


class Want(msgspec.Struct, frozen=True):
    """A missing part of a chat's log: the entries after `after`, or the newest before `before`."""

    chat: str
    after: int | None = None
    before: int | None = None


class _Chat:
    """The state of one chat."""

    __slots__ = ("ahead", "have", "is_asked", "is_stale", "name", "restart_head", "seen")

    def __init__(self, name: str, have: int | None = None, *, is_stale: bool = False) -> None:
        self.name = name
        self.have = have
        """The sequence of the last applied entry; None if no valid entry was applied."""
        self.is_stale = is_stale
        """Whether the applied entries are from another epoch, so that a `Restart` must follow."""
        self.seen = have or 0
        """The sequence of the last entry that is known to exist."""
        self.restart_head: int | None = None
        """If set, the newest page, which ends here, must be loaded before anything is applied."""
        self.ahead: dict[int, Entry] = {}
        self.is_asked = False
        """Whether missing entries were requested, or must not be requested at the moment."""

    @property
    def is_behind(self) -> bool:
        """Whether entries have to be fetched."""
        return self.restart_head is not None or (self.have is not None and self.seen > self.have)


class LogView:
    """The state of all chats of one user on one device."""

    def __init__(
        self, held: Mapping[str, int], stale: Iterable[str], has_room: Callable[[], bool]
    ) -> None:
        """Create a view from the saved state.

        `held` has the last applied entry of each chat; `stale` are chats from another epoch.
        """
        self._has_room = has_room
        self._chats = {name: _Chat(name, have) for name, have in held.items()}
        self._chats |= {name: _Chat(name, is_stale=True) for name in stale}
        self._behind: dict[str, _Chat] = {}
        self._told: dict[str, int] = {}
        """For each chat, the sequence of an acknowledged message of this user whose earlier entries
        have not all arrived yet."""
        self._resting: list[_Chat] = []
        """Chats whose last fetch returned nothing, so that they are not fetched again at once."""

    def have(self) -> dict[str, int]:
        """Return the last applied entry of each chat, for hello."""
        return {name: chat.have for name, chat in self._chats.items() if chat.have is not None}

    def have_of(self, name: str) -> int | None:
        """Return the last applied entry of one chat, if any."""
        chat = self._chats.get(name)
        return None if chat is None else chat.have

    # The life of a connection.

    def epoch_changed(self) -> None:
        """Treat all applied entries as invalid, because the epoch of the server has changed."""
        self._chats = {name: _Chat(name, is_stale=True) for name in self._chats}
        self._clear()

    def live(self, named: Container[str] = ()) -> list[Step]:
        """Handle `live`: the server has named all chats, so a stale chat that it did not name is
        gone.

        `named` are the chats of which the server has sent the head but no entries.
        """
        unheard = [
            chat.name
            for chat in self._chats.values()
            if chat.is_stale and not chat.is_behind and chat.name not in named
        ]
        return [step for name in unheard for step in self.gone(name)]

    def lost(self) -> None:
        """Handle the loss of the connection: the next hello requests everything that is missing."""
        for chat in self._chats.values():
            chat.ahead.clear()
            chat.seen, chat.restart_head, chat.is_asked = chat.have or 0, None, False
        self._clear()

    # Frames of the server.

    def take(self, entry: Entry) -> list[Step]:
        """Apply an entry if it is the next, and ignore it if it was applied.

        Otherwise the entries before it are missing and must be fetched.
        """
        chat = self._chat(entry.chat)
        chat.seen = max(chat.seen, entry.sequence)
        if chat.have is None and chat.restart_head is None:
            return self._start(chat, entry)
        if chat.have is not None and entry.sequence <= chat.have:
            return []
        if self._is_next(chat, entry.sequence) and self._has_room():
            return self._apply(chat, entry)
        self._keep_ahead(chat, entry)
        self._look(chat)
        return []

    def take_own(self, entry: Entry) -> list[Step]:
        """Apply an own message that was acknowledged, after all entries before it.

        These entries are usually on their way, so they are not requested at once; see `settle`.
        """
        chat = self._chat(entry.chat)
        if chat.have is not None and entry.sequence <= chat.have:
            return []
        if self._is_next(chat, entry.sequence) and self._has_room():
            chat.seen = max(chat.seen, entry.sequence)
            return self._apply(chat, entry)
        self._keep_ahead(chat, entry)
        self.told(entry.chat, entry.sequence)
        return []

    def told(self, name: str, sequence: int) -> None:
        """Remember that a message of this user has this sequence; the server may not send its
        entry."""
        self._told[name] = max(sequence, self._told.get(name, 0))

    def settle(self) -> None:
        """Mark overdue entries as missing.

        This is called twice a second on a live connection.
        """
        for chat in self._resting:
            chat.is_asked = False
        self._resting.clear()
        for name, sequence in self._told.items():
            chat = self._chat(name)
            chat.seen = max(chat.seen, sequence)
            if chat.have is None and chat.restart_head is None:
                chat.restart_head = chat.seen
            self._look(chat)
        self._told.clear()

    def resync(self, name: str, head: int) -> None:
        """Start again at the newest page; until it arrives, the applied entries stay valid."""
        chat = self._chat(name)
        chat.ahead.clear()
        chat.restart_head = head
        # A device that has a higher sequence than the log must not wait for entries in between.
        chat.seen = max(chat.seen, head) if head >= (chat.have or 0) else head
        self._look(chat)

    def gone(self, name: str) -> list[Step]:
        """Forget a chat that was deleted or that the user left."""
        self._behind.pop(name, None)
        self._told.pop(name, None)
        return [Forget(name)] if self._chats.pop(name, None) is not None else []

    # Missing entries.

    def wants(self) -> Iterator[Want]:
        """Yield the missing parts to request; each only once until it is answered or refused."""
        for chat in list(self._behind.values()):
            if chat.is_asked:
                continue
            if chat.restart_head is not None:
                want = Want(chat.name, before=chat.restart_head + 1)
            else:
                want = Want(chat.name, after=chat.have)
            chat.is_asked = True
            yield want

    def page(self, want: Want, entries: list[Entry], head: int) -> list[Step]:
        """Apply the answer to a want, even without room: it was requested when there was room."""
        chat = self._chats.get(want.chat)
        if chat is None:
            return []
        steps: list[Step] = []
        if want.before is not None:
            steps.append(self._restart(chat, entries[0].sequence if entries else head + 1))
        if chat.restart_head is None:
            for entry in entries:
                if self._is_next(chat, entry.sequence):
                    steps += self._apply(chat, entry)
        chat.seen = max(chat.seen, head)
        chat.is_asked = False
        self._look(chat)
        if not steps:
            self.unanswered(want)
        return steps

    def unanswered(self, want: Want) -> None:
        """Handle a want that got no entries; it is yielded again after the next `settle`."""
        if (chat := self._chats.get(want.chat)) is not None:
            chat.is_asked = True
            self._resting.append(chat)

    # Helpers.

    def _chat(self, name: str) -> _Chat:
        return self._chats.get(name) or self._chats.setdefault(name, _Chat(name))

    def _is_next(self, chat: _Chat, sequence: int) -> bool:
        return chat.restart_head is None and chat.have is not None and sequence == chat.have + 1

    def _start(self, chat: _Chat, entry: Entry) -> list[Step]:
        """Apply the first entry of a chat that has no applied entries; the chat's entries begin
        with it."""
        if not self._has_room():
            chat.restart_head = entry.sequence
            self._look(chat)
            return []
        steps: list[Step] = [self._restart(chat, entry.sequence)] if chat.is_stale else []
        return steps + self._apply(chat, entry)

    def _restart(self, chat: _Chat, start: int) -> Restart:
        chat.have, chat.is_stale, chat.restart_head = start - 1, False, None
        return Restart(chat.name, start)

    def _apply(self, chat: _Chat, entry: Entry) -> list[Step]:
        """Apply an entry, and the entries that arrived early and follow it."""
        steps: list[Step] = []
        following: Entry | None = entry
        while following is not None:
            steps.append(Apply(following))
            chat.have = following.sequence
            following = chat.ahead.pop(chat.have + 1, None)
        for sequence in [early for early in chat.ahead if early <= entry.sequence]:
            del chat.ahead[sequence]
        self._look(chat)
        return steps

    def _keep_ahead(self, chat: _Chat, entry: Entry) -> None:
        if len(chat.ahead) < AHEAD_ENTRIES_MAX:
            chat.ahead.setdefault(entry.sequence, entry)

    def _clear(self) -> None:
        self._behind.clear()
        self._told.clear()
        self._resting.clear()

    def _look(self, chat: _Chat) -> None:
        if chat.is_behind:
            self._behind[chat.name] = chat
        else:
            self._behind.pop(chat.name, None)

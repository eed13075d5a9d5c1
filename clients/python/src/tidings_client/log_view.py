# SPDX-License-Identifier: Apache-2.0
"""What a client holds of each chat's log: the client rule of the protocol. No I/O.

For each chat the steps that come out tell one story: `Apply` in order, without a gap, each entry
once; or `Restart`, after which the story begins anew at its `start`; or `Forget`. Whatever cannot
be applied now (something before it is missing, or there is no room) is not worth keeping for
ever: the chat is behind, and what it lacks is wanted from the server.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

import msgspec

from tidings_client.frames import Entry

AHEAD_ENTRIES_MAX: Final = 200
"""How many entries of one chat are kept that came too early; more are fetched again."""


class Apply(msgspec.Struct, frozen=True):
    """The next entry of a chat."""

    entry: Entry


class Restart(msgspec.Struct, frozen=True):
    """What was applied of a chat no longer counts; entries from `start` on follow."""

    chat: str
    start: int


class Forget(msgspec.Struct, frozen=True):
    """The chat is no longer there."""

    chat: str


Step = Apply | Restart | Forget


class Want(msgspec.Struct, frozen=True):
    """A part of a chat's log that is missing: upwards from `after`, or downwards from `before`."""

    chat: str
    after: int | None = None
    before: int | None = None


class _Chat:
    """What is known of one chat."""

    __slots__ = ("ahead", "have", "is_asked", "is_stale", "name", "restart_head", "seen")

    def __init__(self, name: str, have: int | None = None, *, is_stale: bool = False) -> None:
        self.name = name
        self.have = have
        """The last entry applied; None if nothing is held that counts."""
        self.is_stale = is_stale
        """Whether what was applied came from another epoch: a new start has to be announced."""
        self.seen = have or 0
        """The last entry known to exist."""
        self.restart_head: int | None = None
        """Set while the newest page, up to here, has to be loaded before anything else."""
        self.ahead: dict[int, Entry] = {}
        self.is_asked = False
        """Whether the server has been asked for what is missing, or must not be asked just now."""

    @property
    def is_behind(self) -> bool:
        """Whether something has to be fetched."""
        return self.restart_head is not None or (self.have is not None and self.seen > self.have)


class LogView:
    """All chats of one user on one device."""

    def __init__(
        self, held: Mapping[str, int], stale: Iterable[str], has_room: Callable[[], bool]
    ) -> None:
        """`held`: the last entry applied, by chat; `stale`: chats held under another epoch."""
        self._has_room = has_room
        self._chats = {name: _Chat(name, have) for name, have in held.items()}
        self._chats |= {name: _Chat(name, is_stale=True) for name in stale}
        self._behind: dict[str, _Chat] = {}
        self._told: dict[str, int] = {}
        """Chats in which an own message stands beyond what came so far, and where."""
        self._resting: list[_Chat] = []
        """Chats whose last fetch brought nothing: not to be asked for again at once."""

    def have(self) -> dict[str, int]:
        """What to say in hello."""
        return {name: chat.have for name, chat in self._chats.items() if chat.have is not None}

    # The life of a connection.

    def epoch_changed(self) -> None:
        """The log is not the one it was: nothing held counts any more."""
        self._chats = {name: _Chat(name, is_stale=True) for name in self._chats}
        self._clear()

    def live(self) -> list[Step]:
        """The server has told of every chat there is: a stale one it did not name is gone."""
        unheard = [
            chat.name for chat in self._chats.values() if chat.is_stale and not chat.is_behind
        ]
        return [step for name in unheard for step in self.gone(name)]

    def lost(self) -> None:
        """The connection is gone: the next hello says what is held, and brings the rest."""
        for chat in self._chats.values():
            chat.ahead.clear()
            chat.seen, chat.restart_head, chat.is_asked = chat.have or 0, None, False
        self._clear()

    # What the server tells.

    def take(self, entry: Entry) -> list[Step]:
        """An entry: applied if it is the next one, ignored if it is held, else wanted."""
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
        """The user's own message was acknowledged: it counts where it stands, not before.

        What lies before it is usually on its way, so it is not asked for at once; see `settle`.
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
        """There is an own message at this place that the server may not send again."""
        self._told[name] = max(sequence, self._told.get(name, 0))

    def settle(self) -> None:
        """Called now and then on a live connection: ask for what should have come by now."""
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
        """Start over at the newest page. Until it is there, what is held stays held."""
        chat = self._chat(name)
        chat.ahead.clear()
        chat.restart_head = head
        chat.seen = max(chat.seen, head)
        self._look(chat)

    def gone(self, name: str) -> list[Step]:
        """Not (any more) the user's."""
        self._behind.pop(name, None)
        self._told.pop(name, None)
        return [Forget(name)] if self._chats.pop(name, None) is not None else []

    # What is missing.

    def wants(self) -> Iterator[Want]:
        """What to ask the server for; each is named once, until it is answered or refused."""
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
        """The answer to a want. Applied even without room: it was asked for when there was."""
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
        """The answer was none: the want is named again, but not before `settle`."""
        if (chat := self._chats.get(want.chat)) is not None:
            chat.is_asked = True
            self._resting.append(chat)

    # How it is done.

    def _chat(self, name: str) -> _Chat:
        return self._chats.get(name) or self._chats.setdefault(name, _Chat(name))

    def _is_next(self, chat: _Chat, sequence: int) -> bool:
        return chat.restart_head is None and chat.have is not None and sequence == chat.have + 1

    def _start(self, chat: _Chat, entry: Entry) -> list[Step]:
        """The first entry of a chat nothing is held of is the start."""
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
        """Apply an entry, and those that waited for it."""
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

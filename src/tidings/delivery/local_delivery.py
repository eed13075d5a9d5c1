# SPDX-License-Identifier: Apache-2.0
"""Delivers entries to the connections of this process. A frame is encoded once for all users."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from tidings.model.chats import ChatState
from tidings.model.entries import Entry
from tidings.model.ids import ChatId, UserKey
from tidings.wire.entry_frames import encode_entry


class EntryReceiver(Protocol):
    """A connection that receives entries; it decides which entries it sends."""

    def deliver(self, entry: Entry, frame: bytes, *, is_small: bool) -> None:
        """Send an entry, or mark its chat as behind; `frame` is the same for all users."""
        ...


class EntryReceivers(Protocol):
    """Finds the connections of users in this process."""

    @property
    def by_user(self) -> Mapping[UserKey, Sequence[EntryReceiver]]:
        """The connections of each user who has one."""
        ...


class LocalDelivery:
    """Offers entries to the connections of all users who get them."""

    def __init__(
        self,
        connections: EntryReceivers,
        handed: Callable[[ChatId, int], None] = lambda _chat, _sequence: None,
    ) -> None:
        """Set up the delivery; `handed` is called after an entry was offered to connections."""
        self._connections = connections
        self._handed = handed

    def deliver(self, entry: Entry, state: ChatState) -> None:
        """Offer an entry to the connections of its users; `state` is the chat after the entry."""
        connections_of, is_small = self._connections.by_user.get, state.is_small
        frame = None
        users = state.members if entry.kind == "message" else concerned(entry, state)
        for user in users:
            for connection in connections_of(user, ()):
                if frame is None:
                    frame = encode_entry(entry)
                connection.deliver(entry, frame, is_small=is_small)
        if frame is not None:
            self._handed(entry.chat_id, entry.sequence)


def concerned(entry: Entry, state: ChatState) -> Iterable[UserKey]:
    """Return the users who get an entry: the members after it, and the users whom it removed."""
    if entry.kind == "removed":
        return [*state.members, *(person.user for person in entry.people)]
    return state.members

# SPDX-License-Identifier: Apache-2.0
"""Handing frames to the gateways that hold the connections they are for."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from tidings.model.entries import Kind
from tidings.model.ids import ChatId, UserKey
from tidings.ports.bus import InboxEvent


class Parcel(msgspec.Struct, frozen=True, kw_only=True):
    """One entry as everyone gets it, encoded once."""

    chat_id: ChatId
    sequence: int
    kind: Kind
    added: tuple[UserKey, ...] = ()
    """Those for whom it is the first entry of the chat: it makes them members."""
    removed: tuple[UserKey, ...] = ()
    """Those for whom it is the last entry of the chat."""
    is_small: bool
    frame: bytes


class Handover(Protocol):
    """The way from a worker to the gateways."""

    async def entries(
        self, parcels: Sequence[Parcel], users: Mapping[str, Sequence[UserKey]]
    ) -> Mapping[str, frozenset[str]]:
        """Hand entries of one chat, in order, to gateways; for each, the users it is meant for.

        A gateway answers with the connections of those users that it holds, which have each been
        handed all of the parcels: what they could not take they will read from the log. Gateways
        that did not answer within a second are left out.
        """
        ...

    def notice(
        self, frame: bytes, users: Mapping[str, Sequence[UserKey]], chat: ChatId | None = None
    ) -> None:
        """Hand over something without a sequence: best effort, no answer.

        What is about a chat reaches only connections that follow the chat.
        """
        ...

    def hint(self, event: InboxEvent, gateway: str | None, *, but_not: str) -> None:
        """Tell a gateway, or all of them but one, of something about an inbox: best effort."""
        ...


class Doorstep(Protocol):
    """A gateway, as those see it who hand something over."""

    def entries(
        self,
        parcels: Sequence[Parcel],
        users: Sequence[UserKey],
        answer: Callable[[list[str]], None],
    ) -> None:
        """Entries of one chat for users; soon `answer` is told which connections got them.

        Nothing is answered by a gateway that is too far behind to take them: it compares heads.
        """
        ...

    def notice(self, frame: bytes, users: Sequence[UserKey], chat: ChatId | None) -> None:
        """Something without a sequence."""
        ...

    def hint(self, event: InboxEvent) -> None:
        """Something about an inbox: what is to be shown of it is looked up here."""
        ...

    def doubt(self) -> None:
        """Something may have been handed over that never came: heads have to be compared."""
        ...

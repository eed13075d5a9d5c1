# SPDX-License-Identifier: Apache-2.0
"""Gateways in memory, which record the entries that each connection gets."""

import asyncio
import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec

from tidings.delivery.push_notices import OfferQueue
from tidings.model.ids import ChatId, UserKey
from tidings.model.push_rules import ArrivedMessage
from tidings.ports.bus import Feed, FeedEvent, FeedUnavailable, InboxEvent
from tidings.ports.delivery import (
    ConnectionAddress,
    EncodedEntry,
    Handover,
    Refreshed,
    Registry,
    RegistryUnavailable,
)

POLL_SECONDS: Final = 0.01

_numbers = itertools.count(1)


class FakeReader:
    """A connection that records the entries and notices that it gets, in order."""

    def __init__(self, gateways: "FakeGateways", user: UserKey, place: ConnectionAddress) -> None:
        self._gateways = gateways
        self.user = user
        self.place = place
        self.encoded_entries: list[EncodedEntry] = []
        self.notices: list[dict[str, Any]] = []

    @property
    def sequences(self) -> list[int]:
        """The sequences of the entries that it got, repeats included."""
        return [encoded.sequence for encoded in self.encoded_entries]

    @property
    def frames(self) -> list[dict[str, Any]]:
        """The entries as a client would decode them."""
        return [msgspec.json.decode(encoded.frame) for encoded in self.encoded_entries]

    def frame(self, sequence: int) -> dict[str, Any]:
        """Return the entry with this sequence."""
        (frame,) = (frame for frame in self.frames if frame["sequence"] == sequence)
        return frame

    def dies(self, *, stays_registered: bool = False) -> None:
        """Close the connection; with `stays_registered`, keep its registration, as after a
        crash."""
        self._gateways.devices.remove(self)
        if not stays_registered:
            self._gateways.leave(self.user, self.place.connection)


class FakeGateways:
    """The registry and the handover of several gateways."""

    def __init__(self) -> None:
        self.devices: list[FakeReader] = []
        self.is_registry_down = False
        self.lookup_error: Exception | None = None
        self.handover_error: Exception | None = None
        self.silent: set[str] = set()
        self.looks: list[frozenset[UserKey]] = []
        self.hints: list[tuple[InboxEvent, str | None, str]] = []
        self.owed_comparisons = 0
        self._places: defaultdict[UserKey, list[ConnectionAddress]] = defaultdict(list)

    def connect(self, user: UserKey, gateway: str = "g1") -> FakeReader:
        """Return a new connection, which is registered like a connection after hello."""
        place = ConnectionAddress(gateway, f"c{next(_numbers)}")
        self._places[user].append(place)
        device = FakeReader(self, user, place)
        self.devices.append(device)
        return device

    async def enter(self, user: UserKey, connection: str, instead_of: str | None = None) -> bool:
        self._places[user].append(ConnectionAddress("g1", connection))
        return True

    def leave(self, user: UserKey, connection: str) -> None:
        self._places[user] = [one for one in self._places[user] if one.connection != connection]

    async def refresh(self, connections: Sequence[tuple[UserKey, str]]) -> Refreshed:
        del connections
        return Refreshed([], [])

    async def find(self, users: Iterable[UserKey]) -> Mapping[UserKey, list[ConnectionAddress]]:
        self.looks.append(frozenset(users))
        if self.is_registry_down:
            raise RegistryUnavailable
        if self.lookup_error is not None:
            raise self.lookup_error
        return {user: list(self._places[user]) for user in self.looks[-1] if self._places[user]}

    async def entries(
        self, encoded_entries: Sequence[EncodedEntry], users: Mapping[str, Sequence[UserKey]]
    ) -> Mapping[str, frozenset[str]]:
        if self.handover_error is not None:
            raise self.handover_error
        held = {}
        for gateway, wanted in users.items():
            if gateway in self.silent:
                continue
            here = [one for one in self.devices if one.place.gateway == gateway]
            handed = [device for device in here if device.user in wanted]
            for device in handed:
                device.encoded_entries += encoded_entries
            held[gateway] = frozenset(device.place.connection for device in handed)
        return held

    def owe_comparison(self) -> None:
        self.owed_comparisons += 1

    def notice(
        self, frame: bytes, users: Mapping[str, Sequence[UserKey]], chat: ChatId | None = None
    ) -> None:
        for device in self.devices:
            if device.user in users.get(device.place.gateway, ()):
                device.notices.append(msgspec.json.decode(frame))

    def hint(self, event: InboxEvent, gateway: str | None, *, but_not: str) -> None:
        self.hints.append((event, gateway, but_not))


class FakePushQueue:
    """OfferQueue that records for whom messages are offered at once, because nobody took them."""

    def __init__(self) -> None:
        self.offers: list[tuple[UserKey, ChatId, ArrivedMessage]] = []

    def offer(
        self,
        user: UserKey,
        chat: ChatId,
        message: ArrivedMessage,
        *,
        is_small: bool,
        is_looking: bool,
        receipts_tell: bool,
    ) -> None:
        del is_small, receipts_tell
        if not is_looking:
            self.offers.append((user, chat, message))

    def of(self, user: UserKey) -> list[int]:
        """Return the sequences that were offered for the user."""
        return [message.sequence for offered, _, message in self.offers if offered == user]


class ListFeed:
    """A feed in memory with one partition."""

    def __init__(self) -> None:
        self._waiting: list[FeedEvent] = []
        self._has_more = asyncio.Event()
        self.refused = 0
        """How often it was asked while it was down."""
        self.finished: list[int] = []
        self.aside: list[tuple[int, str]] = []
        self.is_down = False
        self._offset = itertools.count()

    def put(self, *values: bytes) -> list[int]:
        """Publish events; return their offsets."""
        new = [FeedEvent(0, next(self._offset), value) for value in values]
        self._waiting += new
        self._has_more.set()
        return [one.offset for one in new]

    async def take(self, most: int) -> Sequence[FeedEvent]:
        if self.is_down:
            self.refused += 1
            raise FeedUnavailable
        with suppress(TimeoutError):  # a poll of Kafka ends after a while, too
            async with asyncio.timeout(POLL_SECONDS):
                await self._has_more.wait()
        taken, self._waiting = self._waiting[:most], self._waiting[most:]
        if not self._waiting:
            self._has_more.clear()
        return taken

    def finish(self, received: FeedEvent) -> None:
        self.finished.append(received.offset)

    async def dead_letter(self, received: FeedEvent, reason: str) -> None:
        if self.is_down:
            raise FeedUnavailable
        self.aside.append((received.offset, reason))

    async def close(self) -> None:
        self.is_down = True


_conforms: tuple[type[Registry], type[Handover], type[OfferQueue], type[Feed]] = (
    FakeGateways,
    FakeGateways,
    FakePushQueue,
    ListFeed,
)

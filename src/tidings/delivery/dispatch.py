# SPDX-License-Identifier: Apache-2.0
"""Dispatches entries to gateways, and sends push notices to members who were not reached.

Connections are looked up twice. The second lookup finds connections that registered after the first
one. A connection that registers even later reads the head copy, and finds the entries in the log.

Content is decrypted right before the handover and dropped right after it. In a long outage the
entries wait in memory for the head copy, and their author may be erased meanwhile.

Push notices are sent only if there is a push service, and only for messages that still have their
content and are not older than `YOUNG_MS_MAX`. They are not sent to the sender, to members who muted
the chat, to members who joined after the message, and to users who are no longer members.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from tidings.caches import LruCache
from tidings.delivery.chat_states import DeliveryRun
from tidings.model.entries import Entry
from tidings.model.ids import ChatId, UserKey
from tidings.model.limits import SECOND_MS
from tidings.model.roles import Member
from tidings.ports.delivery import (
    ConnectionAddress,
    DeliveryStore,
    EncodedEntry,
    Handover,
    Push,
    PushNotice,
    Registry,
    RegistryUnavailable,
)
from tidings.ports.world import Clock
from tidings.wire.frames import encode_entry

YOUNG_MS_MAX: Final = 30 * SECOND_MS
"""Age up to which the entry in an event is used. If it is older, the entry is read again from the
log, and no push is sent."""
MUTES_SECONDS: Final = 30.0
"""Time for which the mutes of a chat are cached. A mute takes effect within this time."""
MUTED_CHATS_MAX: Final = 5_000

_Places = Mapping[UserKey, list[ConnectionAddress]]


def is_young(entry: Entry, now: int) -> bool:
    """Return whether an entry was just appended. An entry from the future is young, too."""
    return now - entry.created_at <= YOUNG_MS_MAX


class PushNotifier:
    """Sends push notices for new messages. It caches which members have muted a chat."""

    def __init__(self, push: Push | None, deliveries: DeliveryStore, clock: Clock) -> None:
        self._push = push
        self._deliveries = deliveries
        self._clock = clock
        self._mutes: LruCache[ChatId, tuple[float, Mapping[UserKey, int]]] = LruCache(
            MUTED_CHATS_MAX
        )
        self.noticed = 0

    async def notify(
        self,
        runs: Iterable[tuple[Sequence[Entry], Collection[UserKey]]],
        members: Mapping[UserKey, Member],
    ) -> None:
        """Send push notices for each run of a chat to the members whom the run has not reached.

        Raises:
            StoreUnavailable: The mutes of the chat cannot be read; no push was sent.
        """
        if self._push is None:
            return
        now = self._clock.now()
        notices: list[PushNotice] = []
        for entries, reached in runs:
            # A message whose content is gone by now needs no push.
            new = [
                entry
                for entry in entries
                if entry.kind == "message" and entry.gone is None and is_young(entry, now)
            ]
            away = [user for user in members if user not in reached]
            if new and away:
                mutes = await self._mutes_of(new[0].chat_id)
                wanting = {user: members[user] for user in away if mutes.get(user, 0) <= now}
                notices += [notice for entry in new if (notice := _notice(entry, wanting))]
        if notices:
            self.noticed += sum(len(notice.users) for notice in notices)
            await self._push.send(notices)

    async def _mutes_of(self, chat: ChatId) -> Mapping[UserKey, int]:
        now = asyncio.get_running_loop().time()
        cached = self._mutes.get(chat)
        if cached is not None and now - cached[0] <= MUTES_SECONDS:
            return cached[1]
        mutes = await self._deliveries.mutes(chat)
        self._mutes.put(chat, (now, mutes))
        return mutes


def _notice(entry: Entry, wanting: Mapping[UserKey, Member]) -> PushNotice | None:
    users = tuple(
        user
        for user, member in wanting.items()
        if user != entry.sender and member.joined < entry.sequence
    )
    if not users:
        return None
    return PushNotice(
        chat_id=entry.chat_id, sequence=entry.sequence, sender=entry.sender, users=users
    )


class Batch(msgspec.Struct, kw_only=True):
    """Entries that are sent to the same users, and the connections that received them."""

    entries: list[Entry]
    is_small: bool
    members: frozenset[UserKey]
    removed: frozenset[UserKey] = frozenset()
    """Members whom this batch removes. It is the last batch that they get."""
    was_opened: bool = False
    sent_to: set[ConnectionAddress] = msgspec.field(default_factory=set)
    reached: set[UserKey] = msgspec.field(default_factory=set)
    """Users with a connection that received the batch, as its gateway has confirmed."""

    def users(self, members: Collection[UserKey]) -> frozenset[UserKey]:
        """Return the users who get the batch, given the current members."""
        return self.members.intersection(members) | self.removed


def batches_of(run: DeliveryRun) -> list[Batch]:
    """Split the run's entries into batches, in order.

    Entries are sent to the users who are members now, not to those who were members when an entry
    was appended. New members get the entries since they joined. A removed member gets only the
    entry that removed them.
    """
    batches: list[list[Entry]] = []
    for entry in run.entries:
        before = batches[-1][-1].kind if batches else None
        if before in (None, "removed") or entry.kind in {"removed", "added"}:
            batches.append([])
        batches[-1].append(entry)
    return [_batch(run, entries) for entries in batches]


def _batch(run: DeliveryRun, entries: list[Entry]) -> Batch:
    first, members = entries[0].sequence, run.state.members
    removals = (entry for entry in entries if entry.kind == "removed")
    return Batch(
        entries=entries,
        is_small=run.state.is_small,
        members=frozenset(user for user, member in members.items() if member.joined <= first),
        removed=frozenset(person.user for entry in removals for person in entry.people),
    )


def _encoded(entry: Entry, *, is_small: bool) -> EncodedEntry:
    people = tuple(person.user for person in entry.people)
    return EncodedEntry(
        chat_id=entry.chat_id,
        sequence=entry.sequence,
        kind=entry.kind,
        added=people if entry.kind in {"created", "added"} else (),
        removed=people if entry.kind == "removed" else (),
        is_small=is_small,
        frame=encode_entry(entry),
    )


class GatewayDispatch:
    """Looks up connections, and hands batches over to those that have not received them yet."""

    def __init__(
        self,
        registry: Registry,
        handover: Handover,
        open_entries: Callable[[Sequence[Entry]], Awaitable[None]],
    ) -> None:
        """`open_entries` decrypts the content of entries, or sets the reason why it is gone."""
        self._registry = registry
        self._handover = handover
        self._open_entries = open_entries
        self.silent_gateways = 0
        self.failed_lookups = 0
        """Number of lookups that the registry did not answer."""

    async def dispatch(self, batches: Sequence[Batch], members: Collection[UserKey]) -> None:
        """Look up the users in one round trip, and hand the batches over.

        Of the users of a batch, only those among `members`, or removed by the batch, get it.

        If the registry does not answer, nothing is handed over: connections get the entries at
        hello, or when their gateway compares heads.

        Raises:
            StoreUnavailable: A data key cannot be loaded now. Some batches may have been handed
                over.
        """
        users = [batch.users(members) for batch in batches]
        places = await self._find(frozenset().union(*users))
        for batch, wanted in zip(batches, users, strict=True):
            await self._dispatch_batch(
                batch, {user: places[user] for user in wanted & places.keys()}
            )

    async def _find(self, users: Iterable[UserKey]) -> _Places:
        try:
            return await self._registry.find(users)
        except RegistryUnavailable:
            self.failed_lookups += 1
            return {}

    async def _dispatch_batch(self, batch: Batch, places: _Places) -> None:
        users: defaultdict[str, list[UserKey]] = defaultdict(list)
        for user, found in places.items():
            for gateway in {place.gateway for place in found if place not in batch.sent_to}:
                users[gateway].append(user)
        # Content is decrypted once even if nobody is connected: this shows which content is gone
        # and must not be pushed.
        if users or not batch.was_opened:
            await self._hand_over(batch, users)
        batch.reached |= {
            user for user, found in places.items() if batch.sent_to.intersection(found)
        }

    async def _hand_over(self, batch: Batch, users: Mapping[str, list[UserKey]]) -> None:
        encoded_entries = await self._opened(batch)
        if users:
            reached = await self._handover.entries(encoded_entries, users)
            self.silent_gateways += len(users.keys() - reached.keys())
            for gateway, connections in reached.items():
                batch.sent_to.update(
                    ConnectionAddress(gateway, connection) for connection in connections
                )

    async def _opened(self, batch: Batch) -> list[EncodedEntry]:
        """Return the entries as frames, and remove the decrypted content from the entries."""
        try:
            await self._open_entries(batch.entries)
            batch.was_opened = True
            return [_encoded(entry, is_small=batch.is_small) for entry in batch.entries]
        finally:
            for entry in batch.entries:
                entry.content = None
                if entry.shown is not None:
                    entry.shown.content = None

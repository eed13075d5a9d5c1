# SPDX-License-Identifier: Apache-2.0
"""Handing runs of entries to the gateways, twice: before the head copy is written and after it.

A connection that registers between the two looks is found by the second. One that registers later
reads the head copy, and finds the entries in the log.

Content is opened right before it is handed over and forgotten right after: the head copy may be
waited for during a long outage, and an author may be erased meanwhile.
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence

import msgspec

from tidings.delivery.chat_states import DeliveryRun
from tidings.model.entries import Entry
from tidings.model.ids import UserKey
from tidings.ports.cluster import (
    ConnectionAddress,
    EncodedEntry,
    Handover,
    Registry,
    RegistryUnavailable,
)
from tidings.wire.frames import encode_entry

_Places = Mapping[UserKey, list[ConnectionAddress]]


class Batch(msgspec.Struct, kw_only=True):
    """Entries that go to the same users, and who has been handed them."""

    entries: list[Entry]
    is_small: bool
    members: frozenset[UserKey]
    removed: frozenset[UserKey] = frozenset()
    """Those for whom it is the last entry of the chat: they get just this one."""
    was_opened: bool = False
    sent_to: set[ConnectionAddress] = msgspec.field(default_factory=set)
    reached: set[UserKey] = msgspec.field(default_factory=set)
    """Users of whom a gateway said that it holds a connection."""

    def users(self, members: Collection[UserKey]) -> frozenset[UserKey]:
        """Who gets it, given who is a member by now."""
        return self.members.intersection(members) | self.removed


def batches_of(run: DeliveryRun) -> list[Batch]:
    """The run's entries, in order.

    They go to those who are members now, whoever was one when an entry was written; to newcomers
    from their joining on. A removed member gets just the entry that says so.
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
    """Finds connections and hands batches to those that have not been handed them yet."""

    def __init__(
        self,
        registry: Registry,
        handover: Handover,
        open_entries: Callable[[Sequence[Entry]], Awaitable[None]],
    ) -> None:
        """`open_entries` fills in content, or why it is gone."""
        self._registry = registry
        self._handover = handover
        self._open_entries = open_entries
        self.silent_gateways = 0
        self.failed_lookups = 0
        """How often the registry did not answer."""

    async def dispatch(self, batches: Sequence[Batch], members: Collection[UserKey]) -> None:
        """Look everyone up, in one round trip, and hand over, to nobody but these members.

        If the registry does not answer nobody is handed anything: hello, and gateways comparing
        heads, make good for it.

        Raises:
            StoreUnavailable: A key cannot be loaded now; some may have been handed over.
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
        # Opened once in any case: of what is gone, those who are not connected are not told.
        if users or not batch.was_opened:
            await self._hand_over(batch, users)
        batch.reached |= {
            user for user, found in places.items() if batch.sent_to.intersection(found)
        }

    async def _hand_over(self, batch: Batch, users: Mapping[str, list[UserKey]]) -> None:
        encoded_entries = await self._opened(batch)
        if users:
            held = await self._handover.entries(encoded_entries, users)
            self.silent_gateways += len(users.keys() - held.keys())
            for gateway, connections in held.items():
                batch.sent_to.update(
                    ConnectionAddress(gateway, connection) for connection in connections
                )

    async def _opened(self, batch: Batch) -> list[EncodedEntry]:
        """The entries as frames; their content stands nowhere else."""
        try:
            await self._open_entries(batch.entries)
            batch.was_opened = True
            return [_encoded(entry, is_small=batch.is_small) for entry in batch.entries]
        finally:
            for entry in batch.entries:
                entry.content = None
                if entry.shown is not None:
                    entry.shown.content = None

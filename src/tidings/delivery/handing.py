# SPDX-License-Identifier: Apache-2.0
"""Handing runs of entries to the gateways, twice: before the head copy is written and after it.

A connection that registers between the two looks is found by the second. One that registers later
reads the head copy, and finds the entries in the log.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from tidings.delivery.folding import Run
from tidings.model.entries import Entry
from tidings.model.ids import UserKey
from tidings.ports.handover import Handover, Parcel
from tidings.ports.registry import Place, Registry, RegistryUnavailable
from tidings.wire.frames import encode_entry

_Places = Mapping[UserKey, list[Place]]


class Load(msgspec.Struct, kw_only=True):
    """Parcels that go to the same users, and who has been handed them."""

    parcels: list[Parcel]
    members: frozenset[UserKey]
    removed: frozenset[UserKey] = frozenset()
    """Those for whom it is the last entry of the chat: they get just this one."""
    handed: set[Place] = msgspec.field(default_factory=set)
    reached: set[UserKey] = msgspec.field(default_factory=set)
    """Users of whom a gateway said that it holds a connection."""

    def users(self, members: Collection[UserKey]) -> frozenset[UserKey]:
        """Who gets it, given who is a member by now."""
        return self.members.intersection(members) | self.removed


def loads_of(run: Run) -> list[Load]:
    """The run's entries as frames, encoded once, in order.

    They go to those who are members now, whoever was one when an entry was written; to newcomers
    from their joining on. A removed member gets just the entry that says so.
    """
    loads: list[list[Entry]] = []
    for entry in run.entries:
        before = loads[-1][-1].kind if loads else None
        if before in (None, "removed") or entry.kind in {"removed", "added"}:
            loads.append([])
        loads[-1].append(entry)
    return [_load(run, entries) for entries in loads]


def _load(run: Run, entries: list[Entry]) -> Load:
    first, members = entries[0].sequence, run.state.members
    parcels = [_parcel(entry, is_small=run.state.is_small) for entry in entries]
    return Load(
        parcels=parcels,
        members=frozenset(user for user, member in members.items() if member.joined <= first),
        removed=frozenset(user for parcel in parcels for user in parcel.removed),
    )


def _parcel(entry: Entry, *, is_small: bool) -> Parcel:
    people = tuple(person.user for person in entry.people)
    return Parcel(
        chat_id=entry.chat_id,
        sequence=entry.sequence,
        kind=entry.kind,
        added=people if entry.kind in {"created", "added"} else (),
        removed=people if entry.kind == "removed" else (),
        is_small=is_small,
        frame=encode_entry(entry),
    )


class Handing:
    """Finds connections and hands loads to those that have not been handed them yet."""

    def __init__(self, registry: Registry, handover: Handover) -> None:
        self._registry = registry
        self._handover = handover
        self.silent_gateways = 0
        self.lost_looks = 0
        """How often the registry did not answer."""

    async def hand(self, loads: Sequence[Load], members: Collection[UserKey]) -> None:
        """Look everyone up, in one round trip, and hand over, to nobody but these members.

        If the registry does not answer nobody is handed anything: hello, and gateways comparing
        heads, make good for it.
        """
        users = [load.users(members) for load in loads]
        places = await self._find(frozenset().union(*users))
        for load, wanted in zip(loads, users, strict=True):
            await self._hand_one(load, {user: places[user] for user in wanted & places.keys()})

    async def _find(self, users: Iterable[UserKey]) -> _Places:
        try:
            return await self._registry.find(users)
        except RegistryUnavailable:
            self.lost_looks += 1
            return {}

    async def _hand_one(self, load: Load, places: _Places) -> None:
        users: defaultdict[str, list[UserKey]] = defaultdict(list)
        for user, found in places.items():
            for gateway in {place.gateway for place in found if place not in load.handed}:
                users[gateway].append(user)
        if users:
            held = await self._handover.entries(load.parcels, users)
            self.silent_gateways += len(users.keys() - held.keys())
            for gateway, connections in held.items():
                load.handed.update(Place(gateway, connection) for connection in connections)
        load.reached |= {user for user, found in places.items() if load.handed.intersection(found)}

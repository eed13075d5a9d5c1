# SPDX-License-Identifier: Apache-2.0
"""Dispatches entries to gateways, before the head copy of the chat is written and after it.

Connections are looked up twice. The second lookup finds connections that registered after the first
one. A connection that registers even later reads the head copy, and finds the entries in the log.

Content is decrypted right before the handover and dropped right after it. This matters because in a
long outage the entries wait in memory for the head copy, and their author may be erased meanwhile.

No error of the registry or of a handover ends a delivery: the entries are in the log, where
connections find them, and whoever met the error asks the gateways to compare heads.
"""

import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence

import msgspec

from tidings.delivery.chat_states import DeliveryRun
from tidings.metrics.counts import report_counts
from tidings.model.entries import Entry, head_of
from tidings.model.ids import UserKey
from tidings.ports.delivery import (
    ConnectionAddress,
    EncodedEntry,
    Handover,
    Registry,
    RegistryUnavailable,
)
from tidings.wire.entry_frames import encode_entry

log = logging.getLogger("tidings.delivery")

_Addresses = Mapping[UserKey, list[ConnectionAddress]]


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
    """Users for whom a gateway has confirmed that one of their connections received the batch."""

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


def encoded(entry: Entry, *, is_small: bool) -> EncodedEntry:
    """Return the entry as a frame."""
    people = tuple(person.user for person in entry.people)
    return EncodedEntry(
        chat_id=entry.chat_id,
        sequence=entry.sequence,
        kind=entry.kind,
        added=people if entry.kind in {"created", "added"} else (),
        removed=people if entry.kind == "removed" else (),
        is_small=is_small,
        frame=encode_entry(entry),
        head=head_of(entry),
    )


class GatewayDispatch:
    """Looks up connections, and hands batches over to those that have not received them yet."""

    def __init__(
        self,
        registry: Registry,
        handover: Handover,
        open_entries: Callable[[Sequence[Entry]], Awaitable[None]],
    ) -> None:
        """Create the dispatch.

        `open_entries` decrypts the content of entries, or sets the reason why the content is gone.
        """
        self._registry = registry
        self._handover = handover
        self._open_entries = open_entries
        self.silent_gateways = 0
        self.failed_lookups = 0
        """Number of lookups that the registry did not answer."""
        report_counts(self, "dispatch")

    async def dispatch(self, batches: Sequence[Batch], members: Collection[UserKey]) -> None:
        """Look up the users in one round trip, and hand the batches over.

        A batch is sent only to those of its users who are in `members`, and to those whom it
        removes.

        If the registry does not answer, nothing is handed over. Connections then get the entries at
        hello, or when their gateway compares heads.

        Raises:
            StoreUnavailable: A data key cannot be loaded now. Some batches may have been handed
                over.
        """
        users = [batch.users(members) for batch in batches]
        addresses = await self._find(frozenset().union(*users))
        for batch, wanted in zip(batches, users, strict=True):
            await self._dispatch_batch(
                batch, {user: addresses[user] for user in wanted & addresses.keys()}
            )

    async def _find(self, users: Iterable[UserKey]) -> _Addresses:
        try:
            return await self._registry.find(users)
        except RegistryUnavailable:
            pass
        except Exception:
            log.exception("a lookup failed", extra={"action": "dispatch_failed"})
        self.failed_lookups += 1
        self._handover.owe_comparison()
        return {}

    async def _dispatch_batch(self, batch: Batch, addresses: _Addresses) -> None:
        users: defaultdict[str, list[UserKey]] = defaultdict(list)
        for user, found in addresses.items():
            for gateway in {address.gateway for address in found if address not in batch.sent_to}:
                users[gateway].append(user)
        # Content is decrypted once even if nobody is connected: this shows which content is gone
        # and must not be pushed.
        if users or not batch.was_opened:
            await self._hand_over(batch, users)
        batch.reached |= {
            user for user, found in addresses.items() if batch.sent_to.intersection(found)
        }

    async def _hand_over(self, batch: Batch, users: Mapping[str, list[UserKey]]) -> None:
        encoded_entries = await self._opened(batch)
        if users:
            reached = await self._reached(encoded_entries, users)
            self.silent_gateways += len(users.keys() - reached.keys())
            for gateway, connections in reached.items():
                batch.sent_to.update(
                    ConnectionAddress(gateway, connection) for connection in connections
                )

    async def _reached(
        self, encoded_entries: Sequence[EncodedEntry], users: Mapping[str, Sequence[UserKey]]
    ) -> Mapping[str, frozenset[str]]:
        try:
            return await self._handover.entries(encoded_entries, users)
        except Exception:
            log.exception("a handover failed", extra={"action": "dispatch_failed"})
            return {}

    async def _opened(self, batch: Batch) -> list[EncodedEntry]:
        """Return the entries as frames, and remove the decrypted content from the entries."""
        try:
            await self._open_entries(batch.entries)
            batch.was_opened = True
            return [encoded(entry, is_small=batch.is_small) for entry in batch.entries]
        finally:
            for entry in batch.entries:
                entry.content = None
                if entry.shown is not None:
                    entry.shown.content = None

# SPDX-License-Identifier: Apache-2.0
"""The steps of delivery, for one chat.

(1) Look up the members' connections and hand the entries to their gateways. (2) Write the head
copy: delivered up to here. (3) Look up again, and hand over to every connection that was not handed
them before. (4) Push to those without one. Whoever calls then (5) finishes the events.

Step 3 cannot be left out, nor limited to those missed in step 1: a connection may have died after
step 1 with the frames still under way, and its successor have said hello before step 2.

A head copy is written at most once a second for each chat. Step 1 never waits for that: of a busy
chat, several runs are handed out and then take the other steps together.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final

import msgspec

from tidings.actions.content.vault import Vault
from tidings.delivery.chat_states import RUN_ENTRIES_MAX, DeliveryRun, DeliveryStates
from tidings.delivery.dispatch import Batch, GatewayDispatch, batches_of
from tidings.delivery.pushing import Pushing, is_young
from tidings.model.entries import Entry, head_of
from tidings.model.ids import ChatId, UserKey
from tidings.model.receipts import Unread
from tidings.model.refusals import Unavailable
from tidings.model.roles import Member
from tidings.ports.cluster import Handover, Registry, RegistryUnavailable
from tidings.ports.delivery import DeliveryStore
from tidings.ports.log import Log
from tidings.ports.push import Push
from tidings.ports.world import Clock
from tidings.wire.events import EntryEvent, HintEvent
from tidings.wire.frames import UnreadFrame, encode

_COUNTED: Final = frozenset({"created", "added", "removed"})


class Handed(msgspec.Struct, frozen=True):
    """A run that has taken its first step."""

    run: DeliveryRun
    loads: list[Batch]

    @property
    def reached(self) -> set[UserKey]:
        """Users of whom a gateway said that it holds a connection."""
        return set().union(*(load.reached for load in self.loads))


class Deliverer:
    """Takes the steps. Each step of one chat is called one at a time."""

    def __init__(
        self,
        *,
        log: Log,
        deliveries: DeliveryStore,
        vault: Vault,
        registry: Registry,
        handover: Handover,
        push: Push | None,
        clock: Clock,
    ) -> None:
        self.folds = DeliveryStates(log, deliveries)
        self.handing = GatewayDispatch(registry, handover, self._open)
        self.pushing = Pushing(push, deliveries, clock)
        self._deliveries = deliveries
        self._vault = vault
        self._clock = clock
        self.delivered = 0

    async def hand_out(
        self, chat: ChatId, events: Sequence[EntryEvent | HintEvent]
    ) -> list[Handed]:
        """Step 1, for all that these events tell of and that was not handed out before.

        Raises:
            NotInLog: They tell of entries that are not there.
            StoreUnavailable: Not now; some may have been handed out, and will be again.
        """
        now = self._clock.now()
        held = {
            event.sequence: event.entry
            for event in events
            if isinstance(event, EntryEvent) and is_young(event.entry, now)
        }
        is_old = len(held) < len({event.sequence for event in events})
        handed = []
        try:
            for first, goal in _stretches(event.sequence for event in events):
                start = first
                while start <= goal and (
                    run := await self.folds.run(chat, start, goal, held, is_old=is_old)
                ):
                    handed.append(await self._hand_out(run))
                    self.folds.handed_out(run)
                    start = run.entries[-1].sequence + 1
        except Exception:
            self.folds.forget(chat)
            raise
        return handed

    async def _hand_out(self, run: DeliveryRun) -> Handed:
        loads = batches_of(run)
        await self.handing.hand(loads, run.state.members)
        return Handed(run, loads)

    async def _open(self, entries: Sequence[Entry]) -> None:
        await self._vault.open(entries, self._clock.now())

    async def write_head(self, handed: Sequence[Handed]) -> None:
        """Step 2, for runs of one chat that were handed out; may wait for a second.

        Raises:
            StoreUnavailable: The store closes.
        """
        last = max((one.run for one in handed), key=lambda run: run.entries[-1].sequence)
        head = head_of(last.entries[-1])
        is_changed = any(entry.kind in _COUNTED for one in handed for entry in one.run.entries)
        is_known = is_changed and last.state.head == head.sequence
        count = len(last.state.members) if is_known else None
        await self._deliveries.advance(last.state.chat_id, head, count)

    async def hand_again(self, handed: Sequence[Handed]) -> None:
        """Steps 3 and 4, for runs whose head is written: to those who are members by now.

        Raises:
            StoreUnavailable: Not now; nobody was pushed.
        """
        members = self._members_now(handed)
        await self.handing.hand([load for one in handed for load in one.loads], members)
        await self.pushing.tell([(one.run.entries, one.reached) for one in handed], members)
        self.delivered += sum(len(one.run.entries) for one in handed)

    def _members_now(self, handed: Sequence[Handed]) -> Mapping[UserKey, Member]:
        states = [one.run.state for one in handed]
        if (known := self.folds.known(states[0].chat_id)) is not None:
            states.append(known)
        return max(states, key=lambda state: state.head).members

    async def deliver(self, chat: ChatId, *, after: int, up_to: int) -> None:
        """All steps at once for a stretch of a log, for whoever knows that nobody else does it.

        Of a long one only the end: devices that get it read from the log what is before.
        """
        first = max(after + 1, up_to - RUN_ENTRIES_MAX + 1)
        handed = await self.hand_out(chat, [HintEvent(chat, first), HintEvent(chat, up_to)])
        if handed:
            try:
                await self.write_head(handed)
                await self.hand_again(handed)
            except Exception:
                self.folds.forget(chat)
                raise


def _stretches(sequences: Iterable[int]) -> list[tuple[int, int]]:
    """First and last of what goes together: a run never holds more than it may."""
    stretches: list[tuple[int, int]] = []
    for sequence in sorted(set(sequences)):
        if stretches and sequence - stretches[-1][0] < RUN_ENTRIES_MAX:
            stretches[-1] = (stretches[-1][0], sequence)
        else:
            stretches.append((sequence, sequence))
    return stretches


class UnreadRecount:
    """Tells connected members how much is unread now. Best effort: no frame here is promised."""

    def __init__(
        self,
        folds: DeliveryStates,
        registry: Registry,
        handover: Handover,
        count_unread: Callable[[UserKey, ChatId], Awaitable[Unread | None]],
    ) -> None:
        self._folds = folds
        self._registry = registry
        self._handover = handover
        self._count_unread = count_unread

    async def tell(self, chat: ChatId) -> None:
        """Count for each connected member, and hand the count over."""
        with suppress(RegistryUnavailable, Unavailable):
            state = await self._folds.state(chat)
            places = await self._registry.find(state.members) if state is not None else {}
            for user, found in places.items():
                unread = await self._count_unread(user, chat)
                if unread is not None:
                    frame = encode(UnreadFrame(chat, unread.count, unread.exact))
                    gateways = {place.gateway: [user] for place in found}
                    self._handover.notice(frame, gateways, chat)

# SPDX-License-Identifier: Apache-2.0
"""The steps that deliver the entries of one chat, and the sending of unread counts.

(1) Look up the members' connections, and hand the entries over to their gateways. (2) Store which
webhook endpoints are owed the entries, and write the head copy: the sequence up to which the chat
is delivered. (3) Look up the connections again, and
hand the entries over to every connection that has not received them. (4) Push to members without a
connection. The caller then (5) finishes the events.

Step 3 is necessary even for users who were reached in step 1: a connection may have broken after
step 1 with unsent frames, and the user's next connection may have sent hello before step 2.

A head copy is written at most once a second per chat. Step 1 does not wait for this. Therefore, in
a busy chat, several runs are dispatched first, and then steps 2 to 4 are done for all of them
together.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

import msgspec

from tidings.actions.content.vault import Vault
from tidings.actions.webhooks.owing import OweEntries
from tidings.delivery.chat_states import DISPATCHED_ENTRIES_MAX, DeliveryRun, DeliveryStates
from tidings.delivery.dispatch import Batch, GatewayDispatch, batches_of
from tidings.delivery.push_notices import PushNotifier, PushOffers, is_young
from tidings.metrics.counts import report_counts
from tidings.model.chats import Unread
from tidings.model.entries import Entry, head_of
from tidings.model.ids import ChatId, UserKey, tenant_of
from tidings.model.refusals import Unavailable
from tidings.model.roles import Member
from tidings.ports.delivery import DeliveryStore, Handover, Registry, RegistryUnavailable
from tidings.ports.log import Log
from tidings.ports.world import Clock
from tidings.wire.events import EntryEvent, HintEvent
from tidings.wire.frames import UnreadFrame, encode

log = logging.getLogger("tidings.delivery")


class DispatchedRun(msgspec.Struct, frozen=True):
    """A run of entries that was dispatched (step 1), with the batches into which it was split."""

    run: DeliveryRun
    batches: list[Batch]

    @property
    def reached(self) -> set[UserKey]:
        """Users for whom a gateway has confirmed that one of their connections received the run."""
        return set().union(*(batch.reached for batch in self.batches))


class Deliverer:
    """Performs the steps of delivery. For one chat, calls of the same step must not overlap."""

    def __init__(
        self,
        *,
        log: Log,
        deliveries: DeliveryStore,
        vault: Vault,
        registry: Registry,
        handover: Handover,
        push: PushOffers | None,
        clock: Clock,
        owe: OweEntries | None = None,
    ) -> None:
        """Create the deliverer; `owe` stores which webhook endpoints are owed the entries."""
        self._owe = owe
        self.states = DeliveryStates(log, deliveries)
        self.gateway_dispatch = GatewayDispatch(registry, handover, self._open)
        self.pushing = PushNotifier(push, clock)
        self._deliveries = deliveries
        self._vault = vault
        self._clock = clock
        self.delivered = 0
        report_counts(self, "deliverer")

    async def dispatch(
        self, chat: ChatId, events: Sequence[EntryEvent | HintEvent]
    ) -> list[DispatchedRun]:
        """Step 1: dispatch the entries that these events announce, unless this was done before.

        Raises:
            NotInLog: An event announces an entry that the log does not have.
            StoreUnavailable: The store does not answer. If the caller tries again, some entries may
                be dispatched twice.
        """
        now = self._clock.now()
        in_events = {
            event.sequence: event.entry
            for event in events
            if isinstance(event, EntryEvent) and is_young(event.entry, now)
        }
        is_old = len(in_events) < len({event.sequence for event in events})
        dispatched = []
        try:
            for first, goal in _stretches({event.sequence, _end(event)} for event in events):
                start = first
                while start <= goal and (
                    run := await self.states.run(chat, start, goal, in_events, is_old=is_old)
                ):
                    dispatched.append(await self._dispatch(run))
                    self.states.mark_dispatched(run)
                    start = run.entries[-1].sequence + 1
        except Exception:
            self.states.forget(chat)
            raise
        return dispatched

    async def _dispatch(self, run: DeliveryRun) -> DispatchedRun:
        batches = batches_of(run)
        await self.gateway_dispatch.dispatch(batches, run.state.members)
        return DispatchedRun(run, batches)

    async def _open(self, entries: Sequence[Entry]) -> None:
        await self._vault.open(entries, self._clock.now())

    async def write_head(self, dispatched: Sequence[DispatchedRun]) -> None:
        """Step 2: write the head copy for dispatched runs of one chat. This may take a second.

        Raises:
            StoreUnavailable: The store is closing.
        """
        entries = [entry for done in dispatched for entry in done.run.entries]
        end = max(entries, key=lambda entry: entry.sequence)
        if self._owe is not None:
            # Before the head copy: afterwards, nobody would look at these entries again.
            first, tenant = min(entry.sequence for entry in entries), tenant_of(end.sender)
            reached = self._deliveries.reached
            await self._owe.after_head_copy(tenant, end.chat_id, first, end.sequence, reached)
        last = next((entry for entry in entries if entry.sequence == end.last_message), None)
        await self._deliveries.advance(end.chat_id, head_of(end), last)

    async def dispatch_again(self, dispatched: Sequence[DispatchedRun]) -> None:
        """Steps 3 and 4: dispatch to connections that are new since step 1, then push.

        Raises:
            StoreUnavailable: The store does not answer, and no push was sent. The caller may try
                again.
        """
        members = self._members_now(dispatched)
        await self.gateway_dispatch.dispatch(
            [batch for done in dispatched for batch in done.batches], members
        )
        await self.pushing.notify(
            [(done.run.entries, done.reached, done.run.state.is_small) for done in dispatched],
            members,
        )
        self.delivered += sum(len(done.run.entries) for done in dispatched)

    def _members_now(self, dispatched: Sequence[DispatchedRun]) -> Mapping[UserKey, Member]:
        states = [done.run.state for done in dispatched]
        if (known := self.states.known(states[0].chat_id)) is not None:
            states.append(known)
        return max(states, key=lambda state: state.head).members

    async def deliver(self, chat: ChatId, *, after: int, up_to: int) -> None:
        """Perform steps 1 to 4 for a range of entries that no other process delivers.

        Only the last `DISPATCHED_ENTRIES_MAX` entries are dispatched. Connections that receive them
        read the earlier entries from the log.
        """
        first = max(after + 1, up_to - DISPATCHED_ENTRIES_MAX + 1)
        dispatched = await self.dispatch(chat, [HintEvent(chat, first), HintEvent(chat, up_to)])
        if dispatched:
            try:
                await self.write_head(dispatched)
                await self.dispatch_again(dispatched)
            except Exception:
                self.states.forget(chat)
                raise


def _end(event: EntryEvent | HintEvent) -> int:
    """Return the sequence of the last entry that an event announces; a pack has several entries.

    A pack is always delivered as a whole, because the relay sees only the sequence of its first
    message. A head copy within a pack would hide from the relay that the rest is not delivered.
    """
    return max(event.sequence, event.until if isinstance(event, EntryEvent) else 0)


def _stretches(sequences: Iterable[set[int]]) -> list[tuple[int, int]]:
    """Divide sequences into ranges, each small enough for one run; return the first and the last
    sequence of each range."""
    stretches: list[tuple[int, int]] = []
    for sequence in sorted(set().union(*sequences)):
        if stretches and sequence - stretches[-1][0] < DISPATCHED_ENTRIES_MAX:
            stretches[-1] = (stretches[-1][0], sequence)
        else:
            stretches.append((sequence, sequence))
    return stretches


class UnreadRecount:
    """Sends connected members their number of unread messages. Frames may be lost."""

    def __init__(
        self,
        states: DeliveryStates,
        registry: Registry,
        handover: Handover,
        count_unread: Callable[[UserKey, ChatId], Awaitable[Unread | None]],
    ) -> None:
        self._states = states
        self._registry = registry
        self._handover = handover
        self._count_unread = count_unread

    async def send(self, chat: ChatId) -> None:
        """Count the unread messages of each connected member, and send the count to the member."""
        try:
            await self._send(chat)
        except (RegistryUnavailable, Unavailable):
            pass
        except Exception:
            log.exception("unread counts were not sent", extra={"action": "recount_failed"})

    async def _send(self, chat: ChatId) -> None:
        state = await self._states.state(chat)
        addresses = await self._registry.find(state.members) if state is not None else {}
        for user, found in addresses.items():
            unread = await self._count_unread(user, chat)
            if unread is not None:
                frame = encode(UnreadFrame(chat, unread.count, unread.exact, unread.mentions))
                gateways = {address.gateway: [user] for address in found}
                self._handover.notice(frame, gateways, chat)

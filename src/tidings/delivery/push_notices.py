# SPDX-License-Identifier: Apache-2.0
"""Offers new messages to the queue of push notices, for the members who may be notified.

Only messages that are not older than `YOUNG_MS_MAX` are offered. If a message is offered twice, for
example after a worker was killed before it finished the event, the claim of the notice makes sure
that it is sent once.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, Literal, Protocol

import msgspec

from tidings.actions.identity.blocks import BlockLists
from tidings.actions.push.journal import PushJournal
from tidings.caches import LruCache
from tidings.metrics import declared
from tidings.model.entries import Entry
from tidings.model.ids import ChatId, UserKey, tenant_of
from tidings.model.push_rules import YOUNG_MS_MAX, ArrivedMessage, reason_at_arrival
from tidings.model.refusals import Unavailable
from tidings.model.roles import Member
from tidings.ports.bus import Appended, Bus
from tidings.ports.push import LookingDevices
from tidings.ports.world import Clock
from tidings.tasks import Tasks
from tidings.tenant_queues import TenantQueues

ARRIVALS_MAX: Final = 10_000
TENANT_ARRIVALS_MAX: Final = 2_500
"""Maximum number of messages that wait until their members are looked up."""
WORKERS: Final = 4
TENANT_WORKERS: Final = 2
OFFERED_CHATS_MAX: Final = 50_000


def is_young(entry: Entry, now: int) -> bool:
    """Return True if an entry was just appended. An entry from the future is young, too."""
    return now - entry.created_at <= YOUNG_MS_MAX


class Arrival(msgspec.Struct, frozen=True):
    """A new message, and the members who may be notified of it."""

    entry: Entry
    members: Mapping[UserKey, Member]
    is_small: bool
    is_again: bool = False
    """Whether the message is from before the start of this process. Devices that took it may not be
    connected again yet."""


class OfferQueue(Protocol):
    """Takes messages of which users may be notified; see `PushQueue`."""

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
        """Notify a user of a message: at once, or later if the user looks at a device."""
        ...


class PushReach(Protocol):
    """Knows which users can be notified."""

    def is_off(self, tenant: str) -> bool:
        """Return True if it is known, without a read, that no user of the tenant is reachable."""
        ...

    async def is_on(self, tenant: str) -> bool:
        """Return True if some users of the tenant may be reachable."""
        ...

    async def is_reachable(self, user: UserKey) -> bool:
        """Return True if the user has a device or something else that can be notified."""
        ...


class Everybody:
    """The reach of a push service of the operator, who knows the devices of all users."""

    def is_off(self, tenant: str) -> bool:
        return False

    async def is_on(self, tenant: str) -> bool:
        return True

    async def is_reachable(self, user: UserKey) -> bool:
        return True


class PushOffers:
    """Finds the members who may be notified of a message, and offers it to the queue for them."""

    def __init__(
        self,
        queue: OfferQueue,
        reach: PushReach,
        blocks: BlockLists,
        looking: LookingDevices,
        journal: PushJournal,
    ) -> None:
        self.is_off: Final = reach.is_off
        """Return True if it is known, without a read, that no user of a tenant is reachable."""
        self.is_on: Final = reach.is_on
        """Return True if some users of a tenant may be reachable."""
        self._queue = queue
        self._reach = reach
        self._blocks = blocks
        self._looking = looking
        self._journal = journal

    def lose(self, entry: Entry, why: Literal["late", "dropped", "failed"]) -> None:
        """Keep in the journal that nobody is notified of a message."""
        if self.is_off(tenant_of(entry.sender)):
            return
        # After an outage, many messages are late, and must not displace outcomes.
        keep = self._journal.skipped if why == "late" else self._journal.lost
        keep(None, entry.chat_id, (entry.sequence,), why)

    async def offer(self, arrival: Arrival, reached: Collection[UserKey] | None = None) -> None:
        """Offer a message to the queue for each member who may be notified of it.

        `reached` are the members who look at a device that got the message, if another process
        knows them; otherwise this process has all connections.

        Raises:
            StoreUnavailable: The store cannot be read now.
        """
        entry = arrival.entry
        if not await self.is_on(tenant_of(entry.sender)):
            return
        blocked_by = (await self._blocks.of(entry.sender, arrival.members)).blocked_by
        for user, member in arrival.members.items():
            is_blocked = user in blocked_by
            if reason_at_arrival(entry, user, member.joined, is_blocked=is_blocked) is not None:
                continue
            if reached is not None and user in reached and not arrival.is_small:
                continue  # receipts of large chats are not stored at once; what was written counts
            if await self._reach.is_reachable(user):
                self._offer(arrival, user, reached)

    def _offer(self, arrival: Arrival, user: UserKey, reached: Collection[UserKey] | None) -> None:
        entry, is_small = arrival.entry, arrival.is_small
        is_looking = self._looking.is_looking(user) if reached is None else user in reached
        receipts_tell = not self._looking.is_away(user) if reached is None else is_looking
        self._queue.offer(
            user,
            entry.chat_id,
            ArrivedMessage(entry.sequence, entry.sender, entry.does_mention(user)),
            is_small=is_small,
            is_looking=is_looking or arrival.is_again,
            receipts_tell=receipts_tell,
        )


class OwnArrivals:
    """Offers the messages that this process appends, if it has all connections."""

    def __init__(self, offers: PushOffers, bus: Bus, clock: Clock) -> None:
        self._offers = offers
        self._is_off: Final = offers.is_off
        self._clock = clock
        self._offered: LruCache[ChatId, int] = LruCache(OFFERED_CHATS_MAX)
        """The last sequence of each chat that was offered; a relay may publish it again."""
        self._arrivals: TenantQueues[Arrival] = TenantQueues(
            "push arrivals",
            tenant_max=TENANT_ARRIVALS_MAX,
            total_max=ARRIVALS_MAX,
            at_once_max=TENANT_WORKERS,
        )
        self._tasks = Tasks("push arrivals")
        bus.subscribe(self._on_appended, Appended)

    def start(self) -> None:
        """Start the tasks that look up members."""
        for _ in range(WORKERS):
            self._tasks.repeat(self._work)

    async def close(self) -> None:
        """Stop."""
        await self._tasks.close()

    def _on_appended(self, event: Appended) -> None:
        entry, state = event.entry, event.state
        if entry.kind != "message" or entry.silent or self._is_off(state.tenant):
            return
        # The content is read again before a notice is sent, so it need not wait in memory.
        bare = msgspec.structs.replace(entry, content=None, box=None)
        self.arrive(Arrival(bare, state.members, state.is_small))

    def arrive(self, arrival: Arrival) -> None:
        """Take a message, unless it is old or was taken before."""
        entry = arrival.entry
        if (self._offered.get(entry.chat_id) or 0) >= entry.sequence:
            return
        if not is_young(entry, self._clock.now()):
            self._offers.lose(entry, "late")
            return
        self._offered.put(entry.chat_id, entry.sequence)
        self._tasks.start(self._put(arrival))

    async def _put(self, arrival: Arrival) -> None:
        dropped = await self._arrivals.put(tenant_of(arrival.entry.sender), arrival)
        if dropped is not None:
            declared.push.counts["dropped"] += 1
            self._offers.lose(dropped.item.entry, "dropped")

    async def _work(self) -> None:
        tenant, arrival = await self._arrivals.get()
        try:
            await self._offers.offer(arrival)
        except Unavailable:
            declared.push.counts["failed"] += 1
            self._offers.lose(arrival.entry, "failed")
        finally:
            await self._arrivals.done(tenant)


class PushNotifier:
    """Offers delivered messages to the queue of push notices, for members whom no gateway has
    reached."""

    def __init__(self, offers: PushOffers | None, clock: Clock) -> None:
        self._offers = offers
        self._clock = clock

    async def notify(
        self,
        runs: Iterable[tuple[Sequence[Entry], Collection[UserKey], bool]],
        members: Mapping[UserKey, Member],
    ) -> None:
        """Offer the young messages of each run, with the members whom the run has reached and
        whether the chat is small.

        Raises:
            StoreUnavailable: The store cannot be read now; some messages may have been offered.
        """
        if self._offers is None:
            return
        now = self._clock.now()
        for entries, reached, is_small in runs:
            for entry in entries:
                # A message whose content is gone by now needs no push.
                if entry.kind != "message" or entry.gone is not None:
                    continue
                if is_young(entry, now):
                    await self._offers.offer(Arrival(entry, members, is_small), reached)
                else:
                    self._offers.lose(entry, "late")


_conforms: type[PushReach] = Everybody

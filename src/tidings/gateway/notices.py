# SPDX-License-Identifier: Apache-2.0
"""What connected users are told of their inboxes: something came, or was taken back, or was read.

An event is only a hint, wherever it comes from. What is shown is looked up here, and judged again
for each portion of users: nothing that was taken back leaves in a frame.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from typing import Any, Final, assert_never

from tidings.actions.inbox.log_views import LogViews
from tidings.actions.inbox.showing import NotificationReader, OpenedNotification
from tidings.gateway.hub import Hub
from tidings.model.ids import UserKey, user_id
from tidings.model.inbox_reading import UnreadCount, is_for
from tidings.model.notifications import Broadcast, broadcast_sequence
from tidings.model.refusals import Refusal
from tidings.model.times import rfc3339
from tidings.ports.bus import (
    BroadcastPosted,
    Bus,
    CopiesMade,
    Event,
    InboxEvent,
    InboxRead,
    Invited,
    Retracted,
)
from tidings.ports.inboxes import Copies
from tidings.tasks import Tasks
from tidings.wire.frames import InboxUnread, InvitedFrame, NotificationFrame, RetractedFrame, encode

RECOUNTS_WAITING_MAX: Final = 50_000
COUNTED_AT_ONCE: Final = 4
"""A count may be a query of a thousand rows: after something many had was taken back, this many
run side by side and no more."""


class InboxUnreadCounts:
    """Counts for who waits, and tells all devices of theirs. Best effort."""

    def __init__(
        self, hub: Hub, count_unread: Callable[[UserKey, str], Awaitable[UnreadCount]]
    ) -> None:
        self.dropped = 0
        """Counts that came while too many waited."""
        self._hub = hub
        self._count_unread = count_unread
        self._waiting: OrderedDict[tuple[UserKey, str], None] = OrderedDict()
        self._counting = 0
        self._under_way: set[tuple[UserKey, str]] = set()
        self._again: set[tuple[UserKey, str]] = set()
        self._tasks = Tasks("recounts")

    async def close(self) -> None:
        """Stop what is under way."""
        await self._tasks.close()

    def ask(self, user: UserKey, inbox: str, *, is_urgent: bool = False) -> None:
        """Count and tell soon; who is urgent goes before the others."""
        if not self._hub.of(user):
            return
        if len(self._waiting) >= RECOUNTS_WAITING_MAX:
            self.dropped += 1
            return
        self._waiting[user, inbox] = None
        if is_urgent:
            self._waiting.move_to_end((user, inbox), last=False)
        if self._counting < COUNTED_AT_ONCE:
            self._counting += 1
            self._tasks.start(self._work())

    async def _work(self) -> None:
        try:
            while self._waiting:
                one, _ = self._waiting.popitem(last=False)
                if one in self._under_way:
                    self._again.add(one)  # told by two at once, the older count might come last
                else:
                    await self._count(one)
        finally:
            self._counting -= 1

    async def _count(self, one: tuple[UserKey, str]) -> None:
        self._under_way.add(one)
        try:
            with suppress(Refusal):  # nobody is told, and whoever asks is counted for anew
                await self._tell(*one)
        finally:
            self._under_way.discard(one)
            if one in self._again:
                self._again.discard(one)
                self._waiting[one] = None

    async def _tell(self, user: UserKey, inbox: str) -> None:
        unread = await self._count_unread(user, inbox)
        frame = encode(InboxUnread(inbox, unread.total, unread.categories))
        for line in self._hub.of(user):
            line.tell(frame)


USERS_AT_ONCE: Final = 100
"""How many users are told before others have their turn."""
AT_ONCE: Final = 16
WAITING_MAX: Final = 2_000
"""Events beyond this are dropped: whoever missed something finds it in the list."""


class InboxFrames:
    """Subscribes to the bus, is told what other processes know, and tells connections."""

    def __init__(
        self,
        bus: Bus,
        hub: Hub,
        *,
        views: LogViews,
        showing: NotificationReader,
        copies: Copies,
        recounts: InboxUnreadCounts,
    ) -> None:
        self.dropped = 0
        """Events that came while too many waited."""
        self._hub = hub
        self._views = views
        self._showing = showing
        self._copies = copies
        self._recounts = recounts
        self._free = asyncio.Semaphore(AT_ONCE)
        self._waiting = 0
        self._tasks = Tasks("inbox-frames")
        bus.subscribe(self._on_event)

    async def close(self) -> None:
        """Stop what is under way."""
        await self._tasks.close()
        await self._recounts.close()

    def _on_event(self, event: Event) -> None:
        if isinstance(event, InboxEvent):
            self.hint(event)

    def hint(self, event: InboxEvent) -> None:
        """Something happened to an inbox, here or elsewhere."""
        match event:
            case CopiesMade():
                if online := self._hub.online(event.users):
                    self._begin(lambda: self._copied(event, sorted(online)))
            case BroadcastPosted():
                self._begin(lambda: self._announced(event))
            case Retracted():
                self._begin(lambda: self._retracted(event))
            case InboxRead(user, inbox):
                self._recounts.ask(user, inbox, is_urgent=True)
            case _:
                assert_never(event)

    def _begin(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if self._waiting >= WAITING_MAX:
            self.dropped += 1
            return
        self._waiting += 1
        self._tasks.start(self._in_turn(work))

    async def _in_turn(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            async with self._free:
                with suppress(Refusal):  # it cannot be looked up now, and nobody is told
                    await work()
        finally:
            self._waiting -= 1

    async def _copied(self, event: CopiesMade, users: Sequence[UserKey]) -> None:
        shown = await self._showing.copy_text(event.tenant, event.inbox, event.notification_id)
        if shown is None:
            return
        frame = _frame(event.inbox, shown, event.received_at)
        # Judged last: it may have been taken back while the text was looked up.
        view = await self._views.now(event.tenant, event.inbox)
        if not view.is_retracted(event.notification_id):
            self._tell(users, frame)

    async def _announced(self, event: BroadcastPosted) -> None:
        inbox, frame = event.inbox, b""
        async for told, users in self._who_may_see(event.tenant, inbox, event.sequence):
            shown = await self._showing.broadcast_text(told)
            if shown is None:
                return
            frame = frame or _frame(inbox, shown, told.posted_at)
            if (await self._views.now(event.tenant, inbox)).is_retracted(told.notification_id):
                return
            self._tell(users, frame)

    async def _retracted(self, event: Retracted) -> None:
        tenant, inbox, notification_id = event.tenant, event.inbox, event.notification_id
        sequence = broadcast_sequence(notification_id)
        frame = encode(RetractedFrame(inbox, notification_id))
        if sequence is None:
            # Counting uses what is known of the log: now it knows of this.
            await self._views.get(tenant, inbox, age_ms=0)
            for portion in _portions(self._hub.of_tenant(tenant)):
                holders = await self._copies.holders(portion, inbox, notification_id)
                self._take_back(holders, inbox, frame)
            return
        async for _, users in self._who_may_see(tenant, inbox, sequence):
            self._take_back(users, inbox, frame)

    def _take_back(self, users: Sequence[UserKey], inbox: str, frame: bytes) -> None:
        self._tell(users, frame)
        for user in users:
            self._recounts.ask(user, inbox)

    async def _who_may_see(
        self, tenant: str, inbox: str, sequence: int
    ) -> AsyncIterator[tuple[Broadcast, list[UserKey]]]:
        """Connected users of the tenant in portions, with the announcement as it is by then."""
        await self._views.get(tenant, inbox, age_ms=0)
        for portion in _portions(self._hub.of_tenant(tenant)):
            view = await self._views.get(tenant, inbox)
            told = next((one for one in view.broadcasts if one.sequence == sequence), None)
            if told is None:
                return
            if not told.late_joiners:
                portion = [u for u in portion if is_for(told, await self._showing.joined_at(u))]
            yield told, portion
            await asyncio.sleep(0)

    def _tell(self, users: Iterable[UserKey], frame: bytes) -> None:
        for user in users:
            for line in self._hub.of(user):
                line.tell(frame)


def _portions(users: list[UserKey]) -> Iterable[list[UserKey]]:
    for start in range(0, len(users), USERS_AT_ONCE):
        yield users[start : start + USERS_AT_ONCE]


def _frame(inbox: str, shown: OpenedNotification, received_at: int) -> bytes:
    return encode(
        NotificationFrame(
            inbox=inbox,
            id=shown.notification_id,
            category=shown.category,
            sender=shown.text.sender,
            host_system_id=shown.text.host_system_id,
            message=shown.text.message,
            received_at=rfc3339(received_at),
        )
    )


class InviteFrames:
    """Subscribes to the bus. What nobody hears of stands in the list of invitations."""

    def __init__(self, bus: Bus, hub: Hub) -> None:
        self._hub = hub
        bus.subscribe(self._on_event)

    def _on_event(self, event: Event) -> None:
        if not isinstance(event, Invited):
            return
        if lines := self._hub.of(event.user):
            frame = encode(InvitedFrame(event.chat, user_id(event.inviter)))
            for line in lines:
                line.tell(frame)

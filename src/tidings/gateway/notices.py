# SPDX-License-Identifier: Apache-2.0
"""Sends connected users frames about notifications, unread counts, invitations, scheduled messages
that failed, and chats that the users themselves have marked, hidden or muted.

An event is only a hint, whether it comes from this process or another. This module looks up the
notification itself, and checks it again for each batch of users. Therefore it never sends a
notification that is already retracted.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterable, Sequence
from contextlib import suppress
from typing import Any, Final, assert_never, get_args

from tidings.actions.identity.blocks import BlockLists
from tidings.actions.inbox.broadcast_log import LogViews
from tidings.actions.inbox.preferences import Reachable
from tidings.actions.inbox.showing import NotificationReader, OpenedNotification
from tidings.gateway.client_connection import ConnectedUsers
from tidings.gateway.inbox_counts import InboxUnreadCounts
from tidings.metrics.counts import report_counts
from tidings.model.blocks import BlockList
from tidings.model.ids import UserKey, rfc3339, user_id
from tidings.model.inbox_reading import is_for
from tidings.model.notifications import Broadcast
from tidings.model.refusals import Refusal
from tidings.ports.bus import (
    BroadcastPosted,
    Bus,
    ChatChanged,
    CopiesMade,
    InboxEvent,
    InboxRead,
    Invited,
    Retracted,
    ScheduledFailed,
    StatesChanged,
)
from tidings.ports.inboxes import Copies
from tidings.tasks import Tasks
from tidings.wire.codes import Close
from tidings.wire.frames import (
    ChatChangedFrame,
    InvitedFrame,
    NotificationFrame,
    RetractedFrame,
    encode,
)
from tidings.wire.inbox_frames import marked_frame
from tidings.wire.scheduled import ScheduledFailedFrame

USERS_AT_ONCE: Final = 100
"""Number of users who are served before other tasks run."""
AT_ONCE: Final = 16
WAITING_MAX: Final = 2_000
"""Limit on waiting events. Further events are dropped; their users still see the notifications in
the list."""


class InboxFrames:
    """Sends frames about inbox events, from this process and from others, to connections."""

    def __init__(
        self,
        bus: Bus,
        hub: ConnectedUsers,
        *,
        views: LogViews,
        showing: NotificationReader,
        copies: Copies,
        reachable: Reachable,
        recounts: InboxUnreadCounts,
        handed: Callable[[str], None] = lambda _notification: None,
    ) -> None:
        """Subscribe to inbox events; `handed` is called with each notification that is sent, as
        inbox and id with a slash between them."""
        self.dropped = 0
        """Number of events dropped because too many were waiting."""
        report_counts(self, "notices")
        self._hub = hub
        self._views = views
        self._showing = showing
        self._copies = copies
        self._reachable = reachable
        self._recounts = recounts
        self._handed = handed
        self._free = asyncio.Semaphore(AT_ONCE)
        self._waiting = 0
        self._tasks = Tasks("inbox-frames")
        bus.subscribe(self.hint, *get_args(InboxEvent))

    async def close(self) -> None:
        """Cancel running work."""
        await self._tasks.close()
        await self._recounts.close()

    def hint(self, event: InboxEvent) -> None:
        """Handle an inbox event of this process or of another gateway."""
        match event:
            case CopiesMade():
                if online := self._hub.online(event.users):
                    self._begin(lambda: self._copied(event, sorted(online)))
            case BroadcastPosted():
                self._begin(lambda: self._broadcast_posted(event))
            case Retracted():
                self._begin(lambda: self._retracted(event))
            case InboxRead(user, inbox):
                self._recounts.ask(user, inbox, is_urgent=True)
            case StatesChanged(user, inbox, change, ids, before, acted):
                self._send([user], encode(marked_frame(inbox, change, ids, before, acted)))
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
                with suppress(Refusal):  # the lookup failed: no frame is sent
                    await work()
        finally:
            self._waiting -= 1

    async def _copied(self, event: CopiesMade, users: Sequence[UserKey]) -> None:
        shown = await self._showing.copy_text(event.tenant, event.inbox, event.notification_id)
        if shown is None:
            return
        frame = _frame(event.inbox, shown, event.received_at)
        # This check comes last: the notification may have been retracted during the lookup.
        view = await self._views.now(event.tenant, event.inbox)
        if not view.is_retracted(event.notification_id):
            self._send(users, frame)
            self._handed(f"{event.inbox}/{event.notification_id}")

    async def _broadcast_posted(self, event: BroadcastPosted) -> None:
        inbox, frame = event.inbox, b""
        async for broadcast, users in self._audience(event.tenant, inbox, event.sequence):
            shown = await self._showing.broadcast_text(broadcast)
            if shown is None:
                return
            users = await self._reachable.wanting(users, inbox, broadcast.category)
            frame = frame or _frame(inbox, shown, broadcast.posted_at)
            if (await self._views.now(event.tenant, inbox)).is_retracted(broadcast.notification_id):
                return
            self._send(users, frame)
            self._handed(f"{inbox}/{broadcast.notification_id}")

    async def _retracted(self, event: Retracted) -> None:
        tenant, inbox, notification_id = event.tenant, event.inbox, event.notification_id
        frame = encode(RetractedFrame(inbox, notification_id))
        # Counting uses the cached view of the inbox log, which must include the retraction.
        view = await self._views.get(tenant, inbox, age_ms=0)
        sent = view.broadcast(notification_id)
        if sent is None:
            for batch in _batches(self._hub.of_tenant(tenant)):
                holders = await self._copies.holders(batch, inbox, notification_id)
                self._send_retraction(holders, inbox, frame)
            return
        async for _, users in self._audience(tenant, inbox, sent.sequence):
            self._send_retraction(users, inbox, frame)

    def _send_retraction(self, users: Sequence[UserKey], inbox: str, frame: bytes) -> None:
        self._send(users, frame)
        for user in users:
            self._recounts.ask(user, inbox)

    async def _audience(
        self, tenant: str, inbox: str, sequence: int
    ) -> AsyncIterator[tuple[Broadcast, list[UserKey]]]:
        """Yield the tenant's connected users in batches, each batch with the current state of the
        broadcast."""
        await self._views.get(tenant, inbox, age_ms=0)
        for batch in _batches(self._hub.of_tenant(tenant)):
            view = await self._views.get(tenant, inbox)
            broadcast = next((b for b in view.broadcasts if b.sequence == sequence), None)
            if broadcast is None:
                return
            if not broadcast.late_joiners:
                batch = [u for u in batch if is_for(broadcast, await self._showing.joined_at(u))]
            yield broadcast, batch
            await asyncio.sleep(0)

    def _send(self, users: Iterable[UserKey], frame: bytes) -> None:
        for user in users:
            for connection in self._hub.of(user):
                connection.send(frame)


def _batches(users: list[UserKey]) -> Iterable[list[UserKey]]:
    for start in range(0, len(users), USERS_AT_ONCE):
        yield users[start : start + USERS_AT_ONCE]


def _frame(inbox: str, shown: OpenedNotification, received_at: int) -> bytes:
    text = shown.text
    return encode(
        NotificationFrame(
            inbox=inbox,
            id=shown.notification_id,
            category=shown.category,
            sender=text.sender,
            host_system_id=text.host_system_id,
            message=text.message,
            received_at=rfc3339(received_at),
            actions=list(text.actions),
            collapse_key=text.collapse_key,
        )
    )


class BlockedSenders:
    """Informs each connection which senders its user blocks. Their entries are sent without
    content."""

    def __init__(self, hub: ConnectedUsers, blocks: BlockLists) -> None:
        self._hub = hub
        self._blocks = blocks
        self._tasks = Tasks("blocked-senders")
        blocks.listen(self._changed)

    async def of(self, user: UserKey) -> Collection[str]:
        """Return the ids of the users whom a user blocks."""
        return _ids(await self._blocks.of(user))

    async def close(self) -> None:
        """Cancel running work."""
        await self._tasks.close()

    def _changed(self, user: UserKey, found: BlockList | None) -> None:
        if found is not None:
            self._apply(user, _ids(found))
        elif self._hub.of(user):
            self._tasks.start(self._reload(user))

    async def _reload(self, user: UserKey) -> None:
        try:
            blocked = await self.of(user)
        except Refusal:
            # A connection must not show what its user no longer wants to see.
            for connection in self._hub.of(user):
                connection.close(Close.OVERLOADED)
            return
        self._apply(user, blocked)

    def _apply(self, user: UserKey, blocked: Collection[str]) -> None:
        for connection in self._hub.of(user):
            connection.set_blocked(blocked)


def _ids(found: BlockList) -> Collection[str]:
    # Nearly nobody blocks anybody, and an empty set takes 216 bytes for each connection.
    return frozenset(user_id(other) for other in found.blocked) if found.blocked else ()


class OwnFrames:
    """Sends users frames that are only for themselves, whichever chats their devices follow.

    Users who are not connected find invitations, changed chats and failed messages in their lists.
    """

    def __init__(self, bus: Bus, hub: ConnectedUsers) -> None:
        self._hub = hub
        bus.subscribe(self._invited, Invited)
        bus.subscribe(self._chat_changed, ChatChanged)
        bus.subscribe(self._scheduled_failed, ScheduledFailed)

    def _invited(self, event: Invited) -> None:
        if self._hub.of(event.user):
            self._send(event.user, encode(InvitedFrame(event.chat, user_id(event.inviter))))

    def _chat_changed(self, event: ChatChanged) -> None:
        self._send(event.user, encode(ChatChangedFrame(event.chat)))

    def _scheduled_failed(self, event: ScheduledFailed) -> None:
        frame = ScheduledFailedFrame(event.scheduled_id, event.chat, event.code)
        self._send(event.user, encode(frame))

    def _send(self, user: UserKey, frame: bytes) -> None:
        for connection in self._hub.of(user):
            connection.send(frame)

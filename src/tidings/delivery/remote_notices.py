# SPDX-License-Identifier: Apache-2.0
"""Sends frames that have no sequence to connections on other gateways. Frames may be lost.

This module passes the events of this process to the other gateways; `FanOut` passes them to the
connections of this process. For an inbox event the other gateways get only a hint, and look up the
notification themselves.
"""

from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Final, assert_never

import msgspec

from tidings.actions.identity.blocks import BlockLists
from tidings.delivery.fan_out import ReceiptPace, others_to_notify
from tidings.metrics.counts import report_counts
from tidings.model.chats import ChatState, Unread
from tidings.model.ids import ChatId, UserKey, user_id
from tidings.model.refusals import Unavailable
from tidings.ports.bus import (
    Appended,
    BroadcastPosted,
    Bus,
    ChatChanged,
    CopiesMade,
    Event,
    Expired,
    InboxRead,
    Invited,
    Learnt,
    PresenceSwitched,
    ProfileChanged,
    ReceiptMoved,
    Retracted,
    ScheduledFailed,
    StatesChanged,
    Typing,
)
from tidings.ports.delivery import RemoteGateways
from tidings.tasks import Tasks
from tidings.wire.frames import (
    ChatChangedFrame,
    InvitedFrame,
    ReceiptFrame,
    TypingNotice,
    UnreadFrame,
    encode,
)
from tidings.wire.scheduled import ScheduledFailedFrame

UNDER_WAY_MAX: Final = 1_000
"""Limit on events that are being sent. Further events are dropped, because late receipts and typing
events are useless."""


class RemoteNotices:
    """Passes the events of this process to the other gateways."""

    def __init__(
        self,
        bus: Bus,
        remote_gateways: RemoteGateways,
        cached_state: Callable[[ChatId], ChatState | None],
        read_state: Callable[[ChatId], Awaitable[ChatState | None]],
        count_unread: Callable[[UserKey, ChatId], Awaitable[Unread | None]],
        blocks: BlockLists,
    ) -> None:
        self.dropped = 0
        """Number of events dropped because too many were being sent."""
        report_counts(self, "remote notices")
        self._remote_gateways = remote_gateways
        self._cached_state = cached_state
        self._read_state = read_state
        self._count_unread = count_unread
        self._blocks = blocks
        self._pace = ReceiptPace(self._moved)
        self._under_way = 0
        self._tasks = Tasks("remote-notices")
        self._is_closed = False
        bus.subscribe(self._on_event)

    async def close(self) -> None:
        """Cancel running work, and ignore later events."""
        self._is_closed = True
        self._pace.close()
        await self._tasks.close()

    def _on_event(self, event: Event) -> None:
        if self._is_closed:
            return  # the last receipts are stored after this, when the registry is closed already
        match event:
            case Appended() | Learnt() | Expired():
                return  # delivered by workers
            case ProfileChanged() | PresenceSwitched():
                return  # handled by `ProfileFrames`
            case ReceiptMoved():
                self._pace.offer(event)
            case Typing():
                self._begin(partial(self._typing, event))
            case ChatChanged():
                self._begin(partial(self._chat_changed, event))
            case ScheduledFailed():
                self._begin(partial(self._scheduled_failed, event))
            case Invited():
                self._begin(partial(self._invited, event))
            case BroadcastPosted() | Retracted():
                self._remote_gateways.hint(event)
            case CopiesMade() | InboxRead() | StatesChanged():
                self._begin(partial(self._hint, event))
            case _:
                assert_never(event)

    def _moved(self, event: ReceiptMoved) -> None:
        self._begin(partial(self._receipt, event))

    def _begin(self, work: Callable[[], Awaitable[None]]) -> None:
        if self._under_way >= UNDER_WAY_MAX:
            self.dropped += 1
            return
        self._under_way += 1
        self._tasks.start(self._counted(work))

    async def _counted(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            with suppress(Unavailable):
                await work()
        finally:
            self._under_way -= 1

    async def _state(self, chat: ChatId) -> ChatState | None:
        return self._cached_state(chat) or await self._read_state(chat)

    async def _hint(self, event: CopiesMade | InboxRead | StatesChanged) -> None:
        """Send a hint to the gateways that have connections of the event's users."""
        users = event.users if isinstance(event, CopiesMade) else (event.user,)
        for gateway, connected in (await self._remote_gateways.find(users)).items():
            if isinstance(event, CopiesMade):
                event = msgspec.structs.replace(event, users=tuple(connected))
            self._remote_gateways.hint(event, gateway)

    async def _invited(self, event: Invited) -> None:
        frame = encode(InvitedFrame(event.chat, user_id(event.inviter)))
        self._remote_gateways.send(frame, await self._remote_gateways.find([event.user]))

    async def _chat_changed(self, event: ChatChanged) -> None:
        frame = encode(ChatChangedFrame(event.chat))
        self._remote_gateways.send(frame, await self._remote_gateways.find([event.user]))

    async def _scheduled_failed(self, event: ScheduledFailed) -> None:
        frame = encode(ScheduledFailedFrame(event.scheduled_id, event.chat, event.code))
        self._remote_gateways.send(frame, await self._remote_gateways.find([event.user]))

    async def _typing(self, event: Typing) -> None:
        chat, user = event.chat, event.user
        state = await self._state(chat)
        if state is None or not state.is_small:
            return
        blocks = await self._blocks.of(user, state.members)
        others = others_to_notify(event, state, blocks)
        frame = encode(TypingNotice(chat, user_id(user)))
        self._remote_gateways.send(frame, await self._remote_gateways.find(others), chat)

    async def _receipt(self, event: ReceiptMoved) -> None:
        chat, receipt, user = event.chat, event.receipt, event.receipt.user
        state = await self._state(chat)
        if state is None:
            return
        members: Iterable[UserKey] = (user,)
        if state.is_small:
            members = (user, *others_to_notify(event, state, await self._blocks.of(user)))
        gateways = await self._remote_gateways.find(members)
        if state.is_small:
            frame = encode(ReceiptFrame(chat, user_id(user), receipt.delivered, receipt.read))
            self._remote_gateways.send(frame, gateways, chat)
        if event.by_reading:
            own = {name: [user] for name, users in gateways.items() if user in users}
            await self._send_unread(user, chat, own)

    async def _send_unread(
        self, user: UserKey, chat: ChatId, gateways: dict[str, list[UserKey]]
    ) -> None:
        unread = await self._count_unread(user, chat) if gateways else None
        if unread is not None:
            frame = encode(UnreadFrame(chat, unread.count, unread.exact, unread.mentions))
            self._remote_gateways.send(frame, gateways, chat)

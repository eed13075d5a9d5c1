# SPDX-License-Identifier: Apache-2.0
"""Catch-up: `plan_catch_up` makes a plan at hello; `Pump` reads and sends the missing entries.

If too many entries of a chat are missing (`CATCH_UP_CHAT_ENTRIES_MAX` and
`CATCH_UP_HELLO_ENTRIES_MAX` in `model.limits`), none of them is sent, and the client is asked to
load the chat again. A gap is never hidden from the client.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from tidings.actions.identity.caller import UserCaller
from tidings.gateway.client_connection import ClientConnection, LocalConnection
from tidings.gateway.context import GatewayContext
from tidings.gateway.conversation import State
from tidings.gateway.progress import Position, start_after
from tidings.metrics import declared
from tidings.model import limits
from tidings.model.chats import ChatHead
from tidings.model.ids import ChatId, UserKey, user_id
from tidings.model.refusals import ChatNotFound, Unauthenticated, Unavailable
from tidings.ports.journals import Step
from tidings.ports.store import set_requester, unknown_requester, user_requester
from tidings.wire.codes import Close
from tidings.wire.entry_frames import encode_entry
from tidings.wire.frames import GoneFrame, Hello, Welcome, encode

_OBSERVE_CATCH_UP: Final = declared.delivery_seconds.of["catch_up"].observe


async def identify(
    context: GatewayContext, connection: ClientConnection, hello: Hello
) -> tuple[UserCaller, str] | Close:
    """Return the caller and the device of a connection, or the code to close it with."""
    set_requester(unknown_requester(connection.address))
    try:
        caller = await context.authenticate(hello.token)
    except Unauthenticated:
        return await _not_authenticated(context, connection)
    except Unavailable:
        return Close.OVERLOADED
    if not isinstance(caller, UserCaller):
        return Close.FORBIDDEN
    set_requester(user_requester(caller.user))
    device = connection.conversation.choose_device(caller.device, hello.device)
    return device if isinstance(device, Close) else (caller, device)


async def _not_authenticated(context: GatewayContext, connection: ClientConnection) -> Close:
    """Return the close code for an invalid token; `TOO_FAST` if the address sent too many of
    them."""
    outcome = (
        None
        if context.limits is None
        else await context.limits.wrong_credentials(connection.address)
    )
    is_allowed = outcome is None or outcome.verdict.is_allowed
    return Close.NOT_AUTHENTICATED if is_allowed else Close.TOO_FAST


def welcome(user: UserKey, device: str, connection: str, epoch: str) -> bytes:
    """Return the frame that opens a connection."""
    return encode(
        Welcome(
            user=user_id(user),
            device=device,
            connection=connection,
            epoch=epoch,
            heartbeat_ms=limits.HEARTBEAT_MS,
            window=limits.WINDOW_ENTRIES,
        )
    )


class CatchUpPlan(msgspec.Struct, frozen=True):
    """How a device catches up on each chat."""

    gone: list[ChatId]
    """Chats that the device has stored although the user is not a member of them."""
    resync: list[ChatHead]
    """Chats that the device must load again: too many entries are missing, or the entries that the
    device has do not match the log."""
    follow: list[tuple[ChatHead, int]]
    """Chats whose missing entries are sent, in this order, with the sequence to start after."""


def plan_catch_up(
    chats: Sequence[ChatHead], have: Mapping[str, int], *, is_same_epoch: bool
) -> CatchUpPlan:
    """Decide how a device catches up on each chat.

    After one hello, a limited number of entries is sent in total. `chats` is sorted by latest
    activity, so the limit is spent on the most recent chats first.
    """
    present = {row.chat_id for row in chats}
    gone = [ChatId(chat) for chat in have if chat not in present]
    resync: list[ChatHead] = []
    follow: list[tuple[ChatHead, int]] = []
    budget = limits.CATCH_UP_HELLO_ENTRIES_MAX
    for row in chats:
        head = row.head.sequence
        start = start_after(head, have.get(row.chat_id), is_same_epoch=is_same_epoch)
        missing = None if start is None else head - start
        if start is None or missing is None or missing > budget:
            resync.append(row)
        else:
            follow.append((row, start))
            budget -= missing
    return CatchUpPlan(gone, resync, follow)


class Pump:
    """Reads the missing entries of chats that are behind and sends them, one page at a time."""

    def __init__(self, context: GatewayContext, connection: LocalConnection) -> None:
        self._context = context
        self._connection = connection
        self._is_busy = True
        """Whether pages are being read. Also true during hello, because hello calls `bring_to`
        itself."""
        self._has_room: asyncio.Event | None = None
        """Event for which a page waits if the window has no room; None if no page waits."""
        self._stalled_at: int | None = None

    @property
    def _user(self) -> UserKey:
        user = self._connection.conversation.user
        assert user is not None
        return user

    def start(self) -> None:
        """Start to read the chats that are behind; from now on `wake` does the same."""
        self._is_busy = False
        self.wake()

    def wake(self) -> None:
        """If the window has room, continue to send a page that waits. Start to read if a chat is
        behind."""
        if self._connection.progress.room > 0:
            self._stalled_at = None
            if self._has_room is not None:
                self._has_room.set()
        if not self._is_busy and self._is_open() and self._connection.progress.behind():
            self._is_busy = True
            self._connection.start(self._work())

    def is_stalled(self, now: int) -> bool:
        """Return True if an entry has waited too long for room, because the client confirms nothing
        or does not read from its socket."""
        return (
            self._stalled_at is not None and now - self._stalled_at > limits.WINDOW_STALLED_MS_MAX
        )

    async def bring_to(self, head: int, chat: ChatId, position: Position) -> None:
        """Send the missing entries of a chat up to this head."""
        while position.sent < head and self._is_open():
            await self._send_page(chat, position)

    def _is_open(self) -> bool:
        return self._connection.conversation.state is State.OPEN

    async def _work(self) -> None:
        set_requester(user_requester(self._user))
        try:
            while self._is_open() and (behind := self._connection.progress.behind()):
                for chat in behind:
                    position = self._connection.progress.get(chat)
                    if position is not None:
                        await self._send_page(chat, position)
        except Unavailable:
            # The missing entries cannot be read now, and must not be skipped.
            self._connection.close(Close.OVERLOADED)
        finally:
            self._is_busy = False

    async def _send_page(self, chat: ChatId, position: Position) -> None:
        """Read a page from the log and send its entries while there is room.

        Then send the entries that arrived while the page was being read.
        """
        progress = self._connection.progress
        await self._wait_for_room(chat, position)
        before, position.kept = position.sent, {}
        try:
            page = await self._context.verbs.read.entries(
                self._user, chat, after=position.sent, limit=min(progress.room, limits.PAGE_MAX)
            )
        except ChatNotFound:
            self._leave(chat, position)
            return
        kept, position.kept = position.kept or {}, None
        if progress.get(chat) is not position:
            return
        now = self._context.clock.now()
        for entry in page.entries:
            if not self._send_next(position, entry.sequence, encode_entry(entry)):
                break
            _OBSERVE_CATCH_UP((now - entry.created_at) / limits.SECOND_MS)
        for sequence, frame in sorted(kept.items()):
            self._send_next(position, sequence, frame)
        if position.sent > before:
            self._note("written_to_socket", chat, before + 1, position.sent)
        position.head = max(position.head, page.head.sequence)
        progress.caught_up(position)
        is_deleted = bool(page.entries) and page.entries[-1].kind == "deleted"
        if is_deleted and position.sent == page.entries[-1].sequence:
            progress.leave(chat)  # a deleted chat has no more entries, typing events or receipts

    def _send_next(self, position: Position, sequence: int, frame: bytes) -> bool:
        """Send an entry, if it is the next one and the window has room; return True if it was
        sent."""
        progress = self._connection.progress
        if sequence != position.sent + 1 or progress.room <= 0 or not self._is_open():
            return False
        self._connection.send(frame)
        progress.sent(position, sequence)
        return True

    def _leave(self, chat: ChatId, position: Position) -> None:
        if self._connection.progress.get(chat) is position:
            self._connection.progress.leave(chat)
            self._connection.send(encode(GoneFrame(chat)))
        position.sent = position.head

    async def _wait_for_room(self, chat: ChatId, position: Position) -> None:
        while self._connection.progress.room <= 0:
            if self._stalled_at is None:
                self._stalled_at = self._connection.now()
                is_window = self._connection.progress.is_window_full
                reason: Step = "window_full" if is_window else "socket_full"
                self._note(reason, chat, position.sent + 1, position.head)
            self._has_room = asyncio.Event()
            await self._has_room.wait()
        self._has_room = None

    def _note(self, step: Step, chat: ChatId, first: int, last: int) -> None:
        self._context.journal.note(self._connection, step, chat, first, last)

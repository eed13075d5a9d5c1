# SPDX-License-Identifier: Apache-2.0
"""Sends entries on one connection: during catch-up, live, and in chats that fall behind."""

import asyncio
import logging
from collections.abc import Mapping
from time import monotonic
from typing import Final

from msgspec.structs import replace

from tidings.actions.identity.caller import UserCaller
from tidings.gateway.catch_up import Pump, identify, plan_catch_up, welcome
from tidings.gateway.client_connection import LocalConnection
from tidings.gateway.context import GatewayContext
from tidings.gateway.conversation import State
from tidings.gateway.heads import Early, UnfollowedChats, mark_resync
from tidings.gateway.progress import (
    Offer,
    Position,
    count_resync,
    is_first,
    is_last,
    newest_start,
    start_before,
)
from tidings.gateway.totals import UnreadTotals
from tidings.metrics import declared
from tidings.model import limits
from tidings.model.chats import ChatHead
from tidings.model.entries import Entry
from tidings.model.ids import ChatId, UserKey
from tidings.model.refusals import ChatNotFound, Unavailable
from tidings.ports.delivery import EncodedEntry
from tidings.wire.codes import Close
from tidings.wire.entry_frames import without_content
from tidings.wire.frames import LIVE, GoneFrame, Hello, Resync, encode

log = logging.getLogger("tidings.gateway")

ENDING: Final = frozenset({"removed", "deleted"})
"""Kinds of entries after which a user may no longer follow the chat."""
_OBSERVE_LOCAL: Final = declared.delivery_seconds.of["local"].observe
_OBSERVE_BUS: Final = declared.delivery_seconds.of["bus"].observe


class Stream:
    """Sends entries on one connection, from live events if possible, otherwise from the log."""

    def __init__(self, context: GatewayContext, connection: LocalConnection) -> None:
        self._context = context
        self._connection = connection
        self._conversation = connection.conversation
        self._progress = connection.progress
        self._early: dict[ChatId, Early] | None = {}
        """Chats whose entries arrived during hello. None after hello."""
        self._is_same_epoch = True
        self._greeted: asyncio.Event | None = None
        """Event for which requests to follow a chat wait during hello; None if none waits."""
        self._pump = Pump(context, connection)
        self._unfollowed = UnfollowedChats(context, connection)
        self._awaited: dict[ChatId, int] = {}
        """For each chat in which entries from other processes were missing when the current wait
        began: the last missing sequence."""

    @property
    def _user(self) -> UserKey:
        user = self._connection.conversation.user
        assert user is not None
        return user

    # Hello.

    async def enter(self, hello: Hello) -> None:
        """Identify the user, then catch the device up, then go live."""
        began = monotonic()
        found = await identify(self._context, self._connection, hello)
        if not isinstance(found, Close):
            if wait_ms := await self._too_soon(found[0].user):
                self._connection.close(Close.TOO_FAST, wait_ms)
                return
            # Identify the user again, and await nothing afterwards: a revocation during the lookup
            # of the limit found no socket of this user to close.
            found = await identify(self._context, self._connection, hello)
        if isinstance(found, Close):
            self._connection.close(found)
        elif self._connection.conversation.state is State.CHECKING:
            await self._welcome(*found, hello, began)

    async def _too_soon(self, user: UserKey) -> int:
        """Return the milliseconds to wait if the user reconnects too often, otherwise 0."""
        rate_limits = self._context.limits
        wait_ms = 0 if rate_limits is None else await rate_limits.connect(user)
        return wait_ms and wait_ms + self._context.jitter_ms(wait_ms // 4)

    async def _welcome(self, caller: UserCaller, device: str, hello: Hello, began: float) -> None:
        # Register first and read the chats second: then an entry that is appended in between is
        # either delivered or read.
        if not self._enter_hub(caller.user, device):
            self._connection.close(Close.TOO_MANY_CONNECTIONS)
            return
        early = self._connection.conversation.admit(caller, device)
        connection_id = self._connection.conversation.connection = self._context.new_connection_id()
        self._context.admitted(self._connection)
        self._connection.send(welcome(caller.user, device, connection_id, self._context.epoch))
        about = {"action": "welcomed", "connection": connection_id, "client": hello.client}
        log.debug("a client is connected", extra=about)
        for frame in early:
            self._connection.perform(frame)
        try:
            if not await self._register(caller.user, device, connection_id):
                self._connection.close(Close.TOO_MANY_CONNECTIONS)
                return
            blocked = await self._context.blocked_of(caller.user)
            if self._conversation.blocked is None:  # a change that came meanwhile is newer
                self._conversation.blocked = blocked
            chats = await self._context.chats_of(caller.user)
            totals = self._totals(chats) if hello.totals else None
            await self._catch_up_at_hello(chats, hello)
            await self._context.tell_erasures(self._connection, hello)
            await self._context.greet_inboxes(caller.user, self._connection, hello)
            if self._greeted is not None:
                self._greeted.set()
            self._connection.send(LIVE)
            declared.hello_seconds.of[()].observe(monotonic() - began)
            if totals is not None:
                totals.start()
            await self._context.send_presence(caller.user, self._connection)
        except Unavailable:
            self._connection.close(Close.OVERLOADED)
        except Exception:
            # A connection that never becomes live would stay silent until its token expires.
            self._connection.close(Close.OVERLOADED)
            raise

    def _enter_hub(self, user: UserKey, device: str) -> bool:
        hub = self._context.hub
        if hub.enter(user, self._connection):
            return True
        closed = hub.close_idle(user, self._connection, device)
        return closed is not None and hub.enter(user, self._connection)

    async def _register(self, user: UserKey, device: str, connection_id: str) -> bool:
        if await self._context.register(user, connection_id, None):
            return True
        closed = self._context.hub.close_idle(user, self._connection, device)
        return closed is not None and await self._context.register(user, connection_id, closed)

    def _totals(self, chats: list[ChatHead]) -> UnreadTotals:
        verbs, clock = self._context.verbs, self._context.clock
        return UnreadTotals(verbs, self._connection, self._user, chats, clock)

    async def _catch_up_at_hello(self, chats: list[ChatHead], hello: Hello) -> None:
        self._is_same_epoch = hello.epoch in (None, self._context.epoch)
        have = hello.have or {}
        if self._connection.conversation.is_by_heads:
            early, self._early = self._early or {}, None
            await self._unfollowed.enter(chats, early, have)
        else:
            await self._catch_up_all(chats, have)
        self._pump.start()

    async def _catch_up_all(self, chats: list[ChatHead], have: Mapping[str, int]) -> None:
        is_same_epoch = self._is_same_epoch
        if is_same_epoch:
            chats = [await self._reaching(row, have.get(row.chat_id, 0)) for row in chats]
        planned = plan_catch_up(chats, have, is_same_epoch=is_same_epoch)
        missing = sum(row.head.sequence - start for row, start in planned.follow)
        declared.catch_up_entries.of[()].observe(missing)
        for chat in planned.gone:
            self._connection.send(encode(GoneFrame(chat)))
        goals = [
            (row.chat_id, self._follow(row, start), row.head.sequence)
            for row, start in planned.follow
        ]
        for row in planned.resync:
            count_resync(row.head.sequence, have.get(row.chat_id), is_same_epoch=is_same_epoch)
            self._connection.send(encode(Resync(row.chat_id, row.head.sequence)))
            position = self._follow(row, row.head.sequence)
            mark_resync(self._context, self._connection, row.chat_id, position)
        self._follow_new_chats()
        for chat, position, head in goals:
            await self._pump.bring_to(head, chat, position)

    async def _reaching(self, row: ChatHead, have: int) -> ChatHead:
        """Return the chat; raise its head to the device's last entry, if the log has that entry.

        The head comes from the head copy, which is written only after the entries were sent.
        Therefore the device may have later entries.
        """
        if have <= row.head.sequence:
            return row
        try:
            page = await self._context.verbs.read.entries(
                self._user, row.chat_id, after=have - 1, limit=1
            )
        except ChatNotFound:
            return row
        if not page.entries:
            return row
        return replace(row, head=replace(row.head, sequence=have))

    def _follow(self, row: ChatHead, have: int) -> Position:
        assert self._early is not None
        early = self._early.pop(row.chat_id, None)
        is_small = row.member_count <= limits.SMALL_CHAT_MEMBERS_MAX
        head = max(row.head.sequence, early.last if early else 0)
        return self._connection.progress.start(row.chat_id, have, head, is_small=is_small)

    def _follow_new_chats(self) -> None:
        """Follow chats that the user joined after the list of chats was read.

        These are known because their entries arrived during hello.
        """
        assert self._early is not None
        for chat, (start, last, is_small, _) in self._early.items():
            self._connection.progress.start(chat, start, last, is_small=is_small)
        self._early = None

    async def follow(self, chat: ChatId, after: int | None) -> None:
        """Follow a chat from the entry after `after`, once hello is complete."""
        if self._early is not None:
            self._greeted = self._greeted or asyncio.Event()
            await self._greeted.wait()
        await self._unfollowed.follow(chat, after, is_same_epoch=self._is_same_epoch)

    # Live.

    def offer(self, entry: Offer, frame: bytes, *, is_small: bool) -> None:
        """Send a new entry of one of the user's chats, or mark the chat as behind.

        This decides only the usual case: the entry is the next one, and there is room for it. It
        runs once for each member of a group, so it calls as little as possible.
        """
        progress, sequence = self._progress, entry.sequence
        position = progress.positions.get(entry.chat_id)
        if (
            position is None
            or sequence != position.sent + 1
            or position.is_behind
            or not position.timed
            or progress.unacknowledged >= progress.window
            or progress.is_paused
            or self._early is not None
            or self._conversation.blocked
            or entry.kind in ENDING
        ):
            self._offer_unusual(entry, frame, position, is_small)
            return
        position.is_small = is_small
        self._connection.send(frame)
        progress.sent(position, sequence)

    def _offer_unusual(
        self, entry: Offer, frame: bytes, position: Position | None, is_small: bool
    ) -> None:
        if self._early is not None:
            self._note(entry, is_small)
            return
        progress, chat, sequence = self._progress, entry.chat_id, entry.sequence
        if position is None:
            if self._conversation.is_by_heads:
                self._unfollowed.offer(entry, is_small=is_small)
                return
            if is_last(entry, self._user):
                return  # the client knows it from the log, which was read before the event arrived
            position = self._follow_new(entry, is_small)
        position.is_small = is_small
        if sequence <= position.sent:
            return  # usually the client's own message
        if self._context.gap_seconds and progress.is_early(position, sequence):
            self._wait_for_others()
            self._context.journal.note(
                self._connection, "waiting_for_earlier", chat, sequence, sequence
            )
            return
        self._send_or_keep(entry, frame, position)

    def _send_or_keep(self, entry: Offer, frame: bytes, position: Position) -> None:
        progress, sequence = self._progress, entry.sequence
        if blocked := self._conversation.blocked:
            frame = without_content(frame, blocked)
        if progress.offer(position, sequence) == "send":
            self._connection.send(frame)
            progress.sent(position, sequence)
            if not position.timed:
                self._time(position, entry)
            if entry.kind in ENDING and is_last(entry, self._user):
                progress.leave(entry.chat_id)
        else:
            if is_last(entry, self._user):
                position.kept = None  # the log shows where the user's view ends
            position.keep(sequence, frame)
            self.wake()

    def _time(self, position: Position, entry: Offer) -> None:
        """Record the age of an entry that is being sent, and time when it is acknowledged.

        Until it is, no other entry of the chat is timed. Therefore this costs little under load.
        """
        if isinstance(entry, Entry):
            made_at, observe = entry.created_at, _OBSERVE_LOCAL
        else:
            # Only a message is as old as the activity of its log.
            made_at = entry.head.active_at if entry.kind == "message" else 0
            observe = _OBSERVE_BUS
        if not made_at:
            return
        observe((self._context.clock.now() - made_at) / limits.SECOND_MS)
        position.timed, position.timed_at = entry.sequence, made_at

    def _note(self, entry: Offer, is_small: bool) -> None:
        """Record that an entry arrived during hello. Entries may arrive in any order."""
        assert self._early is not None
        start = start_before(entry, self._user)
        first, last, _, has_ended = self._early.get(entry.chat_id, Early(start, 0, False, False))
        self._early[entry.chat_id] = Early(
            min(first, start),
            max(last, entry.sequence),
            is_small,
            has_ended or is_last(entry, self._user),
        )

    def _follow_new(self, entry: Offer, is_small: bool) -> Position:
        """Follow a chat that is new to the connection."""
        start = start_before(entry, self._user)
        position = self._connection.progress.start(entry.chat_id, start, start, is_small=is_small)
        # Only an entry that made the user a member, and that this process appended, proves the
        # membership. Any other entry may be older than the user's removal, so the log is read.
        position.is_behind = isinstance(entry, EncodedEntry) or not is_first(entry, self._user)
        return position

    def _wait_for_others(self) -> None:
        """Wait for earlier entries from another process; if they do not arrive, read the log."""
        if not self._awaited and (awaited := self._connection.progress.waiting()):
            self._awaited = awaited
            loop = asyncio.get_running_loop()
            loop.call_later(self._context.gap_seconds, self._end_wait)

    def _end_wait(self) -> None:
        """Read overdue entries from the log; then wait for entries that were missed since.

        The latter are not read at once, because in a busy chat some entry is always missing for a
        moment, and reading would never end.
        """
        awaited, self._awaited = self._awaited, {}
        self._connection.progress.fall_behind(awaited)
        self._wait_for_others()
        self.wake()

    def reconcile(self, heads: Mapping[ChatId, int]) -> bool:
        """Compare the entries sent with the current heads; read missing entries from the log.

        Chats that are new to the connection are read, too. Returns False if the connection has not
        read the user's chats yet.
        """
        if self._early is not None:
            return False
        progress, is_by_heads = self._progress, self._conversation.is_by_heads
        if is_by_heads:
            self._unfollowed.compare(heads)
        for chat, head in heads.items():
            position = progress.get(chat)
            if position is None:
                if not is_by_heads:
                    progress.start(chat, newest_start(head), head, is_small=False)
            elif head > position.sent:
                position.head = max(position.head, head)
                position.is_behind = True
        self.wake()
        return True

    # Behind.

    def wake(self) -> None:
        """If the window has room, continue to send a page that waits. Start to read if a chat is
        behind."""
        self._pump.wake()

    def is_stalled(self, now: int) -> bool:
        """Return True if an entry has waited too long for room, because the client confirms nothing
        or does not read from its socket."""
        return self._pump.is_stalled(now)

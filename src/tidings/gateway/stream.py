# SPDX-License-Identifier: Apache-2.0
"""The stream of entries to one connection: hello, catch-up, live, and falling behind."""

import asyncio
from collections.abc import Mapping

from msgspec.structs import replace

from tidings.actions.identity.caller import UserCaller
from tidings.gateway.client_connection import ClientConnection
from tidings.gateway.context import GatewayContext
from tidings.gateway.conversation import State
from tidings.gateway.hello import identify, plan_catch_up, welcome
from tidings.gateway.progress import Offer, Position, is_first, is_last, newest_start, start_before
from tidings.gateway.pump import Pump
from tidings.model import limits
from tidings.model.chats import HeldChat
from tidings.model.ids import ChatId, UserKey
from tidings.model.refusals import ChatNotFound, Unavailable
from tidings.ports.cluster import EncodedEntry
from tidings.wire.codes import Close
from tidings.wire.frames import LIVE, GoneFrame, Hello, Resync, encode


class Stream:
    """Keeps one connection supplied, from live events where it can, from the log where it must."""

    def __init__(self, context: GatewayContext, connection: ClientConnection) -> None:
        self._context = context
        self._connection = connection
        self._early: dict[ChatId, tuple[int, int, bool]] | None = {}
        """Until the chats are known: where to start in those that passed by, how far they reach."""
        self._pump = Pump(context, connection)
        self._awaited: dict[ChatId, int] = {}
        """Up to where others have yet to deliver, as of when the waiting began."""

    @property
    def _user(self) -> UserKey:
        user = self._connection.conversation.user
        assert user is not None
        return user

    # Hello.

    async def enter(self, hello: Hello) -> None:
        """Find out who it is, then bring the device up to date, then go live."""
        found = await identify(self._context, self._connection, hello)
        if not isinstance(found, Close):
            if wait_ms := await self._too_soon(found[0].user):
                self._connection.close(Close.TOO_FAST, wait_ms)
                return
            # Once more, and nothing is waited for after it: what was revoked while the limit was
            # looked up found no socket of this user to close.
            found = await identify(self._context, self._connection, hello)
        if isinstance(found, Close):
            self._connection.close(found)
        elif self._connection.conversation.state is State.CHECKING:
            await self._welcome(*found, hello)

    async def _too_soon(self, user: UserKey) -> int:
        """How long a user who connects again and again has to wait: 0 for everybody else."""
        rate_limits = self._context.limits
        wait_ms = 0 if rate_limits is None else await rate_limits.connect(user)
        return wait_ms and wait_ms + self._context.jitter_ms(wait_ms // 4)

    async def _welcome(self, caller: UserCaller, device: str, hello: Hello) -> None:
        # Registered first, read second: whatever is appended meanwhile, one of the two sees it.
        if not self._context.hub.enter(caller.user, self._connection):
            self._connection.close(Close.TOO_MANY_CONNECTIONS)
            return
        early = self._connection.conversation.admit(caller, device)
        connection_id = self._connection.conversation.connection = self._context.new_connection_id()
        self._connection.send(welcome(caller.user, device, connection_id, self._context.epoch))
        for frame in early:
            self._connection.perform(frame)
        try:
            if not await self._context.register(caller.user, connection_id):
                self._connection.close(Close.TOO_MANY_CONNECTIONS)
                return
            held = await self._context.held(caller.user)
            await self._catch_up_at_hello(held, hello)
            self._connection.send(LIVE)
            await self._context.send_presence(caller.user, self._connection)
        except Unavailable:
            self._connection.close(Close.OVERLOADED)

    async def _catch_up_at_hello(self, held: list[HeldChat], hello: Hello) -> None:
        is_same_epoch = hello.epoch in (None, self._context.epoch)
        have = hello.have or {}
        if is_same_epoch:
            held = [await self._reaching(row, have.get(row.chat_id, 0)) for row in held]
        planned = plan_catch_up(held, have, is_same_epoch=is_same_epoch)
        for chat in planned.gone:
            self._connection.send(encode(GoneFrame(chat)))
        goals = [
            (row.chat_id, self._follow(row, start), row.head.sequence)
            for row, start in planned.follow
        ]
        for row in planned.resync:
            self._connection.send(encode(Resync(row.chat_id, row.head.sequence)))
            self._follow(row, row.head.sequence)
        self._follow_newcomers()
        for chat, position, head in goals:
            await self._pump.bring_to(head, chat, position)
        self._pump.start()

    async def _reaching(self, row: HeldChat, have: int) -> HeldChat:
        """The chat with a head that is not behind what the device has, if its log reaches there.

        Where a head tells what was delivered it is written after the entries were handed out.
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

    def _follow(self, row: HeldChat, have: int) -> Position:
        assert self._early is not None
        _, seen, _ = self._early.pop(row.chat_id, (0, 0, False))
        is_small = row.member_count <= limits.SMALL_CHAT_MEMBERS_MAX
        head = max(row.head.sequence, seen)
        return self._connection.progress.start(row.chat_id, have, head, is_small=is_small)

    def _follow_newcomers(self) -> None:
        """Chats the user came into after the list was read: what passed by tells of them."""
        assert self._early is not None
        for chat, (start, last, is_small) in self._early.items():
            self._connection.progress.start(chat, start, last, is_small=is_small)
        self._early = None

    # Live.

    def offer(self, entry: Offer, frame: bytes, *, is_small: bool) -> None:
        """An entry was appended to one of the user's chats."""
        if self._early is not None:
            self._note(entry, is_small)
            return
        chat, sequence = entry.chat_id, entry.sequence
        progress = self._connection.progress
        position = progress.get(chat)
        if position is None:
            if is_last(entry, self._user):
                return  # the client knows: the log said so before the event came
            position = self._meet(entry, is_small)
        position.is_small = is_small
        if self._context.gap_seconds and progress.is_early(position, sequence):
            self._wait_for_others()
            return
        match progress.offer(position, sequence):
            case "send":
                self._connection.send(frame)
                progress.sent(position, sequence)
                if entry.kind == "removed" and is_last(entry, self._user):
                    progress.leave(chat)
            case "later":
                if is_last(entry, self._user):
                    position.kept = None  # the log says when the user goes
                position.keep(sequence, frame)
                self.wake()
            case "drop":
                pass

    def _note(self, entry: Offer, is_small: bool) -> None:
        """Keep in mind that it passed by, in whatever order they come."""
        assert self._early is not None
        start = start_before(entry, self._user)
        first, last, _ = self._early.get(entry.chat_id, (start, 0, False))
        self._early[entry.chat_id] = (min(first, start), max(last, entry.sequence), is_small)

    def _meet(self, entry: Offer, is_small: bool) -> Position:
        """Follow a chat that is new to the connection."""
        start = start_before(entry, self._user)
        position = self._connection.progress.start(entry.chat_id, start, start, is_small=is_small)
        # The entry that made the user a member here and now is proof; any other may be an echo
        # from before the user was removed, and only the log can tell.
        position.is_behind = isinstance(entry, EncodedEntry) or not is_first(entry, self._user)
        return position

    def _wait_for_others(self) -> None:
        """Another process delivers what comes before; if it does not, the log is read."""
        if not self._awaited and (awaited := self._connection.progress.waiting()):
            self._awaited = awaited
            loop = asyncio.get_running_loop()
            loop.call_later(self._context.gap_seconds, self._wait_no_longer)

    def _wait_no_longer(self) -> None:
        """Read what is overdue; what began to be missing meanwhile has its own time to come.

        In a busy chat something is always missing, for a moment: whoever read the log for it would
        never do anything else.
        """
        awaited, self._awaited = self._awaited, {}
        self._connection.progress.fall_behind(awaited)
        self._wait_for_others()
        self.wake()

    def reconcile(self, heads: Mapping[ChatId, int]) -> bool:
        """So far the user's logs reach, whether anybody said so or not. False if it is too early.

        What the connection does not have is read, chats it does not know included.
        """
        if self._early is not None:
            return False
        progress = self._connection.progress
        for chat, head in heads.items():
            position = progress.get(chat)
            if position is None:
                progress.start(chat, newest_start(head), head, is_small=False)
            elif head > position.sent:
                position.head = max(position.head, head)
                position.is_behind = True
        self.wake()
        return True

    # Behind.

    def wake(self) -> None:
        """There may be room, or something to read from the log."""
        self._pump.wake()

    def is_stalled(self, now: int) -> bool:
        """Whether the client has left its window full, or its socket unread, for too long."""
        return self._pump.is_stalled(now)

# SPDX-License-Identifier: Apache-2.0
"""The stream of entries to one connection: hello, catch-up, live, and falling behind."""

import asyncio

from tidings.actions.identity import UserCaller
from tidings.gateway.catch_up import plan
from tidings.gateway.conversation import State
from tidings.gateway.desk import Desk
from tidings.gateway.line import Line
from tidings.gateway.progress import Position
from tidings.model import limits
from tidings.model.chat_list import Held
from tidings.model.entries import Entry
from tidings.model.ids import ChatId, UserKey, user_id
from tidings.model.refusals import ChatNotFound, Unauthenticated, Unavailable
from tidings.wire.codes import Close
from tidings.wire.frames import LIVE, GoneFrame, Hello, Resync, Welcome, encode, encode_entry


class Stream:
    """Keeps one connection supplied, from live events where it can, from the log where it must."""

    def __init__(self, desk: Desk, line: Line) -> None:
        self._desk = desk
        self._line = line
        self._early: dict[ChatId, tuple[int, int, bool]] | None = {}
        """Until the chats are known: first and last entry that passed by, and the chat's size."""
        self._is_pumping = True
        self._has_room: asyncio.Event | None = None
        """There while somebody waits for it."""
        self._stalled_at: int | None = None

    @property
    def _user(self) -> UserKey:
        user = self._line.conversation.user
        assert user is not None
        return user

    # Hello.

    async def enter(self, hello: Hello) -> None:
        """Find out who it is, then bring the device up to date, then go live."""
        try:
            caller = await self._desk.authenticate(hello.token)
        except Unauthenticated:
            self._line.close(Close.NOT_AUTHENTICATED)
            return
        except Unavailable:
            self._line.close(Close.OVERLOADED)
            return
        if not isinstance(caller, UserCaller):
            self._line.close(Close.FORBIDDEN)
            return
        device = self._line.conversation.choose_device(caller.device, hello.device)
        if isinstance(device, Close):
            self._line.close(device)
            return
        if self._line.conversation.state is State.CHECKING:
            await self._welcome(caller, device, hello)

    async def _welcome(self, caller: UserCaller, device: str, hello: Hello) -> None:
        # Registered first, read second: whatever is appended meanwhile, one of the two sees it.
        if not self._desk.hub.enter(caller.user, self._line):
            self._line.close(Close.TOO_MANY_CONNECTIONS)
            return
        early = self._line.conversation.admit(caller.user, device, caller.expires_at)
        self._line.tell(
            encode(
                Welcome(
                    user=user_id(caller.user),
                    device=device,
                    connection=self._desk.new_connection_id(),
                    epoch=self._desk.epoch,
                    heartbeat_ms=limits.HEARTBEAT_MS,
                    window=limits.WINDOW_ENTRIES,
                )
            )
        )
        for frame in early:
            self._line.perform(frame)
        try:
            held = await self._desk.held(caller.user)
            await self._catch_up_at_hello(held, hello)
            self._line.tell(LIVE)
            for notice in await self._desk.peers_present(caller.user):
                self._line.tell(notice)
        except Unavailable:
            self._line.close(Close.OVERLOADED)

    async def _catch_up_at_hello(self, held: list[Held], hello: Hello) -> None:
        is_same_epoch = hello.epoch in (None, self._desk.epoch)
        planned = plan(held, hello.have or {}, is_same_epoch=is_same_epoch)
        for chat in planned.gone:
            self._line.tell(encode(GoneFrame(chat)))
        goals = [
            (row.chat_id, self._follow(row, start), row.head.sequence)
            for row, start in planned.follow
        ]
        for row in planned.resync:
            self._line.tell(encode(Resync(row.chat_id, row.head.sequence)))
            self._follow(row, row.head.sequence)
        self._follow_newcomers()
        for chat, position, head in goals:
            while position.sent < head and self._is_open():
                await self._pump_one(chat, position)
        self._is_pumping = False
        self.wake()

    def _follow(self, row: Held, have: int) -> Position:
        assert self._early is not None
        _, seen, _ = self._early.pop(row.chat_id, (0, 0, False))
        is_small = row.member_count <= limits.SMALL_CHAT_MEMBERS_MAX
        head = max(row.head.sequence, seen)
        return self._line.progress.start(row.chat_id, have, head, is_small=is_small)

    def _follow_newcomers(self) -> None:
        """Chats the user came into after the list was read: what passed by tells of them."""
        assert self._early is not None
        for chat, (first, last, is_small) in self._early.items():
            self._line.progress.start(chat, first - 1, last, is_small=is_small)
        self._early = None

    # Live.

    def offer(self, entry: Entry, frame: bytes, *, is_small: bool) -> None:
        """An entry was appended to one of the user's chats."""
        chat, sequence = entry.chat_id, entry.sequence
        if self._early is not None:
            first, _, _ = self._early.get(chat, (sequence, 0, False))
            self._early[chat] = (first, sequence, is_small)
            return
        progress = self._line.progress
        position = progress.get(chat)
        if position is None:
            if self._is_end(entry):
                return  # the client knows: the log said so before the event came
            position = progress.start(chat, sequence - 1, sequence - 1, is_small=is_small)
        position.is_small = is_small
        match progress.offer(position, sequence):
            case "send":
                self._line.tell(frame)
                progress.sent(position, sequence)
                if self._is_end(entry):
                    progress.leave(chat)
            case "later":
                self.wake()
            case "drop":
                pass

    def _is_end(self, entry: Entry) -> bool:
        """Whether this is the last entry of the chat that the user may see."""
        return entry.kind == "removed" and any(person.user == self._user for person in entry.people)

    def _is_open(self) -> bool:
        return self._line.conversation.state is State.OPEN

    # Behind.

    def wake(self) -> None:
        """There may be room, or something to read from the log."""
        if self._line.progress.room > 0:
            self._stalled_at = None
            if self._has_room is not None:
                self._has_room.set()
        if not self._is_pumping and self._is_open() and self._line.progress.behind():
            self._is_pumping = True
            self._line.start(self._pump())

    def is_stalled(self, now: int) -> bool:
        """Whether the client has left its window full, or its socket unread, for too long."""
        return (
            self._stalled_at is not None and now - self._stalled_at > limits.WINDOW_STALLED_MS_MAX
        )

    async def _pump(self) -> None:
        try:
            while self._is_open() and (behind := self._line.progress.behind()):
                for chat in behind:
                    position = self._line.progress.get(chat)
                    if position is not None:
                        await self._pump_one(chat, position)
        except Unavailable:
            # What is missing cannot be read now, and must not be passed over.
            self._line.close(Close.OVERLOADED)
        finally:
            self._is_pumping = False

    async def _pump_one(self, chat: ChatId, position: Position) -> None:
        """Send one page of a chat from the log, as far as there is room."""
        progress = self._line.progress
        await self._wait_for_room()
        try:
            page = await self._desk.verbs.read.entries(
                self._user, chat, after=position.sent, limit=min(progress.room, limits.PAGE_MAX)
            )
        except ChatNotFound:
            self._leave(chat, position)
            return
        if progress.get(chat) is not position:
            return
        for entry in page.entries:
            if entry.sequence != position.sent + 1 or progress.room <= 0 or not self._is_open():
                break
            self._line.tell(encode_entry(entry))
            progress.sent(position, entry.sequence)
        position.head = max(position.head, page.head.sequence)
        progress.caught_up(position)

    def _leave(self, chat: ChatId, position: Position) -> None:
        if self._line.progress.get(chat) is position:
            self._line.progress.leave(chat)
            self._line.tell(encode(GoneFrame(chat)))
        position.sent = position.head

    async def _wait_for_room(self) -> None:
        while self._line.progress.room <= 0:
            if self._stalled_at is None:
                self._stalled_at = self._line.now()
            self._has_room = asyncio.Event()
            await self._has_room.wait()
        self._has_room = None

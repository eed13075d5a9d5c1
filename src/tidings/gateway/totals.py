# SPDX-License-Identifier: Apache-2.0
"""Sends a client the user's unread total and its changes, if the client asked for it in hello.

Everything is counted once when the connection is live, and again every ten minutes. In between, the
frames that the connection sends change the counts: a message of somebody else adds one, and so does
a notification. After a frame that may lower a count, such as a redaction or `unread`, only its chat
is counted again. So is an inbox after a notification that may add nothing.
"""

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec

from tidings.actions.chat.unread import TOTAL_INBOX_MAX
from tidings.actions.verbs import ChatVerbs
from tidings.gateway.client_connection import LocalConnection
from tidings.gateway.metering import count_unread_total
from tidings.model import limits
from tidings.model.chats import ChatHead, Unread
from tidings.model.entries import EVERYONE
from tidings.model.ids import ChatId, UserKey, rfc3339, user_id
from tidings.model.refusals import InboxNotFound, Refusal
from tidings.model.unread_totals import UnreadTotal, total_of
from tidings.ports.store import set_requester, user_requester
from tidings.ports.world import Clock
from tidings.wire.frames import UnreadTotalFrame, encode
from tidings.wire.records import total_fields

PAUSE_SECONDS: Final = 1.0
"""Minimum time between two frames with the total."""
RECOUNT_SECONDS: Final = 600.0
RETRY_SECONDS: Final = 10.0
"""Time until everything is counted again after the store did not answer."""
CLOCKS_MS: Final = limits.SECOND_MS
"""How much the clocks of two processes may differ."""
NOTIFICATIONS_MAX: Final = 100
"""Number of notifications that a connection remembers, because a frame may arrive twice."""

_NOTHING: Final = Unread(0)
_OP: Final = len('{"op":"')


class _SentFrame(msgspec.Struct):
    """The fields of a sent frame that change the unread counts."""

    op: str
    chat: str | None = None
    sequence: int = 0
    kind: str = ""
    blocked: bool = False
    sender: str | None = None
    users: list[str] = []
    inbox: str | None = None
    id: str = ""
    collapse_key: str | None = None
    received_at: str = ""
    total: int = 0
    head: int = 0
    chats: dict[str, Any] = {}
    mentions: list[str] = []


_decode = msgspec.json.Decoder(_SentFrame).decode
_RELEVANT: Final = frozenset(
    (b"entry", b"unread", b"chat_changed", b"gone", b"heads", b"resync", b"notification", b"erased")
)


class UnreadTotals:
    """Sends the unread total of one connection's user whenever it has changed."""

    def __init__(
        self,
        verbs: ChatVerbs,
        connection: LocalConnection,
        user: UserKey,
        chats: Sequence[ChatHead],
        clock: Clock,
    ) -> None:
        """Watch the frames of a connection; `chats` are the user's chats as hello has read them.

        The entries up to their heads are counted in `start`, and not when they are sent.
        """
        self._verbs = verbs
        self._connection = connection
        self._user = user
        self._name = user_id(user)
        self._chats: dict[ChatId, Unread] = {}
        self._clock = clock
        self._inboxes: dict[str, Unread] = {}
        self._inboxes_until: dict[str, str] = {}
        """For each inbox, the time up to which its count may include notifications, as frames name
        times; at "" that of all others."""
        self._notified: deque[tuple[str, str]] = deque(maxlen=NOTIFICATIONS_MAX)
        """Inboxes and ids of the last notifications."""
        self._heads: Sequence[ChatHead] | None = chats
        self._counted_to = {chat.chat_id: chat.head.sequence for chat in chats}
        """For each chat, the last sequence that its count includes."""
        self._stale: set[ChatId] = set()
        """Chats that have to be counted again."""
        self._stale_inboxes: set[str] = set()
        self._is_all_stale = False
        self._is_counting = True
        """Whether counts are being read. Frames that are sent meanwhile make their chat or inbox
        stale."""
        self._is_counted = False
        """Whether everything was counted once. Nothing is sent before."""
        self._changed = asyncio.Event()
        self._sent: UnreadTotal | None = None
        connection.watch_frames(self.saw)

    def start(self) -> None:
        """Count everything, and send the total now and whenever it has changed."""
        self._connection.start(self._work())

    # Frames.

    def saw(self, frame: bytes) -> None:
        """Update the counts with a frame that is being sent."""
        if frame[_OP : frame.find(b'"', _OP)] in _RELEVANT:
            self._update(_decode(frame))
            self._changed.set()

    def _update(self, frame: _SentFrame) -> None:
        if frame.inbox is not None:
            self._update_inbox(frame)
        elif frame.op == "heads":
            self._reached(frame.chats)
        elif frame.op == "resync":
            self._reached({str(frame.chat): frame.head})
        elif frame.chat is None:
            self._is_all_stale = True
        elif frame.op == "gone" or self._ends(frame):
            self._drop(ChatId(frame.chat))
        elif frame.op != "entry":
            # The frame may be older than entries that were sent before it.
            self._stale.add(ChatId(frame.chat))
        elif frame.sequence > self._counted_to.get(ChatId(frame.chat), 0):
            self._update_chat(ChatId(frame.chat), frame)

    def _reached(self, heads: Mapping[str, int]) -> None:
        """Mark chats as stale, so that they are counted again, because their new heads are sent
        instead of their entries.

        At hello the heads of all chats are sent; their entries are counted in `start`.
        """
        self._stale.update(
            ChatId(chat)
            for chat, head in heads.items()
            if head > self._counted_to.get(ChatId(chat), 0)
        )

    def _update_inbox(self, frame: _SentFrame) -> None:
        assert frame.inbox is not None
        is_known = frame.op == "unread" or self._adds_one(frame.inbox, frame)
        if self._is_counting or not is_known:
            self._stale_inboxes.add(frame.inbox)
            return
        before = self._inboxes.get(frame.inbox, _NOTHING)
        count = frame.total if frame.op == "unread" else before.count + 1
        is_exact = count < TOTAL_INBOX_MAX and (before.exact or frame.op == "unread")
        self._inboxes[frame.inbox] = Unread(min(count, TOTAL_INBOX_MAX), is_exact)
        if frame.op == "unread":
            self._inboxes_until[frame.inbox] = self._until_now()

    def _adds_one(self, inbox: str, frame: _SentFrame) -> bool:
        """Return True if the notification in this frame certainly adds one to the count.

        Of the notifications with one collapse key only the newest counts. A frame may arrive twice,
        or after the notification was counted in the store.
        """
        is_new = (inbox, frame.id) not in self._notified
        if is_new:
            self._notified.append((inbox, frame.id))
        until = self._inboxes_until.get(inbox, self._inboxes_until.get("", ""))
        return is_new and frame.collapse_key is None and frame.received_at > until

    def _until_now(self) -> str:
        return rfc3339(self._clock.now() + CLOCKS_MS)

    def _ends(self, frame: _SentFrame) -> bool:
        """Return True if the entry in this frame ends the user's membership."""
        return frame.kind == "deleted" or (frame.kind == "removed" and self._name in frame.users)

    def _drop(self, chat: ChatId) -> None:
        self._chats.pop(chat, None)
        self._stale.discard(chat)
        if self._is_counting:
            self._stale.add(chat)  # its count may have been read before

    def _update_chat(self, chat: ChatId, entry: _SentFrame) -> None:
        is_own = entry.sender == self._name
        before = self._chats.get(chat, _NOTHING)
        if entry.blocked and entry.kind == "message":
            return
        if entry.kind == "message" and not (is_own or self._is_counting):
            is_mention = entry.mentions == [*EVERYONE] or self._name in entry.mentions
            self._chats[chat] = Unread(before.count + 1, before.exact, before.mentions + is_mention)
        elif entry.kind == "redacted" or (entry.kind == "message" and (not is_own or before.count)):
            # An own message ends a mark as unread.
            self._stale.add(chat)

    # Counting.

    async def _work(self) -> None:
        set_requester(user_requester(self._user))
        loop = asyncio.get_running_loop()
        while True:
            next_at = loop.time() + RETRY_SECONDS
            with suppress(Refusal):
                await self._count_all()
                next_at = loop.time() + RECOUNT_SECONDS
            with suppress(TimeoutError):
                async with asyncio.timeout_at(next_at):
                    await self._follow()

    async def _follow(self) -> None:
        """Send the total after each change, until everything has to be counted again."""
        while not self._is_all_stale:
            self._send()
            await self._changed.wait()
            await asyncio.sleep(PAUSE_SECONDS)
            self._changed.clear()
            await self._count_stale()

    async def _count_all(self) -> None:
        count = self._verbs.count_total
        self._is_counting, self._is_all_stale = True, False
        heads, self._heads = self._heads, None
        if heads is None:
            heads = await count.chats.list_heads(self._user)
            self._counted_to = {chat.chat_id: chat.head.sequence for chat in heads}
        self._chats = await count.of_heads(heads)
        self._inboxes = await count.of_inboxes(self._user)
        self._inboxes_until = {"": self._until_now()}
        self._is_counted = True
        await self._count_stale()

    async def _count_stale(self) -> None:
        """Count stale chats and inboxes again; those that change meanwhile become stale again."""
        stale, self._stale = self._stale, set()
        inboxes, self._stale_inboxes = self._stale_inboxes, set()
        self._is_counting = True
        try:
            for chat in sorted(stale):
                counted = await self._verbs.count_total.of_chat(self._user, chat)
                self._chats[chat], self._counted_to[chat] = counted or (_NOTHING, 0)
            for inbox in sorted(inboxes):
                await self._count_inbox(inbox)
        except Refusal:
            self._stale |= stale
            self._stale_inboxes |= inboxes
        finally:
            self._is_counting = False
        if self._stale or self._stale_inboxes:
            self._changed.set()

    async def _count_inbox(self, inbox: str) -> None:
        try:
            self._inboxes[inbox] = await self._verbs.count_total.of_inbox(self._user, inbox)
            self._inboxes_until[inbox] = self._until_now()
        except InboxNotFound:
            self._inboxes.pop(inbox, None)

    def _send(self) -> None:
        if not self._is_counted:
            return
        total = total_of(self._chats.values(), self._inboxes)
        if total != self._sent:
            self._sent = total
            count_unread_total()
            self._connection.send(encode(UnreadTotalFrame(**total_fields(total))))

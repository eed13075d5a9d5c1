# SPDX-License-Identifier: Apache-2.0
"""The owner as a front sees it: what the parts of a gateway ask of the core, asked over the link.

Questions outlive the owner: if it ends before it answers, the next owner is asked again. All of
them only read, or may be repeated.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Final, TypeVar

import msgspec

from tidings.actions.identity.caller import Caller, Root
from tidings.actions.rate_limits import Outcome, RateLimits
from tidings.fronts import questions
from tidings.fronts.link import FrontLink, LinkLost
from tidings.fronts.messages import Moved
from tidings.fronts.questions import QuestionKind
from tidings.model import limits
from tidings.model.chats import ChatHead, Move, Unread
from tidings.model.ids import ChatId, UserKey
from tidings.model.refusals import StoreUnavailable
from tidings.ports.log import Page
from tidings.ports.store import user_requester
from tidings.stores.scheduler import Scheduler, in_turn

T = TypeVar("T")

AWAY_SECONDS_MAX: Final = 10.0
"""How long a front waits for a new owner before it gives up its questions and its connections."""
READS_MAX: Final = 64
"""Number of reads that a front asks for at once. When thousands of clients catch up, the answers
would fill the memory of the owner, which reads faster than a front writes to sockets."""
USER_READS_MAX: Final = 4
"""Number of reads of one user among them. The owner runs even fewer at once."""
WAITING_READS_MAX: Final = 1_000_000
"""Number of reads that may wait at a front. Each connection has only a few, or a limited number if
its client asks for them."""


class RemoteOwner:
    """Sends messages and questions to the owner, if there is one."""

    def __init__(self) -> None:
        self._link: FrontLink | None = None
        self._linked = asyncio.Event()

    def attach(self, link: FrontLink) -> None:
        """Use this link from now on."""
        self._link = link
        self._linked.set()

    def detach(self) -> None:
        """Wait for another owner, because this one has ended."""
        self._link = None
        self._linked.clear()

    @property
    def is_there(self) -> bool:
        """Whether there is an owner."""
        return self._link is not None

    def send(self, message: msgspec.Struct) -> None:
        """Send a message; without an owner it is dropped, because the next one is told anew."""
        if self._link is not None:
            self._link.send(message)

    async def ask(self, question: QuestionKind[T], *arguments: object) -> T:
        """Ask the owner, or the next one.

        Raises:
            StoreUnavailable: There is no owner for too long.
            Refusal: The owner refused.
        """
        while True:
            try:
                async with asyncio.timeout(AWAY_SECONDS_MAX):
                    await self._linked.wait()
            except TimeoutError:
                raise StoreUnavailable("the server is restarting") from None
            assert self._link is not None, "the event is set while there is a link"
            try:
                return await self._link.ask(question, *arguments)
            except LinkLost:
                continue


class RemoteVerbs:
    """The verbs for chats that a connection of a front needs."""

    def __init__(self, owner: RemoteOwner) -> None:
        self._owner = owner
        self._reads = Scheduler(
            "reads of a front",
            slots=READS_MAX,
            user_slots=USER_READS_MAX,
            user_waiting_max=WAITING_READS_MAX,
            waiting_max=WAITING_READS_MAX,
        )
        self.read = self
        self.count_total = self
        self.chats = self

    async def entries(
        self,
        user: UserKey,
        chat: ChatId,
        *,
        after: int | None = None,
        before: int | None = None,
        limit: int = limits.PAGE_DEFAULT,
    ) -> Page:
        """Return a part of a log."""
        async with in_turn(self._reads, user_requester(user)):
            return await self._owner.ask(questions.ENTRIES, user, chat, after, before, limit)

    async def mark(self, user: UserKey, chat: ChatId, delivered: int, read: int) -> None:
        """Store a receipt."""
        await self._owner.ask(questions.MARK, user, chat, delivered, read)

    async def list_heads(self, user: UserKey) -> list[ChatHead]:
        """Return the chats of a user with their heads."""
        async with in_turn(self._reads, user_requester(user)):
            return await self._owner.ask(questions.CHATS, user)

    async def ids(self, user: UserKey) -> list[ChatId]:
        """Return the ids of a user's chats."""
        return await self._owner.ask(questions.CHAT_IDS, user)

    async def heads(self, chats: Sequence[ChatId]) -> Mapping[ChatId, int]:
        """Return the heads of chats."""
        return await self._owner.ask(questions.HEADS, list(chats))

    async def of_heads(self, chats: Sequence[ChatHead]) -> dict[ChatId, Unread]:
        """Count the unread messages of chats."""
        return await self._owner.ask(questions.COUNT_HEADS, list(chats))

    async def of_chat(self, user: UserKey, chat: ChatId) -> tuple[Unread, int] | None:
        """Count the unread messages of a chat, up to a sequence."""
        return await self._owner.ask(questions.COUNT_CHAT, user, chat)

    async def of_inboxes(self, user: UserKey) -> dict[str, Unread]:
        """Count the unread notifications of all inboxes."""
        return await self._owner.ask(questions.COUNT_INBOXES, user)

    async def of_inbox(self, user: UserKey, inbox: str) -> Unread:
        """Count the unread notifications of an inbox."""
        return await self._owner.ask(questions.COUNT_INBOX, user, inbox)


class RemoteRateLimits(RateLimits):
    """The rate limits of the owner, which count for all fronts together.

    Messages are charged by the owner, when it carries them out.
    """

    def __init__(self, owner: RemoteOwner) -> None:
        self._owner = owner

    async def connect(self, user: UserKey) -> int:
        return await self._owner.ask(questions.CHARGE_CONNECT, user)

    async def read(self, user: UserKey, tokens: int = 1) -> int:
        return await self._owner.ask(questions.CHARGE_READ, user, tokens)

    async def wrong_credentials(self, address: str | None) -> Outcome | None:
        return await self._owner.ask(questions.CHARGE_WRONG, address)


class RemoteReceipts:
    """Passes receipts on to the owner, which stores them."""

    def __init__(self, owner: RemoteOwner) -> None:
        self._owner = owner

    def note(self, move: Move, interval_ms: int = limits.RECEIPT_FRAME_MS) -> None:
        """Move a receipt within an interval."""
        self._owner.send(Moved(move, interval_ms))


class RemoteIdentity:
    """Verifies tokens, and finds out whom users block."""

    def __init__(self, owner: RemoteOwner) -> None:
        self._owner = owner

    async def authenticate(self, token: str) -> Caller:
        """Return whose token this is.

        Raises:
            Unauthenticated: The token is not valid.
        """
        caller = await self._owner.ask(questions.AUTHENTICATE, token)
        return Root() if caller is None else caller

    async def blocked_of(self, user: UserKey) -> Collection[str]:
        """Return the ids of the users whom a user blocks."""
        blocked = await self._owner.ask(questions.BLOCKED, user)
        return frozenset(blocked)

# SPDX-License-Identifier: Apache-2.0
"""The owner's answers to the questions of a front."""

from dataclasses import dataclass

from tidings.actions.identity.caller import UserCaller
from tidings.actions.rate_limits import Outcome, RateLimits
from tidings.fronts import questions
from tidings.fronts.mirrors import ConnectionMirror
from tidings.fronts.owner import Fronts
from tidings.fronts.peers import FrontPeer
from tidings.fronts.questions import Answering, answering
from tidings.gateway.context import GatewayContext
from tidings.model.chats import ChatHead
from tidings.model.ids import ChatId, UserKey
from tidings.model.refusals import StoreUnavailable
from tidings.ports.chats import Chats
from tidings.ports.log import Page
from tidings.wire.frames import Hello


@dataclass(frozen=True, slots=True)
class OwnerAnswers:
    """Answers what a front asks about users and chats."""

    context: GatewayContext
    chats: Chats
    fronts: Fronts

    def of(self, peer: FrontPeer) -> Answering:
        """Return the answers to the questions of one front."""
        about_connections = ConnectionAnswers(self.context, self.fronts, peer)
        return {**self._about_users(), **self._counts(), **about_connections.all()}

    def _about_users(self) -> Answering:
        return answering(
            (questions.AUTHENTICATE, self._authenticate),
            (questions.CHARGE_CONNECT, self._charge_connect),
            (questions.CHARGE_WRONG, self._charge_wrong),
            (questions.CHARGE_READ, self._charge_read),
            (questions.BLOCKED, self._blocked),
            (questions.CHATS, self._chats_of),
            (questions.CHAT_IDS, self.chats.ids),
            (questions.HEADS, self.chats.heads),
            (questions.ENTRIES, self._entries),
            (questions.MARK, self._mark),
        )

    def _counts(self) -> Answering:
        total = self.context.verbs.count_total
        return answering(
            (questions.COUNT_HEADS, total.of_heads),
            (questions.COUNT_CHAT, total.of_chat),
            (questions.COUNT_INBOXES, total.of_inboxes),
            (questions.COUNT_INBOX, total.of_inbox),
        )

    async def _authenticate(self, token: str) -> UserCaller | None:
        caller = await self.context.authenticate(token)
        return caller if isinstance(caller, UserCaller) else None

    @property
    def _limits(self) -> RateLimits:
        assert self.context.limits is not None, "fronts without limits charge nothing"
        return self.context.limits

    async def _charge_connect(self, user: UserKey) -> int:
        return await self._limits.connect(user)

    async def _charge_wrong(self, address: str | None) -> Outcome | None:
        return await self._limits.wrong_credentials(address)

    async def _charge_read(self, user: UserKey, tokens: int) -> int:
        return await self._limits.read(user, tokens)

    async def _blocked(self, user: UserKey) -> list[str]:
        return list(await self.context.blocked_of(user))

    async def _chats_of(self, user: UserKey) -> list[ChatHead]:
        return await self.context.chats_of(user)

    async def _entries(
        self, user: UserKey, chat: ChatId, after: int | None, before: int | None, limit: int
    ) -> Page:
        read = self.context.verbs.read.entries
        return await read(user, chat, after=after, before=before, limit=limit)

    async def _mark(self, user: UserKey, chat: ChatId, delivered: int, read: int) -> None:
        await self.context.verbs.mark(user, chat, delivered, read)


@dataclass(frozen=True, slots=True)
class ConnectionAnswers:
    """Answers what a front asks for one of its connections.

    The frames that follow from such a question reach the front before the answer.
    """

    context: GatewayContext
    fronts: Fronts
    peer: FrontPeer

    def all(self) -> Answering:
        """Return the answers by subject."""
        return answering(
            (questions.PLACE, self._place),
            (questions.TELL_ERASURES, self._tell_erasures),
            (questions.GREET_INBOXES, self._greet_inboxes),
            (questions.SEND_PRESENCE, self._send_presence),
        )

    async def _place(self, number: int) -> bool:
        mirror = self.peer.connections.get(number)
        return mirror is not None and await self.fronts.has_place(mirror)

    async def _tell_erasures(self, number: int, place: int, epoch: str | None) -> None:
        mirror, _ = self._found(number)
        await self.context.tell_erasures(mirror, Hello("", epoch=epoch, erasures=place))

    async def _greet_inboxes(self, number: int, inboxes: dict[str, str | None]) -> None:
        mirror, user = self._found(number)
        await self.context.greet_inboxes(user, mirror, Hello("", inboxes=inboxes))

    async def _send_presence(self, number: int) -> None:
        mirror, user = self._found(number)
        await self.context.send_presence(user, mirror)

    def _found(self, number: int) -> tuple[ConnectionMirror, UserKey]:
        """Return a connection and its user.

        Raises:
            StoreUnavailable: The connection has closed.
        """
        mirror = self.peer.connections.get(number)
        user = mirror.conversation.user if mirror is not None else None
        if mirror is None or user is None:
            raise StoreUnavailable("the connection has closed")
        return mirror, user

# SPDX-License-Identifier: Apache-2.0
"""Lanes: one for each chat in use, with its committed state and what waits to be appended."""

from collections import OrderedDict, deque
from collections.abc import Iterable
from typing import Protocol

from tidings.actions.content.wrapping import is_same_send
from tidings.model import limits
from tidings.model.chats import ChatState
from tidings.model.entries import Entry, SendKey
from tidings.model.ids import ChatId
from tidings.model.refusals import Refusal, SendConflict
from tidings.ports.log import Declined, Log
from tidings.ports.world import Clock


class AppendRequest(Protocol):
    """Something to append, and who waits for the answer. Exactly one of the answers is given."""

    key: SendKey | None
    """For a message: what makes it idempotent. None for a change of the chat."""
    is_claimed: bool
    """The key is claimed, and a search up to the head has found no entry for it."""
    attempts: int
    was_looked_into: bool
    """The log was read up to its end since it was proposed: only then may it be refused."""

    @property
    def is_ready(self) -> bool:
        """Whether `decide` may be called, and what it returned be written."""
        ...

    async def prepare(self) -> None:
        """Become ready. May raise a Refusal."""
        ...

    def decide(self, state: ChatState, now: int) -> list[Entry]:
        """The entries to append to a chat in this state; none if there is nothing to change.

        Raises:
            Refusal: It may not, or cannot, be done.
        """
        ...

    def kept(self, entries: list[Entry]) -> None:
        """Answer: it is durable."""
        ...

    def replayed(self, entry: Entry) -> None:
        """Answer: it was sent before; this is the message as it is now."""
        ...

    def declined(self, declined: Declined) -> None:
        """Answer: the store found that it cannot be done."""
        ...

    def refused(self, refusal: Refusal) -> None:
        """Answer: no."""
        ...


class ChatQueue:
    """One chat."""

    __slots__ = ("chat_id", "is_busy", "is_doubtful", "state", "waiting")

    def __init__(self, chat_id: ChatId) -> None:
        self.chat_id = chat_id
        self.state: ChatState | None = None
        self.waiting: deque[AppendRequest] = deque()
        self.is_busy = False
        """A run is on its way to the log, or something is being read: no other may start."""
        self.is_doubtful = False
        """The first that waits would be refused, if the state is as it was seen last."""


class ChatQueues:
    """The chats in use: a cache, bounded by chats and by members, least recently used out."""

    def __init__(self) -> None:
        self._by_chat: OrderedDict[ChatId, ChatQueue] = OrderedDict()
        self._members = 0

    def get(self, chat: ChatId) -> ChatQueue:
        """The chat's lane, made if there is none; the chat counts as just used."""
        chat_queue = self._by_chat.get(chat)
        if chat_queue is None:
            chat_queue = self._by_chat[chat] = ChatQueue(chat)
            self._shrink()
        else:
            self._by_chat.move_to_end(chat)
        return chat_queue

    def state(self, chat: ChatId) -> ChatState | None:
        """The chat's committed state, if it is cached."""
        chat_queue = self._by_chat.get(chat)
        return chat_queue.state if chat_queue is not None else None

    def keep_state(self, chat_queue: ChatQueue, state: ChatState | None) -> None:
        """This is the chat's committed state now."""
        before = len(chat_queue.state.members) if chat_queue.state else 0
        chat_queue.state = state
        self._members += (len(state.members) if state else 0) - before

    def forget(self, chat_queue: ChatQueue) -> None:
        """Drop the lane; whatever waits in it has been answered."""
        self.keep_state(chat_queue, None)
        del self._by_chat[chat_queue.chat_id]

    def _shrink(self) -> None:
        while (
            len(self._by_chat) > limits.CACHED_CHATS_MAX
            or self._members > limits.CACHED_MEMBERS_MAX
        ):
            idle = (
                chat_queue
                for chat_queue in self._by_chat.values()
                if chat_queue.state and not chat_queue.is_busy
            )
            chat_queue = next(idle, None)
            if chat_queue is None:
                return
            self.forget(chat_queue)


class Repeats:
    """Looks for what was sent under a key before."""

    def __init__(self, log: Log, clock: Clock) -> None:
        self._log = log
        self._clock = clock

    async def answer_if_sent(self, chat: ChatId, request: AppendRequest) -> bool:
        """Answer a proposal whose key is taken; False if its message has yet to be appended."""
        assert request.key is not None
        try:
            sent = await self._log.find_sent(chat, request.key, self._clock.now())
        except Refusal as refusal:
            request.refused(refusal)
            return True
        if sent is None:
            return False  # it expired a moment ago: claim it afresh
        if not is_same_send(request.key.digest, sent.digest):
            request.refused(SendConflict())
            return True
        if sent.entry is not None:
            request.replayed(sent.entry)
            return True
        request.is_claimed = True
        return False

    async def refuse_unless_sent(
        self, chat: ChatId, request: AppendRequest, refusal: Refusal
    ) -> None:
        """The last word to a sender who was removed: a repeat of an own send is still answered."""
        assert request.key is not None
        try:
            sent = await self._log.find_sent(chat, request.key, self._clock.now())
        except Refusal as trouble:
            request.refused(trouble)
            return
        is_same = sent is not None and is_same_send(request.key.digest, sent.digest)
        if is_same and sent is not None and sent.entry is not None:
            request.replayed(sent.entry)
        else:
            request.refused(refusal)


def doubt_claims(requests: Iterable[AppendRequest], missed: Iterable[Entry]) -> None:
    """One of these entries may be a repeat of such a send: claiming the key anew will tell."""
    sent = {(entry.sender, entry.client_message_id) for entry in missed}
    for request in requests:
        key = request.key
        if key is not None and (key.sender, key.client_message_id) in sent:
            request.is_claimed = False

# SPDX-License-Identifier: Apache-2.0
"""Queues of append requests, one per chat in use, each with the chat's committed state.

This module also searches for an earlier send with the same idempotency key, so that a repeated send
is not appended twice.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping
from typing import Protocol

import msgspec

from tidings.actions.chat.turns import WriterTurn
from tidings.actions.content.data_keys import is_same_send
from tidings.diagnosis import report_queue
from tidings.logs.requests import Requests
from tidings.metrics import declared
from tidings.metrics.meters import report
from tidings.model import limits
from tidings.model.chats import ChatState
from tidings.model.entries import Entry, SendKey
from tidings.model.file_refusals import AttachmentUsed
from tidings.model.ids import ChatId, UserKey
from tidings.model.refusals import (
    ChatBusy,
    ChatNotFound,
    Refusal,
    SendConflict,
    StoreUnavailable,
)
from tidings.ports.log import Declined, Log, Sent
from tidings.ports.store import Requester, current_requester, user_requester
from tidings.ports.world import Clock
from tidings.tracing.spans import Span


class AppendRequest(Protocol):
    """A message or change to append to a chat.

    Exactly one of the four answer methods (`kept`, `replayed`, `declined`, `refused`) is called,
    once.
    """

    key: SendKey | None
    """The idempotency key of a message, or None for a change of the chat."""
    is_claimed: bool
    """Whether this send has claimed its idempotency key, and the log has no message with that
    key."""
    attempts: int
    span: Span | None
    """The span of the append, if it is traced."""
    requests: Requests
    """The client's request, which log lines name; none if nobody asked for the change."""
    goes_alone: bool
    """Whether the request must not share a run with others: a change of the chat, or a message with
    options. The store may decline it."""
    was_looked_into: bool
    """Whether the log was read to its end for this request. A refusal by `decide` is final only
    after that, because the cached state may be outdated."""

    @property
    def is_ready(self) -> bool:
        """Whether `decide` may be called now, and the entries that it returns may be appended."""
        ...

    async def prepare(self) -> None:
        """Make the request ready; wait if necessary.

        Raises:
            Refusal: The request cannot become ready.
        """
        ...

    def decide(self, state: ChatState, now: int) -> list[Entry]:
        """Return the entries to append to a chat in this state; none if nothing has to change.

        Raises:
            Refusal: The change is not allowed, or not possible.
        """
        ...

    def kept(self, entries: list[Entry]) -> None:
        """Answer that the entries are durable; the list is empty if nothing had to change."""
        ...

    def replayed(self, entry: Entry) -> None:
        """Answer that the message was already sent; `entry` is its current version."""
        ...

    def declined(self, declined: Declined) -> None:
        """Answer that the store declined the change."""
        ...

    def refused(self, refusal: Refusal) -> None:
        """Answer with a refusal."""
        ...


class ChatQueue:
    """Requests that wait to be appended to one chat, and the chat's committed state."""

    __slots__ = (
        "chat_id", "is_busy", "is_doubtful", "remembered_after", "searched_until", "state",
        "turn", "waiting",
    )  # fmt: skip

    def __init__(self, chat_id: ChatId) -> None:
        self.chat_id = chat_id
        self.state: ChatState | None = None
        self.waiting: deque[AppendRequest] = deque()
        self.is_busy = False
        """Whether a run or a read is in progress. While it is, no other may start."""
        self.is_doubtful = False
        """Whether the first waiting request would append nothing, judged by the cached state. The
        log must be read again before the request is answered, because the cached state may be
        outdated."""
        self.remembered_after = 0
        """The keys of all messages after this sequence, up to the state's head, are cached."""
        self.searched_until = 0
        """Each long search moves this time forward by one second. If it is too far in the future,
        the chat gets no further long search now."""
        self.turn: WriterTurn | None = None
        """Which process has its turn to append; None if no other process is known to append to the
        chat."""


class ChatQueues:
    """Caches the queues of the chats in use; the least recently used are evicted first.

    Both the number of chats and their total number of members are limited. The keys of the latest
    messages of these chats are cached too, so that a repeated send is recognised even if its
    idempotency key was not claimed.
    """

    def __init__(self) -> None:
        self._by_chat: OrderedDict[ChatId, ChatQueue] = OrderedDict()
        self._members = 0
        self._remembered: dict[tuple[ChatId, UserKey, str], int] = {}
        """Sequences of messages, by chat, sender and client_message_id, in order of arrival."""
        report_queue("appends", self)
        report(self, lambda queues: [(declared.memory_entries, "chats", len(queues._by_chat))])

    def depths(self) -> Mapping[str, int]:
        """Return the number of waiting requests and of busy queues, and the size of the cache."""
        queues = self._by_chat.values()
        return {
            "waiting": sum(len(chat_queue.waiting) for chat_queue in queues),
            "running": sum(chat_queue.is_busy for chat_queue in queues),
            "chats": len(queues),
            "members": self._members,
        }

    def get(self, chat: ChatId) -> ChatQueue:
        """Return the chat's queue, creating it if necessary, and mark it as just used."""
        chat_queue = self._by_chat.get(chat)
        if chat_queue is None:
            chat_queue = self._by_chat[chat] = ChatQueue(chat)
            self._shrink()
        else:
            self._by_chat.move_to_end(chat)
        return chat_queue

    def state(self, chat: ChatId) -> ChatState | None:
        """Return the chat's committed state, if it is cached."""
        chat_queue = self._by_chat.get(chat)
        return chat_queue.state if chat_queue is not None else None

    def keep_state(self, chat_queue: ChatQueue, state: ChatState | None) -> None:
        """Cache the chat's new committed state."""
        before = len(chat_queue.state.members) if chat_queue.state else 0
        chat_queue.state = state
        self._members += (len(state.members) if state else 0) - before

    def remember(self, chat_queue: ChatQueue, entries: Iterable[Entry]) -> None:
        """Cache the messages among entries that were just appended or read."""
        chat = chat_queue.chat_id
        for entry in entries:
            if entry.client_message_id is not None:
                self._remembered[chat, entry.sender, entry.client_message_id] = entry.sequence
        while len(self._remembered) > limits.REMEMBERED_SENDS_MAX:
            oldest = next(iter(self._remembered))
            sequence = self._remembered.pop(oldest)
            if (queue := self._by_chat.get(oldest[0])) is not None:
                queue.remembered_after = max(queue.remembered_after, sequence)

    def place_of(self, chat_queue: ChatQueue, key: SendKey) -> int | None:
        """Return the sequence of the message with this idempotency key, if it is cached."""
        name = chat_queue.chat_id, key.sender, key.client_message_id
        return self._remembered.get(name)

    def forget(self, chat_queue: ChatQueue) -> None:
        """Drop the queue; every request in it must have been answered."""
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
    """Looks up the first send with an idempotency key, and answers its repeats."""

    def __init__(self, log: Log, clock: Clock) -> None:
        self._log = log
        self._clock = clock

    async def answer_or_refuse(self, chat_queue: ChatQueue, request: AppendRequest) -> bool:
        """Answer a request whose message is already in the log, and return True.

        Also return True if the request is refused, because the chat's log was searched too often.
        Return False if the message is not in the log, so that it must be appended.
        """
        if not self._may_search(chat_queue, request):
            request.refused(ChatBusy())
            return True
        return await self.answer_if_sent(chat_queue.chat_id, request)

    def _may_search(self, chat_queue: ChatQueue, request: AppendRequest) -> bool:
        """Return True if the log may be searched for the request's message; count a long search.

        A client chooses where the search begins (`after`), and the chat's queue waits until the
        search ends. Long searches are therefore limited.
        """
        assert request.key is not None
        after, state = request.key.after, chat_queue.state
        if after is None or state is None or not self._log.takes_after:
            return True
        if state.head - after <= limits.SHORT_SEARCH_ENTRIES:
            return True
        now = self._clock.now()
        until = max(now, chat_queue.searched_until) + limits.SECOND_MS
        if until > now + limits.LONG_SEARCHES_BURST * limits.SECOND_MS:
            return False
        chat_queue.searched_until = until
        return True

    async def answer_if_sent(self, chat: ChatId, request: AppendRequest) -> bool:
        """Answer a request whose message is already in the log, and return True.

        The answer is the stored message or a refusal. Return False if the message is not in the
        log, so that it must be appended.
        """
        assert request.key is not None
        try:
            sent = await self._log.find_sent(chat, request.key, self._clock.now())
        except Refusal as refusal:
            request.refused(refusal)
            return True
        if sent is None:
            return False  # the key expired a moment ago: claim it again
        if not _is_same(request.key, sent):
            request.refused(SendConflict())
            return True
        if sent.entry is not None:
            request.replayed(sent.entry)
            return True
        request.is_claimed = True
        return False

    async def answer_remembered(self, chat: ChatId, request: AppendRequest, sequence: int) -> None:
        """Answer a request whose message is in the log at this sequence."""
        assert request.key is not None
        request.key = msgspec.structs.replace(request.key, after=sequence - 1)
        try:
            if await self.answer_if_sent(chat, request):
                return
            state = await self._log.state(chat)
        except Refusal as refusal:
            request.refused(refusal)
        except Exception:
            request.refused(StoreUnavailable())
            raise
        else:
            # The messages of a deleted chat lose their ids.
            is_gone = state is None or state.is_deleted
            request.refused(ChatNotFound() if is_gone else StoreUnavailable())

    async def refuse_unless_sent(
        self, chat_queue: ChatQueue, request: AppendRequest, refusal: Refusal
    ) -> None:
        """Refuse a send, unless the same send is already in the log.

        If the log contains it, answer with the stored message, even if the sender is no longer a
        member.
        """
        assert request.key is not None
        if not self._may_search(chat_queue, request):
            request.refused(refusal)
            return
        try:
            sent = await self._log.find_sent(chat_queue.chat_id, request.key, self._clock.now())
        except Refusal as trouble:
            request.refused(trouble)
            return
        except Exception:
            request.refused(StoreUnavailable())
            raise
        if sent is None or sent.entry is None:
            request.refused(refusal)
        elif _is_same(request.key, sent):
            request.replayed(sent.entry)
        else:
            # The files may be used by the very message that has this client_message_id.
            is_used = isinstance(refusal, AttachmentUsed)
            request.refused(SendConflict() if is_used else refusal)


def needs_no_key(chat_queue: ChatQueue, request: AppendRequest, sequence: int) -> bool:
    """Return True if a message can be appended without claiming its idempotency key.

    This is possible if the queue has cached every message since the client first sent this one,
    because an earlier send would be among them.
    """
    key = request.key
    if key is None or key.after is None or request.is_claimed:
        return False
    return chat_queue.remembered_after <= key.after < sequence


def is_behind(chat_queue: ChatQueue, request: AppendRequest) -> bool:
    """Return True if the sender has seen later entries than the cached state contains.

    Another process has then taken the slot after the cached head.
    """
    key, state = request.key, chat_queue.state
    if key is None or key.after is None or state is None or request.was_looked_into:
        return False
    return state.head < key.after


def gave_up(request: AppendRequest) -> bool:
    """Count that a request lost its slot to another writer.

    After too many lost slots, refuse the request and return True; before that, return False.
    """
    request.attempts += 1
    if request.attempts < limits.SLOT_ATTEMPTS_MAX:
        return False
    request.refused(ChatBusy())
    return True


def _is_same(key: SendKey, sent: Sent) -> bool:
    return sent.digest is None or is_same_send(key.digest, sent.digest)


def doubt_claims(requests: Iterable[AppendRequest], missed: Iterable[Entry]) -> None:
    """Treat the idempotency key of each request as unclaimed, if another writer may have appended
    its message.

    `missed` are the entries that other writers have appended since the last read. The next attempt
    claims the key again, and thereby finds such a message.
    """
    sent = {(entry.sender, entry.client_message_id) for entry in missed}
    for request in requests:
        key = request.key
        if key is not None and (key.sender, key.client_message_id) in sent:
            request.is_claimed = False


async def prepared(request: AppendRequest) -> Refusal | None:
    """Prepare a request; return None if it is ready, and otherwise the refusal to answer with."""
    try:
        await request.prepare()
    except Refusal as refusal:
        return refusal
    return None


def requester_of(chat_queue: ChatQueue) -> Requester:
    """Return the user on whose behalf the queue reads.

    If the first waiting request is a message, this is its sender; otherwise it is the current
    caller.
    """
    key = chat_queue.waiting[0].key if chat_queue.waiting else None
    return current_requester() if key is None else user_requester(key.sender)


def requests_of(requests: Iterable[AppendRequest]) -> Requests:
    """Return the names of the clients' requests, for the log."""
    return tuple([name for request in requests for name in request.requests])

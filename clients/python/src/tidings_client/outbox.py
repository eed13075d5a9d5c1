# SPDX-License-Identifier: Apache-2.0
"""The messages that are not answered yet, which are sent again with the same key. No I/O.

The messages of a chat are sent in the order in which they were posted. If only one message waits
for its answer at a time (the default), they also arrive in this order. With more, a message that
the server refuses temporarily may arrive after a later one.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from tidings_client.errors import OutboxFull
from tidings_client.saved import Outgoing, OutgoingKey

AGE_MS_MAX: Final = 6 * 24 * 60 * 60 * 1_000
"""Age at which messages are given up. The server forgets a key after seven days, so a later repeat
could become a second message."""
MESSAGES_MAX: Final = 10_000
REST_SECONDS_MIN: Final = 0.5
REST_SECONDS_MAX: Final = 30.0
ASKED_SECONDS_MAX: Final = 300.0
"""Longest pause that a server can ask for. It may name a day, and a tenant may raise the limit."""


class _Slot:
    """A message and its state."""

    __slots__ = ("is_in_flight", "is_stored", "message", "place")

    def __init__(self, message: Outgoing, place: int, *, is_stored: bool) -> None:
        self.message = message
        self.place = place
        self.is_stored = is_stored
        self.is_in_flight = False


class _ChatQueue:
    """The queue of messages of one chat."""

    __slots__ = ("asked_until", "in_flight", "refusals", "rests_until", "size", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[_Slot] = deque()
        """The messages that are not in flight, in order. Some of them may be confirmed already, by
        an entry in the log."""
        self.in_flight = 0
        self.size = 0
        self.refusals = 0
        """Number of consecutive temporary refusals by the server."""
        self.rests_until = 0.0
        self.asked_until = 0.0
        """The time that the server named, before which also an answer does not end the pause."""


class Outbox:
    """All messages without a final answer."""

    def __init__(
        self,
        messages: Iterable[Outgoing],
        *,
        in_flight_max: int = 1,
        jitter: Callable[[float, float], float],
    ) -> None:
        """Create an outbox with the saved messages of an earlier run.

        `jitter` returns a random number between two numbers.
        """
        self._in_flight_max = in_flight_max
        self._jitter = jitter
        self._queues: dict[str, _ChatQueue] = {}
        self._slots: dict[OutgoingKey, _Slot] = {}
        """All messages, in the order in which they were posted."""
        self._serial = 0
        self._failures = 0
        """Number of failed messages whose failure the application does not know yet."""
        self._changed: set[str] = set()
        """Chats in which a message may have become due."""
        self._rests_until = 0.0
        for message in messages:
            self._add(message, is_stored=True)

    def __len__(self) -> int:
        return len(self._slots)

    def __contains__(self, key: OutgoingKey) -> bool:
        return key in self._slots

    def waiting(self, key: OutgoingKey) -> Outgoing | None:
        """Return the message with this key; None if none is in the outbox."""
        slot = self._slots.get(key)
        return None if slot is None else slot.message

    def add(self, message: Outgoing) -> None:
        """Add a message, which is sent after `stored` is called for it.

        Raises:
            OutboxFull: Too many messages are waiting.
            ValueError: A message with this client_message_id is already waiting.
        """
        if len(self._slots) + self._failures >= MESSAGES_MAX:
            raise OutboxFull(f"{MESSAGES_MAX} messages are waiting already")
        if message.key in self._slots:
            raise ValueError(f"{message.client_message_id} is waiting already in this chat")
        self._add(message, is_stored=False)

    def stored(self, key: OutgoingKey) -> None:
        """Record that the message is saved in the storage, so that it can be sent."""
        if (slot := self._slots.get(key)) is not None:
            slot.is_stored = True
            self._changed.add(slot.message.chat)

    def due(self, now: float) -> Iterator[Outgoing]:
        """Yield the messages to send now on an open connection, and mark them as in flight."""
        if self._rests_until > now:
            return
        stirred, self._changed = self._changed, set()
        for chat in stirred:
            queue = self._queues.get(chat)
            if queue is None:
                continue
            if max(queue.rests_until, queue.asked_until) > now:
                self._changed.add(chat)
                continue
            while queue.waiting and queue.in_flight < self._in_flight_max:
                slot = queue.waiting[0]
                is_here = self._slots.get(slot.message.key) is slot
                if is_here and not slot.is_stored:
                    break
                queue.waiting.popleft()
                if is_here:
                    slot.is_in_flight = True
                    queue.in_flight += 1
                    yield slot.message

    def answered(self, key: OutgoingKey) -> Outgoing | None:
        """Remove and return a message with a final answer; None if it was removed before."""
        slot = self._slots.pop(key, None)
        if slot is None:
            return None
        queue = self._queues[slot.message.chat]
        queue.size -= 1
        queue.in_flight -= slot.is_in_flight
        queue.refusals, queue.rests_until = 0, 0.0
        self._changed.add(slot.message.chat)
        if not queue.size:
            del self._queues[slot.message.chat]
        return slot.message

    def turned_away(
        self,
        key: OutgoingKey,
        now: float,
        asked_seconds: float = 0.0,
        *,
        concerns_all: bool = False,
    ) -> None:
        """Handle a temporary refusal: pause the chat for some time, longer after each refusal.

        The pause comes after the time that the server asked for. If the refusal concerns all
        messages of the user, all chats pause for that time.
        """
        asked_until = now + min(asked_seconds, ASKED_SECONDS_MAX)
        if concerns_all:
            self._rests_until = max(self._rests_until, asked_until)
        slot = self._slots.get(key)
        if slot is None or not slot.is_in_flight:
            return
        slot.is_in_flight = False
        queue = self._queues[slot.message.chat]
        queue.in_flight -= 1
        queue.waiting = deque(sorted([slot, *queue.waiting], key=lambda one: one.place))
        longest = min(REST_SECONDS_MAX, REST_SECONDS_MIN * 2**queue.refusals)
        queue.refusals = min(queue.refusals + 1, 10)
        queue.asked_until = max(queue.asked_until, asked_until)
        queue.rests_until = asked_until + self._jitter(0, longest)
        self._changed.add(slot.message.chat)

    def failed(self) -> None:
        """Count a failed message, which takes up room until the application knows of it."""
        self._failures += 1

    def told(self) -> None:
        """Record that the application knows of a failed message."""
        self._failures -= 1

    def lost(self) -> None:
        """Handle the loss of the connection: all messages in flight must be sent again."""
        for queue in self._queues.values():
            queue.waiting.clear()
            queue.in_flight = 0
        for slot in self._slots.values():
            slot.is_in_flight = False
            self._queues[slot.message.chat].waiting.append(slot)
        self._changed.update(self._queues)

    def expired(self, now_ms: int) -> list[Outgoing]:
        """Remove and return the messages that are too old to be sent."""
        oldest = now_ms - AGE_MS_MAX
        old = [slot.message for slot in self._slots.values() if slot.message.created_at_ms < oldest]
        for message in old:
            self.answered(message.key)
        return old

    def _add(self, message: Outgoing, *, is_stored: bool) -> None:
        self._serial += 1
        slot = self._slots[message.key] = _Slot(message, self._serial, is_stored=is_stored)
        queue = self._queues.setdefault(message.chat, _ChatQueue())
        queue.waiting.append(slot)
        queue.size += 1
        self._changed.add(message.chat)

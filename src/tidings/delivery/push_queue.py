# SPDX-License-Identifier: Apache-2.0
"""The queue of push notices: waits for devices, gathers the messages of a burst, and sends notices.

A user who looks at a device gets `WAIT_SECONDS` to take a message there. A user who does not is
notified at once. After a notice, further messages of the same chat are gathered for
`GATHER_SECONDS` and become one notice. The queue is in memory and bounded; tenants take turns.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

import msgspec

from tidings.actions.push.journal import PushJournal
from tidings.actions.push.noticing import WaitingMessages, span
from tidings.caches import LruCache
from tidings.diagnosis import report_queue
from tidings.metrics import declared
from tidings.metrics.counts import report_counts
from tidings.model.ids import ChatId, UserKey, tenant_of
from tidings.model.push_rules import ArrivedMessage, Reason
from tidings.model.refusals import Unavailable
from tidings.ports.push import LookingDevices, PushNotice
from tidings.tasks import Tasks
from tidings.tenant_queues import TenantQueues

log = logging.getLogger("tidings.push")

WAIT_SECONDS: Final = 10.0
GATHER_SECONDS: Final = 10.0
WAITING_MAX: Final = 50_000
"""Maximum number of pairs of a user and a chat that wait in a process. Beyond it, notices are
dropped."""
TENANT_WAITING_MAX: Final = 20_000
MESSAGES_MAX: Final = 8
"""Number of messages that are remembered for one notice: the oldest, which is due first, those that
mention the user, and the newest."""
WORKERS: Final = 32
TENANT_WORKERS: Final = 8
"""Maximum number of workers that one tenant occupies. A worker waits for push services, and a few
tenants with slow services must not occupy all workers."""

_Key = tuple[UserKey, ChatId]


class _Due(msgspec.Struct, frozen=True):
    message: ArrivedMessage
    at: float
    """When the message may be pushed, by the clock of the event loop."""
    receipts_tell: bool
    """Whether a receipt proves that a device that is not away has received the message."""


class _Pending(msgspec.Struct):
    """Messages of one chat of which a user is not notified yet, oldest first."""

    due: list[_Due]
    is_small: bool
    forgotten: int = 0
    """Number of messages that are part of the notice, but are not remembered."""

    def add(self, due: _Due) -> None:
        """Add the newest message. If there are too many, forget one in the middle."""
        if len(self.due) >= MESSAGES_MAX:
            self.forgotten += 1
            # If the oldest were forgotten, no message of a busy chat would ever become due.
            rest = range(1, len(self.due))
            del self.due[next((n for n in rest if not self.due[n].message.is_mention), 1)]
        self.due.append(due)


def _sequences(due: Sequence[_Due]) -> range:
    return span([one.message for one in due]) if due else range(0)


class PushQueue:
    """Notifies users of messages that they have not taken."""

    def __init__(
        self,
        make: Callable[[WaitingMessages], Awaitable[PushNotice | Reason]],
        send: Callable[[UserKey, PushNotice], Awaitable[object]],
        looking: LookingDevices,
        journal: PushJournal,
        *,
        wait_seconds: float = WAIT_SECONDS,
        gather_seconds: float = GATHER_SECONDS,
    ) -> None:
        self._make = make
        self._send = send
        self._looking = looking
        self._journal = journal
        self._wait_seconds = wait_seconds
        self._gather_seconds = gather_seconds
        self._pending: dict[_Key, _Pending] = {}
        self._of_tenant: Counter[str] = Counter()
        self._noticed_at: LruCache[_Key, float] = LruCache(WAITING_MAX)
        self._queues: TenantQueues[_Key] = TenantQueues(
            "push",
            tenant_max=TENANT_WAITING_MAX,
            total_max=WAITING_MAX,
            at_once_max=TENANT_WORKERS,
        )
        self._tasks = Tasks("push")
        self.noticed = 0
        self.held_back: Counter[Reason] = Counter()
        journal.follow(self._waits)
        report_queue("waiting pushes", self)
        report_counts(self, "push")

    def depths(self) -> Mapping[str, int]:
        """Return the number of pairs of a user and a chat that wait, and of their messages."""
        messages = sum(len(pending.due) for pending in self._pending.values())
        return {"waiting": len(self._pending), "messages": messages}

    def start(self) -> None:
        """Start the tasks that send notices."""
        for _ in range(WORKERS):
            self._tasks.repeat(self._work)

    async def close(self) -> None:
        """Stop. Messages that still wait are offered again by a single process that starts; with
        several processes they are lost, and the next message of the chat has its own notice."""
        self._journal.unfollow(self._waits)
        await self._tasks.close()

    def offer(
        self,
        user: UserKey,
        chat: ChatId,
        message: ArrivedMessage,
        *,
        is_small: bool,
        is_looking: bool,
        receipts_tell: bool,
    ) -> None:
        """Notify a user of a message: at once, or later if the user looks at a device."""
        declared.push_messages.counts["offered"] += 1
        key, now = (user, chat), asyncio.get_running_loop().time()
        due = _Due(message, now + self._wait_seconds if is_looking else now, receipts_tell)
        pending = self._pending.get(key)
        if pending is not None:
            pending.add(due)
            return
        tenant = tenant_of(user)
        if len(self._pending) >= WAITING_MAX or self._of_tenant[tenant] >= TENANT_WAITING_MAX:
            declared.push.counts["dropped"] += 1
            declared.push_messages.counts["dropped"] += 1
            self._journal.lost((user,), chat, (message.sequence,), "dropped")
            return
        self._pending[key] = _Pending([due], is_small)
        self._of_tenant[tenant] += 1
        self._schedule(key)

    def _waits(self, user: UserKey, chat: ChatId, sequence: int) -> bool:
        """Return True if a message waits to be pushed to a user."""
        pending = self._pending.get((user, chat))
        return pending is not None and sequence in span([one.message for one in pending.due])

    def _schedule(self, key: _Key) -> None:
        """Queue a chat of a user when its first message may be pushed."""
        loop = asyncio.get_running_loop()
        earliest = (self._noticed_at.get(key) or -self._gather_seconds) + self._gather_seconds
        at = max(earliest, self._pending[key].due[0].at)
        if at <= loop.time():
            self._enqueue(key)
        else:
            loop.call_at(at, self._enqueue, key)

    def _enqueue(self, key: _Key) -> None:
        self._tasks.start(self._put(key))

    async def _put(self, key: _Key) -> None:
        # The queues have room for all that may be pending, so nothing is dropped here.
        await self._queues.put(tenant_of(key[0]), key)

    async def _work(self) -> None:
        tenant, key = await self._queues.get()
        due, is_small, count = self._taken(key)
        outcome = "failed"
        try:
            waiting = await self._left(key, due, is_small=is_small)
            count -= len(due) - len(waiting.messages)
            outcome = await self._notify(key, waiting)
        except Unavailable:
            log.warning("the store does not answer", extra={"action": "push_waits"})
            declared.push.counts["failed"] += 1
            self._journal.lost((key[0],), key[1], _sequences(due), "failed")
        finally:
            declared.push_messages.counts[outcome] += count
            await self._queues.done(tenant)

    def _taken(self, key: _Key) -> tuple[list[_Due], bool, int]:
        """Remove the messages that may be pushed now; return them, whether their chat is small, and
        the number of messages in their notice, which includes those that were forgotten."""
        now, pending = asyncio.get_running_loop().time(), self._pending[key]
        due = [one for one in pending.due if one.at <= now]
        pending.due = [one for one in pending.due if one.at > now]
        forgotten, pending.forgotten = pending.forgotten, 0
        self._noticed_at.put(key, now)
        if pending.due:
            self._schedule(key)
        else:
            del self._pending[key]
            tenant = tenant_of(key[0])
            self._of_tenant[tenant] -= 1
            if not self._of_tenant[tenant]:
                del self._of_tenant[tenant]
        return due, pending.is_small, len(due) + forgotten

    async def _left(self, key: _Key, due: list[_Due], *, is_small: bool) -> WaitingMessages:
        """Return the messages that are not on any device that somebody looks at, newest first.
        They may have been offered in another order.

        A receipt covers all earlier messages. The newest message therefore decides whether receipts
        prove anything.
        """
        user, chat = key
        taken = await self._looking.taken_up_to(user, chat, is_small=is_small)
        left = [one for one in due if one.message.sequence > taken]
        left.sort(key=lambda one: one.message.sequence, reverse=True)
        declared.push_messages.counts["taken"] += len(due) - len(left)
        on_device = [one for one in due if one.message.sequence <= taken]
        self._journal.skipped((user,), chat, _sequences(on_device), "taken")
        tells = bool(left) and left[0].receipts_tell
        tells = tells and is_small and not self._looking.is_away(user)
        messages = [one.message for one in left]
        return WaitingMessages(user, chat, messages, unless_delivered=tells)

    async def _notify(self, key: _Key, waiting: WaitingMessages) -> str:
        """Notify a user of messages; return what became of them."""
        made: PushNotice | Reason = "taken"
        if waiting.messages:
            made = await self._make(waiting)
        if isinstance(made, str):
            self.held_back[made] += 1
            self._noticed_at.pop(key)  # no notice was sent, so the next one need not wait
            return made
        self.noticed += 1
        await self._send(waiting.user, made)
        return "noticed"

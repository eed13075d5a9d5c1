# SPDX-License-Identifier: Apache-2.0
"""Queues of messages that wait for the rules of their tenant or for its hook.

Messages of one sender to one chat wait in one queue. The hook is asked about all of them at the
same time, but they are appended in the order in which they arrived.
"""

from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from tidings.actions.chat.before_send import Verdict
from tidings.model import limits
from tidings.model.ids import ChatId, UserKey
from tidings.model.refusals import ChatBusy, Refusal, StoreUnavailable
from tidings.model.retention import RetentionRule
from tidings.ports.store import set_requester, user_requester
from tidings.tasks import Tasks

SENDS_WAITING_MAX: Final = limits.CONNECTION_REQUESTS_MAX
"""Maximum number of messages of one sender to one chat that wait."""


@dataclass(slots=True)
class _WaitingSend:
    """A message in a queue. It is appended after it is judged, and after those before it."""

    propose: Callable[[RetentionRule, Verdict], None]
    refuse: Callable[[Refusal], None]
    judged: tuple[RetentionRule, Verdict] | Refusal | None = None

    def leave(self) -> None:
        assert self.judged is not None
        if isinstance(self.judged, Refusal):
            self.refuse(self.judged)
        else:
            self.propose(*self.judged)


class SendQueues:
    """Messages that wait for the rules of their tenant or for its hook, in order of arrival."""

    def __init__(self) -> None:
        self.waiting: dict[tuple[UserKey, ChatId], deque[_WaitingSend]] = {}
        """The queues, by sender and chat. Most of the time there are none."""
        self._tasks = Tasks("hooks")

    def enter(
        self,
        sender: UserKey,
        chat: ChatId,
        judge: Callable[[], Awaitable[tuple[RetentionRule, Verdict]]],
        propose: Callable[[RetentionRule, Verdict], None],
        refuse: Callable[[Refusal], None],
    ) -> None:
        """Start to judge a message; call `propose` or `refuse` once the messages before it are
        done."""
        queue = self.waiting.setdefault((sender, chat), deque())
        if len(queue) >= SENDS_WAITING_MAX:
            refuse(ChatBusy())
            return
        send = _WaitingSend(propose, refuse)
        queue.append(send)
        self._tasks.start(self._judge(sender, chat, send, judge))

    async def _judge(
        self,
        sender: UserKey,
        chat: ChatId,
        send: _WaitingSend,
        judge: Callable[[], Awaitable[tuple[RetentionRule, Verdict]]],
    ) -> None:
        set_requester(user_requester(sender))
        try:
            send.judged = await judge()
        except Refusal as refusal:
            send.judged = refusal
        except Exception:
            send.judged = StoreUnavailable()
            raise
        finally:
            self._move(sender, chat)

    def _move(self, sender: UserKey, chat: ChatId) -> None:
        queue = self.waiting[sender, chat]
        while queue and queue[0].judged is not None:
            queue.popleft().leave()
        if not queue:
            del self.waiting[sender, chat]

    async def close(self) -> None:
        """Stop judging; messages that still wait get no answer."""
        await self._tasks.close()

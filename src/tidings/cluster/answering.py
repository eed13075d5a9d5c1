# SPDX-License-Identifier: Apache-2.0
"""Answers to questions that other processes ask through Redis."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Final

from tidings.cluster.channels import (
    GatewayAnswer,
    GatewayQuestion,
    HandoverMessage,
    Subscription,
    encode,
)
from tidings.cluster.redis_link import RedisLink
from tidings.ports.delivery import RegistryUnavailable
from tidings.tasks import Tasks

ANSWERS_MAX: Final = 10_000
ANSWERS_AT_ONCE: Final = 200

Answerer = Callable[[bytes], bytes]
"""Answers the questions about one subject, from what a process has in memory."""


class AnswerSender:
    """Sends the answers of this process, as many as wait in one round trip."""

    def __init__(self, link: RedisLink, process: str, answerers: Mapping[str, Answerer]) -> None:
        """Set up the sender; `answerers` are the subjects about which this process can be asked."""
        self._link = link
        self._process = process
        self._answerers = answerers
        self._answers: deque[tuple[str, bytes]] = deque(maxlen=ANSWERS_MAX)
        self._has_answers = asyncio.Event()
        self._tasks = Tasks("registry")

    def start(self) -> None:
        """Start to send."""
        self._tasks.repeat(self._send_answers)

    async def close(self) -> None:
        """Stop; waiting answers are dropped."""
        await self._tasks.close()

    def answer(self, question: GatewayQuestion) -> None:
        """Answer a question, unless this process does not know its subject."""
        if (answerer := self._answerers.get(question.subject)) is not None:
            answer = GatewayAnswer(question.request, self._process, answerer(question.asked))
            self.send_soon(question.reply_to, answer)

    def send_soon(self, reply_to: str, message: HandoverMessage) -> None:
        """Queue a message to the process that asked."""
        self._answers.append((reply_to, encode(message)))
        self._has_answers.set()

    async def _send_answers(self) -> None:
        """Send all waiting answers; a lost answer is not sent again."""
        await self._has_answers.wait()
        while self._answers:
            some = [
                self._answers.popleft() for _ in range(min(len(self._answers), ANSWERS_AT_ONCE))
            ]
            with suppress(RegistryUnavailable):
                await self._link.publish(some)
        self._has_answers.clear()


@asynccontextmanager
async def run_answerer(
    link: RedisLink, process: str, name: str, answerers: Mapping[str, Answerer]
) -> AsyncIterator[None]:
    """Answer questions to all processes that listen under a name, such as that of all workers."""
    answers = AnswerSender(link, process, answerers)

    def take(message: HandoverMessage) -> None:
        if isinstance(message, GatewayQuestion):
            answers.answer(message)

    subscription = Subscription(link, (link.name("gateway", name),), take)
    answers.start()
    subscription.start()
    try:
        yield
    finally:
        await subscription.close()
        await answers.close()

# SPDX-License-Identifier: Apache-2.0
"""The handover of entries through Redis channels: the sender and the receiver.

Messages may be lost. A gateway whose subscription broke, or that dropped a message, compares heads
by itself. But it cannot know that a sender did not reach Redis, or could not look up connections
there. Therefore the sender asks all gateways to compare heads as soon as Redis answers again.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Final

from tidings.cluster.answering import Answerer, AnswerSender
from tidings.cluster.channels import (
    QUIET_SECONDS,
    Compare,
    Entries,
    GatewayAnswer,
    GatewayQuestion,
    HandedOver,
    HandoverMessage,
    Hint,
    Notice,
    Subscription,
    encode,
)
from tidings.cluster.redis_link import RedisLink
from tidings.metrics.counts import report_counts
from tidings.model.ids import ChatId, UserKey
from tidings.ports.bus import InboxEvent
from tidings.ports.delivery import (
    EncodedEntry,
    GatewayQuestions,
    Handover,
    HandoverTarget,
    RegistryUnavailable,
)
from tidings.ports.world import Chance
from tidings.tasks import Tasks

ANSWER_SECONDS_MAX: Final = 1.0
SILENT_SECONDS: Final = 10.0
"""Time for which a gateway that did not answer is not waited for if Redis counts no listener."""
COMPARE_AGAIN_SECONDS: Final = 1.0
COMPARE_SECONDS_MIN: Final = 5.0
"""Minimum time between two requests for a comparison. Each of them makes every gateway read the
chats of all its users. This load may be why the next answer of Redis takes too long."""
NOTICES_MAX: Final = 10_000
NOTICES_AT_ONCE: Final = 200
EVERY_GATEWAY: Final = "every"


class _AwaitedAnswer:
    """Collects the answers to one handover, until all gateways have answered."""

    __slots__ = ("answers", "done", "missing")

    def __init__(self, gateways: set[str]) -> None:
        self.missing = gateways
        self.answers: dict[str, frozenset[str]] = {}
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def answered(self, gateway: str, connections: frozenset[str]) -> None:
        if gateway in self.missing:
            self.answers[gateway] = connections
            self.gave_up(gateway)

    def gave_up(self, gateway: str) -> None:
        self.missing.discard(gateway)
        if not self.missing and not self.done.done():
            self.done.set_result(None)


class _Questioned:
    """Collects the answers to one question, until as many gateways have answered as heard it."""

    __slots__ = ("answers", "done", "heard_by")

    def __init__(self) -> None:
        self.answers: dict[str, bytes] = {}
        self.heard_by: int | None = None
        """Number of gateways that got the question; None while it is being sent."""
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def answered(self, gateway: str, answer: bytes) -> None:
        self.answers[gateway] = answer
        self.check()

    def check(self) -> None:
        """End the wait if all gateways have answered."""
        is_whole = self.heard_by is not None and len(self.answers) >= self.heard_by
        if is_whole and not self.done.done():
            self.done.set_result(None)


class RedisHandover:
    """Sends entries, notices, hints and questions to gateways."""

    def __init__(
        self, link: RedisLink, chance: Chance, *, answer_seconds_max: float = ANSWER_SECONDS_MAX
    ) -> None:
        self.dropped = 0
        """Number of notices dropped because the queue was full or Redis did not answer."""
        self.unanswered = 0
        """Number of handovers that a gateway did not answer in time."""
        report_counts(self, "handover")
        self._link = link
        self._answer_seconds_max = answer_seconds_max
        self._requests = 0
        self._waiting: dict[int, _AwaitedAnswer] = {}
        self._questioned: dict[int, _Questioned] = {}
        self._silent_until: dict[str, float] = {}
        """Gateways that did not answer, and until when they are not waited for without a sign that
        they listen."""
        self._reply_to = link.name("sender", chance.token(8).hex())
        self._subscription = Subscription(link, (self._reply_to,), self._take)
        self._notices: deque[tuple[str, bytes]] = deque()
        self._has_notices = asyncio.Event()
        self.owes_comparison = asyncio.Event()
        """Set when users could not be looked up or a gateway could not be reached."""
        self._tasks = Tasks("registry")

    def start(self) -> None:
        """Subscribe to answers and start to send."""
        self._subscription.start()
        self._tasks.repeat(self._send_notices)
        self._tasks.repeat(self._request_comparisons)

    async def ready(self) -> None:
        """Wait until answers can arrive."""
        await self._subscription.up()

    async def close(self) -> None:
        """Stop; waiting notices are dropped. A comparison that is owed is asked for, if Redis
        answers: nobody else knows of it."""
        await self._tasks.close()
        if self.owes_comparison.is_set():
            with suppress(RegistryUnavailable):
                await self._ask_to_compare()
        await self._subscription.close()

    async def entries(
        self, encoded_entries: Sequence[EncodedEntry], users: Mapping[str, Sequence[UserKey]]
    ) -> Mapping[str, frozenset[str]]:
        if not users or not encoded_entries:
            return {}
        self._requests += 1
        request, waiting = self._requests, _AwaitedAnswer(set(users))
        self._waiting[request] = waiting
        try:
            async with asyncio.timeout(self._answer_seconds_max):
                await self._send_entries(request, tuple(encoded_entries), users, waiting)
                await waiting.done
        except TimeoutError:
            self.unanswered += len(waiting.missing)
            self._note_silent(waiting.missing)
        except RegistryUnavailable:
            self.owe_comparison()
        except Exception:
            self.owe_comparison()  # whatever failed, the entries may not have arrived
            raise
        finally:
            del self._waiting[request]
        return waiting.answers

    async def _send_entries(
        self,
        request: int,
        encoded_entries: tuple[EncodedEntry, ...],
        users: Mapping[str, Sequence[UserKey]],
        waiting: _AwaitedAnswer,
    ) -> None:
        messages = [
            (
                self._channel(gateway),
                encode(Entries(request, self._reply_to, encoded_entries, tuple(recipients))),
            )
            for gateway, recipients in users.items()
        ]
        listeners = await self._link.publish(messages)
        for gateway, count in zip(users, listeners, strict=True):
            if count == 0 and not self._may_listen(gateway):
                waiting.gave_up(gateway)  # no answer will come

    def _may_listen(self, gateway: str) -> bool:
        """Whether an answer may come although Redis counts no listener."""
        is_silent = self._silent_until.get(gateway, 0.0) > asyncio.get_running_loop().time()
        return not self._link.counts_all_listeners and not is_silent

    def _note_silent(self, gateways: set[str]) -> None:
        now = asyncio.get_running_loop().time()
        silent = {gateway: until for gateway, until in self._silent_until.items() if until > now}
        self._silent_until = silent | dict.fromkeys(gateways, now + SILENT_SECONDS)

    def owe_comparison(self) -> None:
        self.owes_comparison.set()

    def notice(
        self, frame: bytes, users: Mapping[str, Sequence[UserKey]], chat: ChatId | None = None
    ) -> None:
        for gateway, recipients in users.items():
            self._send_soon(gateway, Notice(frame, tuple(recipients), chat))

    def hint(self, event: InboxEvent, gateway: str | None, *, but_not: str) -> None:
        self._send_soon(gateway or EVERY_GATEWAY, Hint(event, but_not))

    async def ask(
        self, subject: str, asked: bytes, gateways: Collection[str] | None = None
    ) -> Mapping[str, bytes]:
        self._requests += 1
        request, waiting = self._requests, _Questioned()
        self._questioned[request] = waiting
        message = encode(GatewayQuestion(request, self._reply_to, subject, asked))
        targets = [EVERY_GATEWAY] if gateways is None else gateways
        try:
            async with asyncio.timeout(self._answer_seconds_max):
                messages = [(self._channel(gateway), message) for gateway in targets]
                waiting.heard_by = sum(await self._link.publish(messages))
                waiting.check()
                await waiting.done
        except (TimeoutError, RegistryUnavailable):
            pass  # the caller sees which gateways have not answered
        finally:
            del self._questioned[request]
        return waiting.answers

    def _send_soon(self, gateway: str, message: HandoverMessage) -> None:
        if len(self._notices) >= NOTICES_MAX:
            self.dropped += 1
            return
        self._notices.append((self._channel(gateway), encode(message)))
        self._has_notices.set()

    async def _send_notices(self) -> None:
        await self._has_notices.wait()
        while self._notices:
            some = [
                self._notices.popleft() for _ in range(min(len(self._notices), NOTICES_AT_ONCE))
            ]
            try:
                await self._link.publish(some)
            except RegistryUnavailable:
                self.dropped += len(some)
        self._has_notices.clear()

    def _channel(self, gateway: str) -> str:
        return self._link.name("gateway", gateway)

    def _take(self, message: HandoverMessage) -> None:
        if isinstance(message, HandedOver):
            self._silent_until.pop(message.gateway, None)
        if isinstance(message, HandedOver) and (waiting := self._waiting.get(message.request)):
            waiting.answered(message.gateway, message.connections)
        elif isinstance(message, GatewayAnswer) and (
            asked := self._questioned.get(message.request)
        ):
            asked.answered(message.gateway, message.answer)

    async def _request_comparisons(self) -> None:
        """Ask all gateways to compare heads when Redis answers again after a failure."""
        owes = self.owes_comparison
        await owes.wait()
        owes.clear()
        try:
            await self._ask_to_compare()
        except RegistryUnavailable:
            owes.set()
            await asyncio.sleep(COMPARE_AGAIN_SECONDS)
        except Exception:
            owes.set()  # the comparison is still needed, whatever failed
            raise
        await asyncio.sleep(COMPARE_SECONDS_MIN)

    async def _ask_to_compare(self) -> None:
        await self._link.publish([(self._channel(EVERY_GATEWAY), encode(Compare()))])


_conforms: tuple[type[Handover], type[GatewayQuestions]] = (RedisHandover, RedisHandover)


class RedisHandoverReceiver:
    """Passes handover messages from Redis to one gateway, and sends the answers of the gateway."""

    def __init__(
        self,
        link: RedisLink,
        gateway: str,
        target: HandoverTarget,
        answerers: Mapping[str, Answerer] | None = None,
        *,
        quiet_seconds: float = QUIET_SECONDS,
    ) -> None:
        """Set up the receiver; `answerers` are the subjects about which the gateway can be
        asked."""
        self._gateway = gateway
        self._target = target
        self._answers = AnswerSender(link, gateway, answerers or {})
        channels = link.name("gateway", gateway), link.name("gateway", EVERY_GATEWAY)
        # Messages sent while there was no subscription are lost: compare heads after each start.
        self._subscription = Subscription(
            link, channels, self._take, target.request_reconcile, quiet_seconds=quiet_seconds
        )

    def start(self) -> None:
        """Subscribe and start to answer."""
        self._subscription.start()
        self._answers.start()

    async def ready(self) -> None:
        """Wait until messages can arrive."""
        await self._subscription.up()

    async def close(self) -> None:
        """Unsubscribe and stop."""
        await self._subscription.close()
        await self._answers.close()

    def _take(self, message: HandoverMessage) -> None:
        match message:
            case Entries(request, reply_to, encoded_entries, users):
                self._target.entries(encoded_entries, users, self._answer(request, reply_to))
            case Notice(frame, users, chat):
                self._target.notice(frame, users, chat)
            case Hint(event, but_not):
                if but_not != self._gateway:
                    self._target.hint(event)
            case Compare():
                self._target.request_reconcile()
            case GatewayQuestion():
                self._answers.answer(message)
            case HandedOver() | GatewayAnswer():
                pass

    def _answer(self, request: int, reply_to: str) -> Callable[[list[str]], None]:
        def answer(connections: list[str]) -> None:
            held = HandedOver(request, self._gateway, frozenset(connections))
            self._answers.send_soon(reply_to, held)

        return answer

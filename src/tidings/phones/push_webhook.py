# SPDX-License-Identifier: Apache-2.0
"""Push by webhook: notices are posted to a URL of the operator, who notifies the devices.

The body is signed JSON, and all its notices concern one tenant. A batch may arrive twice; the
delivery id is then the same. Each notice names its message.
"""

import asyncio
import logging
from collections import Counter, OrderedDict, deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from time import monotonic
from typing import Final, Generic, TypeVar

import aiohttp
import msgspec

from tidings.diagnosis import report_queue
from tidings.metrics import declared
from tidings.metrics.meters import Reading, report
from tidings.model.ids import message_id, tenant_of, user_id
from tidings.ports.delivery import MessageNotice, Push
from tidings.ports.world import Clock
from tidings.wire.events import DELIVERY_HEADER, delivery_id, signed_headers

T = TypeVar("T")

log = logging.getLogger("tidings.push")

BATCHES_MAX: Final = 1_000
"""Maximum number of batches that wait for the webhook. Beyond it, the tenant with the most waiting
batches loses one."""
TENANT_BATCHES_MAX: Final = 250
"""Maximum number of waiting batches per tenant. Beyond it, the tenant's new batches are dropped."""
POSTS_AT_ONCE: Final = 8
TENANT_POSTS_AT_ONCE: Final = 4
POST_SECONDS_MAX: Final = 5.0
ATTEMPTS_MAX: Final = 3
CLOSE_SECONDS_MAX: Final = 2.0
LOG_SECONDS_MIN: Final = 10.0
_OUTCOMES: Final = {2: "accepted", 4: "refused"}
"""Outcome of a request by the first digit of its status; failed for all others."""

_encode = msgspec.json.Encoder().encode


class TenantQueues(Generic[T]):
    """Queues of waiting items, one per tenant. The tenants take turns.

    As long as the workers can serve all busy tenants, a tenant's items are delayed or dropped only
    because of its own items, not because of other tenants.
    """

    def __init__(self, *, tenant_max: int, total_max: int, at_once_max: int) -> None:
        """Create empty queues.

        `tenant_max` and `total_max` limit the waiting items per tenant and in total; `at_once_max`
        limits the items of a tenant that are in progress.
        """
        self._tenant_max = tenant_max
        self._total_max = total_max
        self._at_once_max = at_once_max
        self._queues: OrderedDict[str, deque[T]] = OrderedDict()
        """The queues of tenants with waiting items; the tenant whose turn is next is first."""
        self._waiting = 0
        self._running: Counter[str] = Counter()
        self._changed = asyncio.Condition()
        report_queue("push", self)

    def depths(self) -> Mapping[str, int]:
        """Return the number of waiting items, of items in progress, and of waiting tenants."""
        running = self._running.total()
        return {"waiting": self._waiting, "running": running, "tenants": len(self._queues)}

    async def put(self, tenant: str, item: T) -> str | None:
        """Queue an item; return the tenant whose item was dropped, or None if none was dropped.

        If the tenant's queue is full, the new item is dropped. If the total is too high, the newest
        item in the longest queue is dropped, which may be the new item.
        """
        queue = self._queues.get(tenant, deque())
        if len(queue) >= self._tenant_max:
            return tenant
        dropped = None
        if self._waiting >= self._total_max:
            dropped = max(self._queues, key=lambda name: len(self._queues[name]))
            if len(self._queues[dropped]) <= len(queue) + 1:
                return tenant
            self._take(dropped, newest=True)
        queue.append(item)
        self._queues.setdefault(tenant, queue)
        self._waiting += 1
        async with self._changed:
            self._changed.notify_all()
        return dropped

    async def get(self) -> tuple[str, T]:
        """Return the next item of the tenant whose turn it is.

        The caller must call `done` when the item is finished.
        """
        async with self._changed:
            await self._changed.wait_for(lambda: self._turn() is not None)
            tenant = self._turn()
            assert tenant is not None, "the condition says so"
            item = self._take(tenant, newest=False)
            if tenant in self._queues:
                self._queues.move_to_end(tenant)
            self._running[tenant] += 1
            return tenant, item

    async def done(self, tenant: str) -> None:
        """Record that an item of the tenant is finished."""
        self._running[tenant] -= 1
        if not self._running[tenant]:
            del self._running[tenant]
        async with self._changed:
            self._changed.notify_all()

    async def join(self) -> None:
        """Wait until no item is waiting or in progress."""
        async with self._changed:
            await self._changed.wait_for(lambda: not self._queues and not self._running)

    def _turn(self) -> str | None:
        """Return the tenant whose turn it is, or None if no item may start now.

        The loop skips tenants with too many items in progress. These are few, because each of them
        occupies several workers.
        """
        for tenant in self._queues:
            if self._running[tenant] < self._at_once_max:
                return tenant
        return None

    def _take(self, tenant: str, *, newest: bool) -> T:
        queue = self._queues[tenant]
        item = queue.pop() if newest else queue.popleft()
        self._waiting -= 1
        if not queue:
            del self._queues[tenant]
        return item


class PushRecord(msgspec.Struct):
    """A push notice, as it is sent to the webhook."""

    tenant: str
    chat: str
    sequence: int
    message_id: str
    sender: str
    users: list[str]


class PushBody(msgspec.Struct):
    """Body of a request to the webhook."""

    notices: list[PushRecord]


class WebhookPush:
    """Push service that posts batches of notices to a webhook, several at the same time.

    Each batch is tried at most `ATTEMPTS_MAX` times.
    """

    def __init__(
        self,
        *,
        url: str,
        secrets: Sequence[bytes],
        clock: Clock,
        back_off: Callable[[int], Awaitable[None]],
        seconds_max: float = POST_SECONDS_MAX,
    ) -> None:
        """Create the service; each request is signed with every secret, the newest first.

        `back_off(n)` waits a few seconds at most before the n-th retry.
        """
        self._url = url
        self._secrets = secrets
        self._seconds_max = seconds_max
        self._clock = clock
        self._back_off = back_off
        self._waiting: TenantQueues[bytes] = TenantQueues(
            tenant_max=TENANT_BATCHES_MAX,
            total_max=BATCHES_MAX,
            at_once_max=TENANT_POSTS_AT_ONCE,
        )
        self._http: aiohttp.ClientSession | None = None
        self._posting: list[asyncio.Task[None]] = []
        self._logged_at = -LOG_SECONDS_MIN
        self.posted = 0
        self.failed = 0
        self.dropped = 0
        report(self, _readings)

    def start(self) -> None:
        """Start the tasks that post batches."""
        self._http = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=self._seconds_max),
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        loop = asyncio.get_running_loop()
        self._posting = [loop.create_task(self._post_all(self._http)) for _ in range(POSTS_AT_ONCE)]

    async def send(self, notices: Sequence[MessageNotice]) -> None:
        """Queue one batch per tenant, without waiting for the webhook."""
        by_tenant = sorted((_record(notice) for notice in notices), key=_tenant)
        for tenant, records in groupby(by_tenant, key=_tenant):
            loser = await self._waiting.put(tenant, _encode(PushBody(list(records))))
            if loser is not None:
                self.dropped += 1
                self._warn("the webhook does not keep up", loser)

    async def close(self) -> None:
        """Wait up to `CLOSE_SECONDS_MAX` for the waiting batches to be posted, then stop."""
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS_MAX):
                await self._waiting.join()
        for task in self._posting:
            task.cancel()
        if self._posting:
            await asyncio.wait(self._posting)
        if self._http is not None:
            await self._http.close()

    async def _post_all(self, http: aiohttp.ClientSession) -> None:
        while True:
            tenant, body = await self._waiting.get()
            try:
                await self._post(http, tenant, body)
            finally:
                await self._waiting.done(tenant)

    async def _post(self, http: aiohttp.ClientSession, tenant: str, body: bytes) -> None:
        reason = ""
        for attempt in range(1, ATTEMPTS_MAX + 1):
            status, reason = await self._attempt(http, body)
            if 200 <= status < 300:
                self.posted += 1
                return
            if 400 <= status < 500 and status != 429:
                break  # a repeated request would be refused again
            if attempt < ATTEMPTS_MAX:
                await self._back_off(attempt)
        self.failed += 1
        self._warn(f"the webhook did not accept notices: {reason}", tenant)

    async def _attempt(self, http: aiohttp.ClientSession, body: bytes) -> tuple[int, str]:
        """Post the body once; return the status (0 without an answer) and a text for the log."""
        headers = signed_headers(self._secrets, self._clock.now(), body)
        headers[DELIVERY_HEADER] = delivery_id(body)
        began, outcome = monotonic(), "unanswered"
        try:
            async with http.post(
                self._url, data=body, headers=headers, allow_redirects=False
            ) as response:
                outcome = _OUTCOMES.get(response.status // 100, "failed")
                return response.status, f"status {response.status}"
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            return 0, type(error).__name__
        finally:
            declared.webhook_seconds.of[outcome].observe(monotonic() - began)

    def _warn(self, message: str, tenant: str) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._logged_at >= LOG_SECONDS_MIN:
            self._logged_at = now
            extra = {
                "action": "push_trouble",
                "tenant": tenant,
                "failed": self.failed,
                "dropped": self.dropped,
            }
            log.warning(message, extra=extra)


def _readings(push: WebhookPush) -> list[Reading]:
    outcomes = {"sent": push.posted, "failed": push.failed, "dropped": push.dropped}
    return [(declared.push, outcome, count) for outcome, count in outcomes.items()]


def _tenant(record: PushRecord) -> str:
    return record.tenant


def _record(notice: MessageNotice) -> PushRecord:
    return PushRecord(
        tenant=tenant_of(notice.sender),
        chat=notice.chat_id,
        sequence=notice.sequence,
        message_id=message_id(notice.chat_id, notice.sequence),
        sender=user_id(notice.sender),
        users=[user_id(user) for user in notice.users],
    )


_conforms: type[Push] = WebhookPush

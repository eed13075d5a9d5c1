# SPDX-License-Identifier: Apache-2.0
"""Push by webhook: notices are posted to a URL of the operator, who notifies the devices.

The body is signed JSON, and all its notices concern one tenant. A batch may arrive twice; the
delivery id is then the same. Each notice names its message.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from itertools import groupby
from time import monotonic
from typing import Final, Literal

import aiohttp
import msgspec

from tidings.metrics import declared
from tidings.metrics.meters import Reading, report
from tidings.model.ids import message_id, tenant_of, user_id
from tidings.ports.delivery import MessageNotice, NoticesEnded, Push
from tidings.ports.world import Clock
from tidings.tenant_queues import TenantQueues
from tidings.wire.events import DELIVERY_HEADER, delivery_id, signed_headers

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


class OperatorNotice(msgspec.Struct):
    """A push notice, as it is sent to the webhook."""

    tenant: str
    chat: str
    sequence: int
    message_id: str
    sender: str
    users: list[str]


class PushBody(msgspec.Struct):
    """Body of a request to the webhook."""

    notices: list[OperatorNotice]


class _Batch(msgspec.Struct, frozen=True):
    """Notices that are posted together."""

    body: bytes
    notices: tuple[MessageNotice, ...]


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
        ended: NoticesEnded,
        seconds_max: float = POST_SECONDS_MAX,
    ) -> None:
        """Create the service; each request is signed with every secret, the newest first.

        `back_off(n)` waits a few seconds at most before the n-th retry. `ended` is called with what
        became of each batch.
        """
        self._ended = ended
        self._url = url
        self._secrets = secrets
        self._seconds_max = seconds_max
        self._clock = clock
        self._back_off = back_off
        self._waiting: TenantQueues[_Batch] = TenantQueues(
            "push",
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
        for tenant, some in groupby(sorted(notices, key=_tenant), key=_tenant):
            own = tuple(some)
            body = _encode(PushBody([_record(notice) for notice in own]))
            dropped = await self._waiting.put(tenant, _Batch(body, own))
            if dropped is not None:
                self.dropped += 1
                self._ended(dropped.item.notices, "dropped", "")
                self._warn("the webhook does not keep up", dropped.tenant)

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
            tenant, batch = await self._waiting.get()
            try:
                await self._post(http, tenant, batch)
            finally:
                await self._waiting.done(tenant)

    async def _post(self, http: aiohttp.ClientSession, tenant: str, batch: _Batch) -> None:
        reason, result = "", _result(0)
        for attempt in range(1, ATTEMPTS_MAX + 1):
            status, reason = await self._attempt(http, batch.body)
            result = _result(status)
            if result == "sent":
                self.posted += 1
                self._ended(batch.notices, result, "")
                return
            if result == "refused":
                break  # a repeated request would be refused again
            if attempt < ATTEMPTS_MAX:
                await self._back_off(attempt)
        self.failed += 1
        self._ended(batch.notices, result, reason)
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


def _tenant(notice: MessageNotice) -> str:
    return tenant_of(notice.sender)


def _result(status: int) -> Literal["sent", "refused", "not_sent", "unknown"]:
    """Return what a status of the webhook says about the notices; 0 means no answer."""
    if 200 <= status < 300:
        return "sent"
    if 400 <= status < 500 and status != 429:
        return "refused"
    return "not_sent" if status else "unknown"


def _record(notice: MessageNotice) -> OperatorNotice:
    return OperatorNotice(
        tenant=_tenant(notice),
        chat=notice.chat_id,
        sequence=notice.sequence,
        message_id=message_id(notice.chat_id, notice.sequence),
        sender=user_id(notice.sender),
        users=[user_id(user) for user in notice.users],
    )


_conforms: type[Push] = WebhookPush

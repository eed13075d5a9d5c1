# SPDX-License-Identifier: Apache-2.0
"""Push by webhook: notices are posted to a URL of the operator, who reaches the devices.

The body is signed JSON about one tenant. A batch may arrive twice, then with the same delivery id;
each notice names its message.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from itertools import groupby
from typing import Final

import aiohttp
import msgspec

from tidings.model.ids import message_id, tenant_of, user_id
from tidings.ports.delivery import Push, PushNotice
from tidings.ports.world import Clock
from tidings.push.tenant_queues import TenantQueues
from tidings.wire.signatures import DELIVERY_HEADER, delivery_id, signed_headers

log = logging.getLogger("tidings.push")

BATCHES_MAX: Final = 1_000
"""Batches that wait for the webhook; beyond it, the tenant with the most batches loses one."""
TENANT_BATCHES_MAX: Final = 250
"""Batches of one tenant that wait; beyond it, the tenant's new batches are dropped."""
POSTS_AT_ONCE: Final = 8
TENANT_POSTS_AT_ONCE: Final = 4
POST_SECONDS_MAX: Final = 5.0
ATTEMPTS_MAX: Final = 3
CLOSE_SECONDS_MAX: Final = 2.0
LOG_SECONDS_MIN: Final = 10.0

_encode = msgspec.json.Encoder().encode


class PushRecord(msgspec.Struct):
    """Push notice as the webhook gets it."""

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
    """Push that posts batches of notices, several at once, each at most `ATTEMPTS_MAX` times."""

    def __init__(
        self,
        *,
        url: str,
        secrets: Sequence[bytes],
        clock: Clock,
        back_off: Callable[[int], Awaitable[None]],
        seconds_max: float = POST_SECONDS_MAX,
    ) -> None:
        """Sign with each of the secrets, the newest first.

        `back_off` waits before the n-th new attempt, at most some seconds.
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

    def start(self) -> None:
        """Start to post."""
        self._http = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=self._seconds_max),
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        loop = asyncio.get_running_loop()
        self._posting = [loop.create_task(self._post_all(self._http)) for _ in range(POSTS_AT_ONCE)]

    async def send(self, notices: Sequence[PushNotice]) -> None:
        """Queue a batch for each tenant. Delivery never waits for a webhook."""
        by_tenant = sorted((_record(notice) for notice in notices), key=_tenant)
        for tenant, records in groupby(by_tenant, key=_tenant):
            loser = await self._waiting.put(tenant, _encode(PushBody(list(records))))
            if loser is not None:
                self.dropped += 1
                self._warn("the webhook does not keep up", loser)

    async def close(self) -> None:
        """Post the waiting batches within `CLOSE_SECONDS_MAX`, and stop."""
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
        """Return the status of the answer, 0 if there was none, and a text for the log."""
        headers = signed_headers(self._secrets, self._clock.now(), body)
        headers[DELIVERY_HEADER] = delivery_id(body)
        try:
            async with http.post(
                self._url, data=body, headers=headers, allow_redirects=False
            ) as response:
                return response.status, f"status {response.status}"
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            return 0, type(error).__name__

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


def _tenant(record: PushRecord) -> str:
    return record.tenant


def _record(notice: PushNotice) -> PushRecord:
    return PushRecord(
        tenant=tenant_of(notice.sender),
        chat=notice.chat_id,
        sequence=notice.sequence,
        message_id=message_id(notice.chat_id, notice.sequence),
        sender=user_id(notice.sender),
        users=[user_id(user) for user in notice.users],
    )


_conforms: type[Push] = WebhookPush

# SPDX-License-Identifier: Apache-2.0
"""Posts signed requests to addresses of tenants, as the Standard Webhooks specification says.

The header `webhook-signature` has the HMAC-SHA256 of id, time and body, in base64, once for each
secret. While a secret is being replaced, the receiver accepts a request if either is right.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

import aiohttp

from tidings.model import limits
from tidings.model.addresses import Networks
from tidings.outgoing.guard import AddressRefused, guarded_socket
from tidings.ports.outgoing import EventPosts, PostFailed, PostRefused, SignedPosts
from tidings.ports.world import Chance, Clock, new_ulid
from tidings.wire.events import webhook_headers

ANSWER_BYTES_MAX: Final = 16 * 1024
MS_PER_SECOND: Final = 1_000
RETRY_AFTER_DIGITS_MAX: Final = 9


class HttpSignedPosts:
    """Posts over HTTP. Without TLS, it posts only to networks that the operator allows."""

    def __init__(self, allowed: Networks, clock: Clock, chance: Chance) -> None:
        self._allowed = allowed
        self._clock = clock
        self._chance = chance
        self._sessions: dict[bool, aiohttp.ClientSession] = {}

    async def send(
        self, url: str, post_id: str, body: bytes, secrets: Sequence[bytes], timeout_ms: int
    ) -> int:
        async with self._request(url, post_id, body, secrets, timeout_ms) as response:
            return response.status

    @asynccontextmanager
    async def _request(
        self, url: str, post_id: str, body: bytes, secrets: Sequence[bytes], timeout_ms: int
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Post a signed request, and yield the answer; raise `PostFailed` if there is none."""
        headers = webhook_headers(secrets, post_id, self._clock.now() // limits.SECOND_MS, body)
        try:
            async with self._session(is_secure=url.lower().startswith("https:")).post(
                url,
                data=body,
                headers=headers,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=timeout_ms / MS_PER_SECOND),
            ) as response:
                yield response
        except TimeoutError:
            raise PostFailed("no answer in time") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise _failure(error) from None

    async def post(self, url: str, body: bytes, secrets: Sequence[bytes], timeout_ms: int) -> bytes:
        post_id = f"msg_{new_ulid(self._clock, self._chance)}"
        async with self._request(url, post_id, body, secrets, timeout_ms) as response:
            answer = await response.content.read(ANSWER_BYTES_MAX + 1)
            while len(answer) <= ANSWER_BYTES_MAX and not response.content.at_eof():
                answer += await response.content.read(ANSWER_BYTES_MAX + 1)
        if not 200 <= response.status < 300:
            wait_ms = _retry_after_ms(response.headers.get("Retry-After", ""))
            reason = f"status {response.status}"
            raise PostFailed(reason, response.status, retry_after_ms=wait_ms)
        if len(answer) > ANSWER_BYTES_MAX:
            raise PostFailed("the answer is too long")
        return answer

    async def close(self) -> None:
        """Close the connections."""
        for session in self._sessions.values():
            await session.close()

    def _session(self, *, is_secure: bool) -> aiohttp.ClientSession:
        """Return the session for addresses with or without TLS; the first call opens it."""
        if is_secure not in self._sessions:
            connector = aiohttp.TCPConnector(
                limit=0,  # the caller limits the requests of each tenant
                # Requests at the same time share a lookup, which occupies a thread of the process
                # until it ends, however soon a request gives up. Later requests look it up again.
                use_dns_cache=True,
                ttl_dns_cache=0,
                socket_factory=guarded_socket(self._allowed, is_secure=is_secure),
            )
            self._sessions[is_secure] = aiohttp.ClientSession(
                connector=connector, cookie_jar=aiohttp.DummyCookieJar()
            )
        return self._sessions[is_secure]


def _failure(error: Exception) -> PostFailed:
    if not isinstance(error, aiohttp.ClientConnectorError):
        return PostFailed(type(error).__name__)
    if isinstance(error.os_error, AddressRefused):
        return PostRefused(type(error.os_error).__name__)
    return PostFailed(type(error).__name__, is_unsent=True)


def _retry_after_ms(seconds: str) -> int | None:
    """Return the milliseconds of the header `Retry-After`, if it is a number of seconds."""
    is_number = seconds.isascii() and seconds.isdecimal() and len(seconds) <= RETRY_AFTER_DIGITS_MAX
    return int(seconds) * limits.SECOND_MS if is_number else None


_conforms: tuple[type[SignedPosts], type[EventPosts]] = (HttpSignedPosts, HttpSignedPosts)

# SPDX-License-Identifier: Apache-2.0
"""Posts requests to push services over HTTP, to public addresses only."""

import errno
import ssl
from typing import Final

import aiohttp

from tidings.model.addresses import Networks
from tidings.outgoing.guard import guarded_socket
from tidings.outgoing.push.answers import (
    REQUEST_SECONDS_MAX,
    NoAnswer,
    ServiceAnswer,
    ServicePosts,
)
from tidings.ports.push import PushOutcome

ANSWER_BYTES_MAX: Final = 4 * 1024


class GuardedPosts:
    """Posts over HTTPS; without TLS only to networks that the operator allows."""

    def __init__(
        self,
        allowed: Networks,
        *,
        tls: ssl.SSLContext | None = None,
        seconds_max: float = REQUEST_SECONDS_MAX,
    ) -> None:
        """Open the sessions; without `tls`, the certificates of the machine are trusted."""
        self._sessions = {
            is_secure: aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=0,  # the caller limits the requests of each tenant
                    use_dns_cache=True,
                    ttl_dns_cache=0,
                    ssl=True if tls is None else tls,
                    socket_factory=guarded_socket(allowed, is_secure=is_secure),
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=seconds_max, sock_connect=seconds_max / 2),
                # Answers are short, and a compressed one could be very long in truth.
                headers={"Accept-Encoding": "identity"},
                auto_decompress=False,
            )
            for is_secure in (True, False)
        }

    async def post(self, url: str, headers: dict[str, str], body: bytes) -> ServiceAnswer:
        session = self._sessions[url.lower().startswith("https:")]
        try:
            async with session.post(
                url, data=body, headers=headers, allow_redirects=False
            ) as response:
                start = await _start_of(response.content)
                return ServiceAnswer(response.status, start, response.headers.get("Retry-After"))
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise NoAnswer(_outcome_of(error)) from None

    async def close(self) -> None:
        """Close the connections."""
        for session in self._sessions.values():
            await session.close()


async def _start_of(content: aiohttp.StreamReader) -> bytes:
    """Return the beginning of an answer, which may come in several pieces."""
    start = b""
    while len(start) < ANSWER_BYTES_MAX and not content.at_eof():
        start += await content.read(ANSWER_BYTES_MAX - len(start))
    return start


def _outcome_of(error: Exception) -> PushOutcome:
    """Return what an error says: whether the request can have reached the service."""
    match error:
        case aiohttp.ClientConnectorError(errno=errno.EACCES):
            return PushOutcome("refused", "the address is not public")
        case aiohttp.InvalidURL() | aiohttp.ClientConnectorCertificateError():
            return PushOutcome("refused", type(error).__name__)
        case aiohttp.ClientConnectorError() | aiohttp.ConnectionTimeoutError():
            return PushOutcome("not_sent", "no connection")
        case TimeoutError():
            return PushOutcome("unknown", "no answer in time")
        case _:
            return PushOutcome("unknown", type(error).__name__)


_conforms: type[ServicePosts] = GuardedPosts

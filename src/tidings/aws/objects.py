# SPDX-License-Identifier: Apache-2.0
"""Small client for the objects of a bucket, on S3 or a compatible service.

Every request may be repeated: objects never change, and deleting one twice is harmless. Requests
that fail for a reason that may pass are therefore sent again, after a pause. The service checks the
digest of each object that it stores.
"""

import asyncio
import hashlib
import html
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final, NamedTuple
from urllib.parse import quote

import aiohttp
from aiobotocore.session import get_session
from yarl import URL

from tidings.aws.signing import ObjectSigner, encoded_query
from tidings.aws.transport import (
    CONNECT_SECONDS_MAX,
    CredentialSource,
    Rejected,
    RequestError,
    Unanswered,
    Unsent,
    find_credentials,
    find_endpoint,
    open_http,
)
from tidings.ports.world import Chance, Clock

CONNECTIONS_MAX: Final = 32
REQUEST_SECONDS_MAX: Final = 60.0
ATTEMPTS_MAX: Final = 4
PAUSE_SECONDS_FIRST: Final = 0.1
KEYS_AT_ONCE: Final = 1_000
REGION_DEFAULT: Final = "us-east-1"
"""Region for services that have none."""

_ERROR_CODE: Final = re.compile(rb"<Code>([A-Za-z0-9.]{1,100})</Code>")
_KEY: Final = re.compile(r"<Key>([^<]*)</Key>")
_NEXT: Final = re.compile(r"<NextContinuationToken>([^<]*)</NextContinuationToken>")


class _Answer(NamedTuple):
    status: int
    body: bytes

    @property
    def code(self) -> str:
        """The error code of a failed request."""
        found = _ERROR_CODE.search(self.body)
        return found[1].decode() if found else f"status {self.status}"

    @property
    def is_passing(self) -> bool:
        """Whether the same request may succeed later."""
        if self.status == 400:
            return self.code == "RequestTimeout"
        return self.status >= 500 or self.status == 429


class ObjectBucket:
    """The objects of one bucket."""

    def __init__(
        self,
        http: aiohttp.ClientSession,
        endpoint: str,
        region: str,
        credentials: CredentialSource,
        clock: Clock,
        chance: Chance,
        name: str,
    ) -> None:
        self._http = http
        self._endpoint = endpoint.rstrip("/")
        self._signer = ObjectSigner(URL(endpoint).host_port_subcomponent or "", region)
        self._credentials = credentials
        self._clock = clock
        self._chance = chance
        self._name = name

    async def put(self, key: str, pieces: Sequence[bytes]) -> None:
        """Store an object that consists of these pieces. It is durable when this returns.

        Raises:
            RequestError: The object is not stored, or it is unknown whether it is.
        """
        sha256 = await asyncio.to_thread(_digest, pieces)
        answer = await self._send("PUT", key, sha256=sha256, pieces=pieces)
        _refuse(answer, (200,))

    async def get(self, key: str, start: int, size: int) -> bytes | None:
        """Return at most `size` bytes of an object, from `start` on; None if there is none.

        Raises:
            RequestError: The object cannot be read now.
        """
        wanted = {"range": f"bytes={start}-{start + size - 1}"}
        answer = await self._send("GET", key, headers=wanted)
        if answer.status == 404 and answer.code == "NoSuchKey":
            return None
        if answer.status == 416:
            return b""
        _refuse(answer, (200, 206))
        return answer.body if answer.status == 206 else answer.body[start : start + size]

    async def delete(self, key: str) -> None:
        """Delete an object, if it exists.

        Raises:
            RequestError: It is unknown whether the object is deleted.
        """
        answer = await self._send("DELETE", key)
        if answer.status != 404 or answer.code != "NoSuchKey":
            _refuse(answer, (200, 204))

    async def keys(self, prefix: str) -> AsyncIterator[str]:
        """Iterate over the keys that begin with a prefix, in order.

        Raises:
            RequestError: The objects cannot be listed now.
        """
        query = {"list-type": "2", "max-keys": str(KEYS_AT_ONCE), "prefix": prefix}
        while True:
            answer = await self._send("GET", "", query=query)
            _refuse(answer, (200,))
            text = answer.body.decode()
            for key in _KEY.findall(text):
                yield html.unescape(key)
            following = _NEXT.search(text)
            if following is None:
                return
            query["continuation-token"] = html.unescape(following[1])

    async def _send(
        self,
        method: str,
        key: str,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        sha256: str = hashlib.sha256().hexdigest(),
        pieces: Sequence[bytes] = (),
    ) -> _Answer:
        path = quote(f"/{self._name}/{key}" if key else f"/{self._name}", safe="/-_.~")
        more = {**(headers or {})}
        if method == "PUT":
            more |= {
                "content-length": str(sum(map(len, pieces))),
                "content-type": "application/octet-stream",
            }
        for attempt in range(1, ATTEMPTS_MAX + 1):
            is_last = attempt == ATTEMPTS_MAX
            try:
                answer = await self._send_once(method, path, query or {}, sha256, more, pieces)
            except RequestError:
                if is_last:
                    raise
            else:
                if is_last or not answer.is_passing:
                    return answer
            most = PAUSE_SECONDS_FIRST * 2**attempt
            await asyncio.sleep(most * self._chance.token(1)[0] / 255)
        raise AssertionError("the last attempt returns or raises")

    async def _send_once(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        sha256: str,
        more: Mapping[str, str],
        pieces: Sequence[bytes],
    ) -> _Answer:
        headers = self._signer.headers(
            await self._credentials.current(), self._clock.now(), method, path, query, sha256, more
        )
        url = self._endpoint + path + (f"?{encoded_query(query)}" if query else "")
        timeout = aiohttp.ClientTimeout(total=REQUEST_SECONDS_MAX, sock_connect=CONNECT_SECONDS_MAX)
        try:
            async with self._http.request(
                method,
                URL(url, encoded=True),
                data=_pieces(pieces) if method == "PUT" else None,
                headers=headers,
                timeout=timeout,
                allow_redirects=False,
            ) as response:
                body = await response.read()
                return _Answer(response.status, body)
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise Unsent(str(error)) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unanswered(f"{type(error).__name__}: {error}") from error


async def _pieces(pieces: Sequence[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


def _digest(pieces: Sequence[bytes]) -> str:
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()


def _refuse(answer: _Answer, accepted: tuple[int, ...]) -> None:
    if answer.status in accepted:
        return
    if answer.is_passing:
        raise Unanswered(answer.code)
    raise Rejected(answer.code, f"the bucket answered with status {answer.status}")


@asynccontextmanager
async def open_bucket(name: str, *, clock: Clock, chance: Chance) -> AsyncIterator[ObjectBucket]:
    """Open a bucket with the credentials, region and endpoint that the SDK finds.

    Raises:
        SetupError: The service is that of AWS, and the SDK finds no credentials.
    """
    region = get_session().get_config_variable("region") or REGION_DEFAULT
    endpoint = await find_endpoint("s3", region)
    is_of_aws = (URL(endpoint).host or "").endswith((".amazonaws.com", ".amazonaws.com.cn"))
    credentials = await find_credentials(is_needed=is_of_aws)
    async with open_http(endpoint, CONNECTIONS_MAX) as http:
        yield ObjectBucket(http, endpoint, region, credentials, clock, chance, name)

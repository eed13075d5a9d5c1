# SPDX-License-Identifier: Apache-2.0
"""Send requests to the REST API with a token, and repeat them if that is safe and may help."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from ssl import SSLContext, create_default_context
from typing import Any, Final, TypeVar
from urllib.parse import quote

import httpx
import msgspec

from tidings_client.backoff import retry_after_seconds
from tidings_client.errors import Refused, Unavailable
from tidings_client.tokens import Tokens
from tidings_client.world import World

T = TypeVar("T")

ATTEMPTS_MAX: Final = 3
REPEATABLE: Final = frozenset({"GET", "HEAD", "PUT", "DELETE"})
PAUSE_SECONDS_MAX: Final = 10.0
ANSWER_SECONDS_MAX: Final = 15.0


class _Problem(msgspec.Struct):
    code: str = "unknown"
    detail: str = ""


class Rest:
    """HTTP client for one server, with tokens or without."""

    def __init__(
        self,
        url: str,
        tokens: Tokens | None,
        world: World,
        ssl_context: SSLContext | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        answer_seconds: float = ANSWER_SECONDS_MAX,
    ) -> None:
        """Create the client; `transport` replaces the network in tests."""
        self._tokens = tokens
        self._world = world
        # The socket ignores proxies in the environment, and trusts the certificates of the system.
        # Requests to the same server do the same.
        if ssl_context is None and url.startswith("https:"):
            ssl_context = create_default_context()
        self._http = httpx.AsyncClient(
            base_url=url,
            timeout=answer_seconds,
            trust_env=False,
            verify=ssl_context or False,
            transport=transport,
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def ask(
        self,
        kind: type[T],
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        query: Mapping[str, str] | None = None,
        key: str | None = None,
        is_safe: bool | None = None,
        after: str | None = None,
    ) -> T:
        """Send a request as `request` does; return the decoded answer."""
        answer = await self.request(
            method, path, body, query=query, key=key, is_safe=is_safe, after=after
        )
        return msgspec.json.decode(_checked(answer).content, type=kind)

    async def request(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        query: Mapping[str, str] | None = None,
        key: str | None = None,
        is_safe: bool | None = None,
        after: str | None = None,
    ) -> httpx.Response:
        """Send a request, and repeat it after a failure if that is safe and may help.

        A repeat is safe for some methods and with an idempotency `key`, unless the caller says
        otherwise (`is_safe`). The answer includes the message with the id `after`. A repeated
        DELETE that finds nothing has succeeded: the answer to an earlier attempt may have been
        lost.

        Raises:
            Refused: The server declines.
            Unavailable: The server cannot be reached, is overloaded, or has failed.
        """
        wanted = {"Idempotency-Key": key, "Tidings-After": after}
        headers = {name: value for name, value in wanted.items() if value is not None}
        request = self._http.build_request(method, path, json=body, params=query, headers=headers)
        if is_safe is None:
            is_safe = method in REPEATABLE or key is not None
        attempts_max = ATTEMPTS_MAX if is_safe else 1
        answer, attempts = await self._repeated(request, attempts_max)
        is_gone = method == "DELETE" and answer.status_code == 404 and attempts > 1
        return answer if is_gone else _checked(answer)

    async def send_bytes(
        self, method: str, path: str, content: bytes, headers: Mapping[str, str]
    ) -> httpx.Response:
        """Send bytes, once; the caller knows whether it may repeat the request.

        Raises:
            Refused: The server declines.
            Unavailable: The server cannot be reached, is overloaded, or has failed.
        """
        request = self._http.build_request(method, path, content=content, headers=headers)
        try:
            answer = await self._once(request)
        except httpx.TransportError as error:
            raise Unavailable(f"{method} {path}: {error!r}") from error
        if _says_nothing_final(answer):
            await asyncio.sleep(_retry_after(answer) + self._world.jitter(0, 0.5))
            raise Unavailable(f"{method} {path}: {_problem(answer).detail}")
        return _checked(answer)

    async def stream(self, path: str, headers: Mapping[str, str]) -> AsyncIterator[bytes]:
        """Yield the bytes of an answer as they arrive.

        Raises:
            Refused: The server declines.
            Unavailable: The server cannot be reached, is overloaded, or has failed; or the
                connection was lost.
        """
        request = self._http.build_request("GET", path, headers=headers)
        answer, _ = await self._repeated(request, ATTEMPTS_MAX, stream=True)
        async with aclosing(answer):
            try:
                async for data in _checked(answer).aiter_bytes():
                    yield data
            except httpx.TransportError as error:
                raise Unavailable(f"GET {path}: {error!r}") from error

    async def _repeated(
        self, request: httpx.Request, attempts_max: int, *, stream: bool = False
    ) -> tuple[httpx.Response, int]:
        """Send a request until the answer is final; return it and the number of attempts.

        The body of a refusal is read.

        Raises:
            Unavailable: No attempt got a final answer.
        """
        name = f"{request.method} {request.url.path}"
        for attempt in range(1, attempts_max + 1):
            is_last = attempt == attempts_max
            try:
                answer = await self._once(request, stream=stream)
                if not answer.is_success:
                    await answer.aread()
            except httpx.TransportError as error:
                if is_last:
                    raise Unavailable(f"{name}: {error!r}") from error
                await asyncio.sleep(self._world.jitter(0, 0.5 * 2**attempt))
                continue
            if not _says_nothing_final(answer):
                return answer, attempt
            if is_last:
                raise Unavailable(f"{name}: {_problem(answer).detail}")
            await asyncio.sleep(_retry_after(answer) + self._world.jitter(0, 0.5))
        raise AssertionError("the last attempt ends the loop")

    async def _once(self, request: httpx.Request, *, stream: bool = False) -> httpx.Response:
        """Make one attempt; if the server refuses the token, replace it and try once more."""
        if self._tokens is None:
            return await self._http.send(request, stream=stream)
        token = await self._tokens.current()
        request.headers["Authorization"] = f"Bearer {token}"
        answer = await self._http.send(request, stream=stream)
        if answer.status_code == 401:
            await answer.aclose()
            request.headers["Authorization"] = f"Bearer {await self._tokens.replaced(token)}"
            answer = await self._http.send(request, stream=stream)
        return answer


def path_of(*parts: str) -> str:
    """Return a path below `/v1`; special characters in its parts are escaped."""
    return "/".join(["/v1", *(quote(part, safe="") for part in parts)])


def _says_nothing_final(answer: httpx.Response) -> bool:
    """Return whether a later attempt may end differently.

    A server that failed, or a proxy that lost it, does not know whether the request had an effect.
    """
    return answer.status_code == 429 or answer.status_code >= 500


def _checked(answer: httpx.Response) -> httpx.Response:
    if answer.is_success:
        return answer
    problem = _problem(answer)
    raise Refused(problem.code, problem.detail, answer.status_code)


def _problem(answer: httpx.Response) -> _Problem:
    try:
        return msgspec.json.decode(answer.content, type=_Problem)
    except msgspec.DecodeError:
        return _Problem(detail=f"HTTP {answer.status_code}")


def _retry_after(answer: httpx.Response) -> float:
    asked = answer.headers.get("Retry-After")
    return retry_after_seconds(asked, otherwise=1.0, most=PAUSE_SECONDS_MAX)

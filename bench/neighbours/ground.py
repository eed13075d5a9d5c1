# SPDX-License-Identifier: Apache-2.0
"""The setting of an attack: the attacker's own tenant on the attacked server."""

import asyncio
from collections import Counter
from collections.abc import Coroutine, Iterable
from typing import Any, Final

import msgspec

from bench.neighbours.http_client import Answer, HttpClient
from bench.server import Target
from tidings.tools.load_crowd import side_by_side

TENANT: Final = "attacker"
CONNECTIONS: Final = 16
WAIT_SECONDS_MAX: Final = 20.0
TOKEN_SECONDS: Final = 86_400
BLOCK_BYTES: Final = 2**20


class NotPrepared(Exception):
    """The server refuses something that the attack needs; the text gives the reason. This is a
    valid result, too."""


class Ground:
    """The attacker's tenant. It counts the outcomes of all requests of the attack."""

    def __init__(self, target: Target, size: float = 1.0) -> None:
        """Set up the tenant; `size` scales the attack, and 1.0 is the usual size."""
        self.target = target
        self.outcomes: Counter[str] = Counter()
        self._size = size

    def of(self, usual: int, least: int = 1) -> int:
        """Return this usual number multiplied by the size of the attack, but at least `least`."""
        return max(least, round(usual * self._size))

    async def start(self) -> None:
        """Create the tenant."""
        await self.call("PUT", f"/v1/tenants/{TENANT}", self.target.root_key, {})

    async def tokens(self, names: Iterable[str]) -> list[str]:
        """Return a token for each of these users; create those that do not exist."""
        return await self.all_of([self._token(name) for name in names])

    async def _token(self, name: str) -> str:
        body = {"user_id": name, "expires_in": TOKEN_SECONDS}
        made = await self.call("POST", f"/v1/tenants/{TENANT}/tokens", self.target.root_key, body)
        return str(made["token"])

    async def call(self, method: str, path: str, key: str, body: object = None) -> Any:
        """Send a request that prepares the attack; repeat it while the server refuses it as
        retryable.

        Raises:
            NotPrepared: The server refuses the request for good.
        """
        encoded = None if body is None else msgspec.json.encode(body)
        async with HttpClient(self.target.url) as client, asyncio.timeout(WAIT_SECONDS_MAX * 6):
            while True:
                answer = await client.request(method, path, key, encoded)
                if answer.status in (429, 503):
                    await asyncio.sleep(min(float(answer.headers.get("retry-after", "1")), 5.0))
                    continue
                if answer.status >= 300:
                    raise NotPrepared(f"{answer.status} {answer.body[:200].decode()}")
                return answer.json() if answer.body else None

    async def put_file(self, path: str, key: str, size: int) -> None:
        """Upload a file of zeros."""
        async with HttpClient(self.target.url) as client:
            _, writer = await client.open()
            head = client.head("PUT", path, key).removesuffix(b"\r\n")
            writer.write(head + f"Content-Length: {size}\r\n\r\n".encode())
            for first in range(0, size, BLOCK_BYTES):
                writer.write(bytes(min(BLOCK_BYTES, size - first)))
                await writer.drain()
            answer = await client.answer()
            if answer.status >= 300:
                raise NotPrepared(f"{answer.status} {answer.body[:200].decode()}")

    async def all_of(self, works: list[Coroutine[Any, Any, Any]]) -> list[Any]:
        """Run all coroutines, a few at a time, and return their results."""
        return await side_by_side(works, CONNECTIONS)

    async def strike(
        self, client: HttpClient, method: str, path: str, key: str | None, body: bytes | None = None
    ) -> Answer | None:
        """Send one request of the attack and count its outcome; return None if no answer came."""
        try:
            answer = await client.request(method, path, key, body)
        except (OSError, TimeoutError):
            self.outcomes["closed"] += 1
            return None
        self.outcomes[str(answer.status)] += 1
        return answer

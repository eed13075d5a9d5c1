# SPDX-License-Identifier: Apache-2.0
"""REST calls of the load: a few kept-alive connections, nothing to install."""

import asyncio
import http.client
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

CONNECTIONS: Final = 8
ANSWER_SECONDS_MAX: Final = 30.0


class LoadStopped(Exception):
    """The load cannot go on, and why; for whoever started it."""


class Rest:
    """One deployment's REST API."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise LoadStopped(f"{url} is not an address such as http://127.0.0.1:8080")
        self._address = parts
        self._threads = ThreadPoolExecutor(CONNECTIONS, thread_name_prefix="rest")
        self._of_thread = threading.local()
        self._open: list[http.client.HTTPConnection] = []

    async def call(self, method: str, path: str, key: str, body: object = None) -> dict[str, Any]:
        """The answer's body.

        Raises:
            LoadStopped: The server cannot be reached, or says no.
        """
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._call, method, path, key, body)

    def close(self) -> None:
        """Let the connections go."""
        self._threads.shutdown()
        for connection in self._open:
            connection.close()

    def _call(self, method: str, path: str, key: str, body: object) -> dict[str, Any]:
        content = None if body is None else msgspec.json.encode(body)
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        connection = self._connection()
        try:
            connection.request(method, self._address.path.rstrip("/") + path, content, headers)
            response = connection.getresponse()
            told = response.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise LoadStopped(f"{self._address.geturl()} does not answer: {error}") from error
        if response.status >= 300:
            said = told[:300].decode(errors="replace")
            raise LoadStopped(f"{method} {path} was declined with {response.status}: {said}")
        decoded: dict[str, Any] = msgspec.json.decode(told) if told else {}
        return decoded

    def _connection(self) -> http.client.HTTPConnection:
        """This thread's own; opened by the first request, and again if the server closed it."""
        held: http.client.HTTPConnection | None = getattr(self._of_thread, "held", None)
        if held is None:
            is_secure = self._address.scheme == "https"
            kind = http.client.HTTPSConnection if is_secure else http.client.HTTPConnection
            assert self._address.hostname is not None
            held = kind(self._address.hostname, self._address.port, timeout=ANSWER_SECONDS_MAX)
            self._of_thread.held = held
            self._open.append(held)
        return held

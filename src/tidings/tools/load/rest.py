# SPDX-License-Identifier: Apache-2.0
"""REST calls of the load over a few keep-alive connections, with the standard library only."""

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
    """The load cannot continue; the text tells the user of the command why."""


class Rest:
    """Client of one deployment's REST API."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise LoadStopped(f"{url} is not an address such as http://127.0.0.1:8080")
        self._address = parts
        self._threads = ThreadPoolExecutor(CONNECTIONS, thread_name_prefix="rest")
        self._of_thread = threading.local()
        self._open: list[http.client.HTTPConnection] = []

    async def call(self, method: str, path: str, key: str, body: object = None) -> dict[str, Any]:
        """Send a request and return the body of the answer.

        Raises:
            LoadStopped: The server cannot be reached, or refuses the request.
        """
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._call, method, path, key, body)

    def close(self) -> None:
        """Close all connections."""
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
            answer = response.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise LoadStopped(f"{self._address.geturl()} does not answer: {error}") from error
        if response.status >= 300:
            text = answer[:300].decode(errors="replace")
            raise LoadStopped(f"{method} {path} was refused with {response.status}: {text}")
        decoded: dict[str, Any] = msgspec.json.decode(answer) if answer else {}
        return decoded

    def _connection(self) -> http.client.HTTPConnection:
        """Return this thread's connection; `http.client` reopens one that the server closed."""
        connection: http.client.HTTPConnection | None
        connection = getattr(self._of_thread, "connection", None)
        if connection is None:
            is_secure = self._address.scheme == "https"
            kind = http.client.HTTPSConnection if is_secure else http.client.HTTPConnection
            assert self._address.hostname is not None
            host, port = self._address.hostname, self._address.port
            connection = kind(host, port, timeout=ANSWER_SECONDS_MAX)
            self._of_thread.connection = connection
            self._open.append(connection)
        return connection

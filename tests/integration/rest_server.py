# SPDX-License-Identifier: Apache-2.0
"""The REST application behind a real HTTP server, on a loop and a thread of its own."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import TypeVar

import uvicorn

from tests.integration.rest_world import Rest, open_rest
from tests.support.waiting import until

T = TypeVar("T")


@contextmanager
def serve_rest(folder: Path, prepare: Callable[[Rest], Awaitable[T]]) -> Iterator[tuple[str, T]]:
    """Serve while the context is open; yields the address and what `prepare` made first."""
    started: SimpleQueue[tuple[str, T] | BaseException] = SimpleQueue()
    servers: list[uvicorn.Server] = []

    async def serve() -> None:
        # Far more requests than anyone honest sends: it is not the limits that are tried here.
        async with open_rest(folder, settings={"limits": "off"}) as rest:
            made = await prepare(rest)
            config = uvicorn.Config(rest.app, port=0, lifespan="off", log_config=None)
            server = uvicorn.Server(config)
            servers.append(server)
            serving = asyncio.create_task(server.serve())
            await until(lambda: server.started)
            port = server.servers[0].sockets[0].getsockname()[1]
            started.put((f"http://127.0.0.1:{port}", made))
            await serving

    def run() -> None:
        try:
            asyncio.run(serve())
        except BaseException as error:
            started.put(error)
            raise

    thread = threading.Thread(target=run, name="rest-server")
    thread.start()
    outcome = started.get()
    try:
        if isinstance(outcome, BaseException):
            raise outcome
        yield outcome
    finally:
        for server in servers:
            server.should_exit = True
        thread.join()

# SPDX-License-Identifier: Apache-2.0
"""A second process on one store: a thread with an event loop, connections and caches of its own."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from tests.integration.cores import Deployment, open_deployment
from tidings.ports.world import FailpointName, Failpoints

T = TypeVar("T")


class OtherProcess:
    """Does what it is asked while the caller, and with it the caller's event loop, waits."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._thread = ThreadPoolExecutor(1)
        self._runner = asyncio.Runner()
        self._stack = AsyncExitStack()
        self._deployment: Deployment | None = None

    def do(self, act: Callable[[Deployment], Coroutine[Any, Any, T]]) -> T:
        """Run this over there to its end."""
        return self._thread.submit(self._run, act).result()

    def _run(self, act: Callable[[Deployment], Coroutine[Any, Any, T]]) -> T:
        async def run() -> T:
            if self._deployment is None:
                self._deployment = await self._stack.enter_async_context(
                    open_deployment(self._folder)
                )
            return await act(self._deployment)

        return self._runner.run(run())

    def close(self) -> None:
        """Stop cleanly."""
        self._thread.submit(lambda: self._runner.run(self._stack.aclose())).result()
        self._thread.submit(self._runner.close).result()
        self._thread.shutdown()


@contextmanager
def other_process(folder: Path) -> Iterator[OtherProcess]:
    """A second process on the store in this folder.

    A folder has a lock so that there is never a second one. Another folder whose database and key
    are links to the first one's gets past it: to SQLite it is the same file.
    """
    linked = folder.with_name(f"{folder.name}-of-another")
    linked.mkdir()
    for name in ("tidings.db", "master.key"):
        (linked / name).symlink_to(folder / name)
    process = OtherProcess(linked)
    try:
        yield process
    finally:
        process.close()


class PauseAt:
    """Failpoints that stop at the first visit to a place for as long as something else takes."""

    def __init__(self, place: FailpointName) -> None:
        self._place = place
        self._meanwhile: Callable[[], object] | None = None

    def once(self, meanwhile: Callable[[], object]) -> None:
        """Stop at the next visit, and do this."""
        self._meanwhile = meanwhile

    def armed(self, place: FailpointName) -> bool:
        return place == self._place and self._meanwhile is not None

    def reach(self, place: FailpointName) -> None:
        if self.armed(place):
            assert self._meanwhile is not None
            meanwhile, self._meanwhile = self._meanwhile, None
            meanwhile()


_conforms: type[Failpoints] = PauseAt

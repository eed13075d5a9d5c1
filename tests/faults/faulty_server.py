# SPDX-License-Identifier: Apache-2.0
"""A server with faults that a test switches on and off, by files in its data folder.

Run in place of `python -m tidings`.
"""

import asyncio
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tidings.actions.chat.deleting import Sweeper
from tidings.actions.inbox.delivering import DeliverCopies
from tidings.api.endpoints import Endpoint
from tidings.cli import main
from tidings.gateway.catch_up import Pump
from tidings.model.refusals import StoreUnavailable
from tidings.stores.sqlite.chat.chats import SqliteChats
from tidings.stores.sqlite.engine.writer import Writer

FAULTY: Final = Path(__file__)
FAULTS: Final = Path("faults")
COMMIT_SECONDS: Final = 1.5
LOOK_SECONDS: Final = 0.02
FAULTY_PATH: Final = "/v1/chats/{chat_id}"


def is_on(fault: str) -> bool:
    """Whether a fault is on. The working folder is the data folder."""
    return (FAULTS / fault).exists()


def switch(data: Path, fault: str, *, is_on: bool) -> None:
    """Switch a fault of the server with this data folder on or off."""
    file = data / FAULTS / fault
    file.parent.mkdir(exist_ok=True)
    file.touch() if is_on else file.unlink()


def failing(fault: str, error: Callable[[], Exception], honest: Any) -> Any:
    """A method that raises while a fault is on."""

    async def fail(self: Any, *arguments: Any, **more: Any) -> Any:
        if is_on(fault) and (not isinstance(self, Endpoint) or self.path == FAULTY_PATH):
            raise error()
        return await honest(self, *arguments, **more)

    return fail


def commit_slowly(self: Writer) -> None:
    if is_on("slow-disk"):
        time.sleep(COMMIT_SECONDS)
    honest_commit(self)


async def send_page_later(self: Pump, *page: Any) -> None:
    while is_on("catch-up"):
        await asyncio.sleep(LOOK_SECONDS)
    await honest_send_page(self, *page)


def a_bug() -> Exception:
    return RuntimeError("a fault of the test")


honest_commit, honest_send_page = Writer._commit, Pump._send_page

if __name__ == "__main__":
    Writer._commit = commit_slowly  # type: ignore[method-assign]
    Pump._send_page = send_page_later  # type: ignore[assignment,method-assign]
    for owner, name, fault, error in (
        (Sweeper, "sweep", "loop", a_bug),
        (DeliverCopies, "__call__", "jobs", a_bug),
        (DeliverCopies, "__call__", "jobs-wait", StoreUnavailable),
        (Endpoint, "_respond", "bug", a_bug),
        (SqliteChats, "list_heads", "lists", StoreUnavailable),
    ):
        setattr(owner, name, failing(fault, error, getattr(owner, name)))
    sys.exit(main())

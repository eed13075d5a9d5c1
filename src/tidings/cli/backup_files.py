# SPDX-License-Identifier: Apache-2.0
"""Opens the files of a deployment and those among its backups, for the commands about backups."""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager

from tidings.assembly.stores import open_backup_blobs, open_blobs
from tidings.assembly.system import SystemChance, SystemClock
from tidings.config import Config
from tidings.stores.sqlite.backup.files import FileBackup


@contextmanager
def open_files(config: Config, place: str) -> Iterator[FileBackup | None]:
    """Open the files of a deployment and those of its backups; return None without attachments.

    Raises:
        SetupError: A library is missing, or no credentials are found for a bucket.
        StoreUnavailable: A folder cannot be used.
    """
    if config.attachments == "off":
        yield None
        return
    with _stack() as (runner, stack):
        blobs = open_blobs(config, SystemClock(), SystemChance())
        live = runner.run(stack.enter_async_context(blobs))
        stored = runner.run(stack.enter_async_context(open_backup_blobs(place, is_written=True)))
        yield FileBackup(live, stored, runner)


@contextmanager
def open_stored_files(place: str) -> Iterator[FileBackup]:
    """Open the files in a place for backups, to check them.

    Raises:
        SetupError: A library is missing, or no credentials are found for the bucket.
    """
    with _stack() as (runner, stack):
        stored = runner.run(stack.enter_async_context(open_backup_blobs(place, is_written=False)))
        yield FileBackup(stored, stored, runner)


@contextmanager
def _stack() -> Iterator[tuple[asyncio.Runner, AsyncExitStack]]:
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        try:
            yield runner, stack
        finally:
            runner.run(stack.aclose())

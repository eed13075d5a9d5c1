# SPDX-License-Identifier: Apache-2.0
"""Reads and sets the newest storage format that the processes of a deployment may write.

The item of the epoch has the newest format that may be written. A new deployment begins with the
newest format of its version. After an upgrade, an operator allows the new formats. To check that no
process of an older version is left, each process registers itself with the formats that it knows.
"""

import asyncio
from typing import Final

from tidings.model import formats
from tidings.model.limits import SECOND_MS
from tidings.model.setup_error import SetupError
from tidings.ports.world import Clock
from tidings.stores.dynamodb.client.dynamo import Dynamo
from tidings.stores.dynamodb.client.retrying import Item
from tidings.stores.dynamodb.export.items import value_key
from tidings.stores.dynamodb.patterns import (
    ALLOW_FORMATS,
    FORGET_PROCESS,
    KEEP_PROCESS,
    LIST_PROCESSES,
    READ_VALUE,
)
from tidings.tasks import Tasks

EPOCH: Final = value_key("epoch")
PROCESS: Final = "process#"
"""Prefix of the items of registered processes."""
REFRESH_SECONDS: Final = 60.0
GONE_MS: Final = 5 * 60 * SECOND_MS
"""A process that has not refreshed its registration for this long is not running any more."""


class Formats:
    """Registers this process, and reads once a minute the newest format that it may write."""

    def __init__(self, dynamo: Dynamo, clock: Clock, written: int) -> None:
        self._dynamo = dynamo
        self._clock = clock
        self._item = value_key(f"{PROCESS}{dynamo.chance.token(8).hex()}")
        self._tasks = Tasks("formats")
        self.written = written

    async def start(self) -> None:
        """Register this process, and refresh the registration in the background."""
        await self._register()
        self._tasks.repeat(self._refresh)

    async def close(self) -> None:
        """Stop refreshing the registration; five minutes later it no longer counts."""
        await self._tasks.close()

    async def _refresh(self) -> None:
        await asyncio.sleep(REFRESH_SECONDS)
        await self._register()
        found = await self._dynamo.get(READ_VALUE, EPOCH)
        self.written = written_in(found or {})

    async def _register(self) -> None:
        item = {**self._item, "knows": formats.NEWEST, "seen_at": self._clock.now()}
        await self._dynamo.put(KEEP_PROCESS, item)


def written_in(epoch: Item) -> int:
    """Return the newest format that may be written, from the item of the epoch.

    Raises:
        SetupError: Only a newer version can read what is stored.
    """
    written = int(epoch.get("writes", 0))
    if written > formats.NEWEST:
        raise SetupError(
            f"these tables are written in format {written}, and this version reads formats up to "
            f"{formats.NEWEST}: install a newer version"
        )
    return written


def refuse_older(written: int) -> None:
    """Refuse tables on which processes of an older version may be running.

    Raises:
        SetupError: The formats of this version are not allowed yet.
    """
    if written < formats.OLDEST:
        raise SetupError(
            "these tables were written by an older version, which must not run beside this one: "
            "stop all its processes, run `tidings schema fill`, and start this version then"
        )


async def allow_newest(dynamo: Dynamo, now: int) -> None:
    """Allow all processes to write the newest format of this version.

    Does nothing in a new deployment, which is created with the newest format.

    Raises:
        SetupError: A process of an older version is still running, or only a newer version can read
            the tables.
    """
    epoch = await dynamo.get(READ_VALUE, EPOCH)
    if epoch is None:
        return
    written_in(epoch)
    items = await dynamo.query(
        LIST_PROCESSES,
        "#pk = :pk AND begins_with(#sk, :process)",
        {":pk": EPOCH["pk"], ":process": PROCESS},
    )
    running = [item for item in items if item["seen_at"] > now - GONE_MS]
    older = [item for item in running if item["knows"] < formats.NEWEST]
    if older:
        raise SetupError(
            f"{len(older)} processes of an older version are running: stop them first; a process "
            "counts until five minutes after its end"
        )
    for item in items:
        if item not in running:
            await dynamo.delete(FORGET_PROCESS, {name: item[name] for name in EPOCH})
    await dynamo.update(
        ALLOW_FORMATS,
        EPOCH,
        "SET #writes = :newest",
        "attribute_not_exists(#writes) OR #writes <= :newest",
        {":newest": formats.NEWEST},
    )

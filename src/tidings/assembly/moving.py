# SPDX-License-Identifier: Apache-2.0
"""The engine of a deployment, opened to be exported or imported into. No server runs meanwhile."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext

from tidings.assembly.stores import needs
from tidings.config import Config
from tidings.ports.moving import Source, Target
from tidings.stores.folder import only_process
from tidings.stores.trouble import StoreRefused
from tidings.world import SystemChance, SystemClock, wait_patiently


@asynccontextmanager
async def open_source(config: Config) -> AsyncIterator[Source]:
    """The store to read all facts from.

    Raises:
        StoreRefused: What only the operator can put right.
        StoreUnavailable: The store cannot be reached now.
    """
    if config.store == "sqlite":
        from tidings.stores.sqlite import exporting as embedded

        async with embedded.open_source(config.data) as source:
            yield source
        return
    try:
        from tidings.stores.dynamodb import exporting as tables
    except ModuleNotFoundError as missing:
        raise StoreRefused(needs(missing)) from missing
    assert config.dynamodb_region is not None, "settings are checked"
    # A server that is alone has the folder: it would be writing.
    with only_process(config.data) if config.is_alone else nullcontext():
        async with tables.open_source(
            endpoint=config.dynamodb_endpoint,
            region=config.dynamodb_region,
            prefix=config.dynamodb_prefix,
            clock=SystemClock(),
            chance=SystemChance(),
            back_off=wait_patiently,
        ) as source:
            yield source


@asynccontextmanager
async def open_target(config: Config) -> AsyncIterator[Target]:
    """The store to write all facts into.

    Raises:
        StoreRefused: What only the operator can put right.
        StoreUnavailable: The store cannot be reached now.
    """
    if config.store == "sqlite":
        from tidings.stores.sqlite import importing as embedded

        async with embedded.open_target(config.data) as target:
            yield target
        return
    try:
        from tidings.stores.dynamodb import importing as tables
    except ModuleNotFoundError as missing:
        raise StoreRefused(needs(missing)) from missing
    assert config.dynamodb_region is not None, "settings are checked"
    with only_process(config.data) if config.is_alone else nullcontext():
        async with tables.open_target(
            endpoint=config.dynamodb_endpoint,
            region=config.dynamodb_region,
            prefix=config.dynamodb_prefix,
            clock=SystemClock(),
            chance=SystemChance(),
            back_off=wait_patiently,
        ) as target:
            yield target

# SPDX-License-Identifier: Apache-2.0
"""Opens the store that the settings name."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext

from tidings.assembly.system import SystemChance, SystemClock
from tidings.config import Config, DynamoDb
from tidings.data_folder import only_process
from tidings.model.setup_error import optional_import
from tidings.ports.delivery import DeliveryStore
from tidings.ports.store import Store
from tidings.ports.world import Chance, Clock, Failpoints
from tidings.stores.sqlite.engine.connections import StoreBroken


def open_store(
    config: Config,
    clock: Clock,
    chance: Chance,
    failpoints: Failpoints,
    broken: Callable[[StoreBroken], None],
) -> AbstractAsyncContextManager[tuple[Store, DeliveryStore | None]]:
    """Open the store, and its side for delivery if other processes deliver.

    Raises:
        SetupError: The operator has to change something first.
        StoreUnavailable: The store cannot be reached now.
    """
    if isinstance(config.store, DynamoDb):
        return _tables(config, config.store, clock, chance, failpoints)
    return _folder(config, failpoints, broken)


@asynccontextmanager
async def _folder(
    config: Config, failpoints: Failpoints, broken: Callable[[StoreBroken], None]
) -> AsyncIterator[tuple[Store, None]]:
    from tidings.stores.sqlite.store import open_store

    async with open_store(config.data, failpoints=failpoints, broken=broken) as store:
        yield store, None


@asynccontextmanager
async def _tables(
    config: Config, tables: DynamoDb, clock: Clock, chance: Chance, failpoints: Failpoints
) -> AsyncIterator[tuple[Store, DeliveryStore]]:
    # Imported here: the embedded server neither needs these libraries nor waits for them to load.
    with optional_import():
        from tidings.stores.dynamodb.store import open_store
    # A single process may keep keys in its folder: commands that change them must go through it.
    with only_process(config.data) if config.is_alone else nullcontext():
        async with open_store(
            endpoint=tables.endpoint,
            region=tables.region,
            prefix=tables.prefix,
            clock=clock,
            chance=chance,
            failpoints=failpoints,
            writes_heads=config.is_alone,
        ) as store:
            yield store, store.deliveries


async def make_local_tables(config: Config) -> None:
    """Create missing tables if DynamoDB runs on this machine; never anywhere else.

    Raises:
        SetupError: A library is missing.
        StoreUnavailable: DynamoDB cannot be reached.
    """
    tables = config.store
    if not isinstance(tables, DynamoDb) or (endpoint := tables.local_endpoint) is None:
        return
    with optional_import():
        from tidings.stores.dynamodb.schema.requests import make_missing
    await make_missing(
        endpoint=endpoint,
        region=tables.region,
        prefix=tables.prefix,
        clock=SystemClock(),
        chance=SystemChance(),
    )

# SPDX-License-Identifier: Apache-2.0
"""Opens the store that the settings name, for a server, an export or an import."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    nullcontext,
)
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from tidings.assembly.system import SystemChance, SystemClock, wait_patiently
from tidings.blobs.folder import FolderBlobs
from tidings.config import Config, DynamoDb
from tidings.data_folder import ATTACHMENTS, AttachmentsLock, only_process
from tidings.model.setup_error import SetupError, optional_import
from tidings.ports.attachments import Blobs, ByteDeletions
from tidings.ports.delivery import DeliveryStore
from tidings.ports.export_engines import Inspection, Source, Target
from tidings.ports.store import Store
from tidings.ports.world import Chance, Clock, Failpoints
from tidings.stores.sqlite.engine.connections import StoreBroken

if TYPE_CHECKING:
    from tidings.stores.dynamodb.export.repairing import Repaired


def open_store(
    config: Config,
    clock: Clock,
    chance: Chance,
    failpoints: Failpoints,
    broken: Callable[[StoreBroken], None],
) -> AbstractAsyncContextManager[tuple[Store, DeliveryStore | None]]:
    """Open the store; yield the store, and its port for delivery, which is None with the embedded
    store.

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
    # Imported here, because a server with the embedded store does not need these libraries.
    with optional_import():
        from tidings.stores.dynamodb.store import open_store
    # A single process may have keys in its data folder. The lock makes commands that change keys
    # use the running server.
    with _nobody_else(config):
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


@asynccontextmanager
async def open_blobs(config: Config, clock: Clock, chance: Chance) -> AsyncIterator[Blobs]:
    """Open the place for the bytes of attachments: a bucket or a folder.

    Raises:
        SetupError: A library is missing, or no credentials are found for the bucket.
        StoreUnavailable: The folder cannot be used.
    """
    if config.blobs is not None:
        async with _bucket(config.blobs, clock, chance) as bucket:
            yield bucket
        return
    place = config.attachments
    folder = None if place == "off" else place.folder
    blobs = FolderBlobs(folder or config.data / ATTACHMENTS, clock, chance)
    if place != "off":
        await blobs.open(is_alone=config.is_alone)
    yield blobs


def _bucket(url: str, clock: Clock, chance: Chance) -> AbstractAsyncContextManager[Blobs]:
    with optional_import():
        from tidings.blobs.bucket import open_bucket_blobs
    return open_bucket_blobs(url, clock=clock, chance=chance)


class _AnyTime:
    """Lets bytes be deleted at any time: backups of DynamoDB do not copy them."""

    def deleting(self) -> AbstractContextManager[bool]:
        return nullcontext(True)


def deletions_of(config: Config) -> ByteDeletions:
    """Return the object that decides when the bytes of attachments may be deleted."""
    return _AnyTime() if isinstance(config.store, DynamoDb) else AttachmentsLock(config.data)


@asynccontextmanager
async def open_backup_blobs(name: str, *, is_written: bool) -> AsyncIterator[Blobs]:
    """Open the place for the bytes of attachments in a folder or bucket with backups.

    Raises:
        SetupError: A library is missing, or no credentials are found for the bucket.
        StoreUnavailable: The folder cannot be used.
    """
    clock, chance = SystemClock(), SystemChance()
    if name.startswith("s3://"):
        async with _bucket(f"{name.rstrip('/')}/{ATTACHMENTS}", clock, chance) as bucket:
            yield bucket
        return
    blobs = FolderBlobs(Path(name) / ATTACHMENTS, clock, chance)
    if is_written:
        await blobs.open(is_alone=False)
    yield blobs


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


class _Where(TypedDict):
    """Arguments that say which tables to open, and how to reach them."""

    endpoint: str | None
    region: str
    prefix: str
    clock: Clock
    chance: Chance
    back_off: Callable[[int], Awaitable[None]]


@asynccontextmanager
async def open_source(config: Config) -> AsyncIterator[Source]:
    """Open the store for an export.

    Raises:
        SetupError: The operator has to change something first.
        StoreUnavailable: The store cannot be reached now.
    """
    if not isinstance(config.store, DynamoDb):
        from tidings.stores.sqlite.export import exporting as embedded

        async with embedded.open_source(config.data) as source:
            yield source
        return
    with optional_import():
        from tidings.stores.dynamodb.export import exporting as tables
        from tidings.stores.dynamodb.export.scanning import open_patient
    with _nobody_else(config):
        async with open_patient(**_where(config.store)) as dynamo:
            yield await tables.open_source(dynamo)


@asynccontextmanager
async def open_inspection(config: Config) -> AsyncIterator[Inspection]:
    """Open the store to verify it while servers use it; raises the same errors as `open_source`."""
    if not isinstance(config.store, DynamoDb):
        from tidings.stores.sqlite.export.inspecting import open_inspection

        async with open_inspection(config.data) as inspection:
            yield inspection
        return
    with optional_import():
        from tidings.stores.dynamodb.export import inspecting as tables
        from tidings.stores.dynamodb.export.scanning import open_patient
    async with open_patient(**_where(config.store)) as dynamo:
        yield await tables.open_inspection(dynamo)


@asynccontextmanager
async def open_target(config: Config) -> AsyncIterator[Target]:
    """Open the store for an import; raises the same errors as `open_source`."""
    if not isinstance(config.store, DynamoDb):
        from tidings.stores.sqlite.export import importing as embedded

        async with embedded.open_target(config.data) as target:
            yield target
        return
    with optional_import():
        from tidings.stores.dynamodb.export import importing as tables
        from tidings.stores.dynamodb.export.scanning import open_patient
    with _nobody_else(config):
        async with open_patient(**_where(config.store)) as dynamo:
            yield await tables.open_target(dynamo)


async def repair_tables(config: Config, report: Callable[["Repaired"], None]) -> "Repaired":
    """Repair restored tables on DynamoDB; raises the same errors as `open_source`."""
    if not isinstance(config.store, DynamoDb):
        raise SetupError(
            "only tables on DynamoDB are repaired; a backup of the embedded store is consistent"
        )
    with optional_import():
        from tidings.stores.dynamodb.export.exporting import epoch_of
        from tidings.stores.dynamodb.export.repairing import repair_tables
        from tidings.stores.dynamodb.export.scanning import open_patient
    with _nobody_else(config):
        async with open_patient(**_where(config.store)) as dynamo:
            await epoch_of(dynamo)
            return await repair_tables(dynamo, report, SystemClock().now())


def _nobody_else(config: Config) -> AbstractContextManager[None]:
    """Lock the data folder, if this is the only process of its deployment."""
    return only_process(config.data) if config.is_alone else nullcontext()


def _where(tables: DynamoDb) -> _Where:
    return _Where(
        endpoint=tables.endpoint,
        region=tables.region,
        prefix=tables.prefix,
        clock=SystemClock(),
        chance=SystemChance(),
        back_off=wait_patiently,
    )

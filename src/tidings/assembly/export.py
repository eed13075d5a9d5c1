# SPDX-License-Identifier: Apache-2.0
"""Opens the store of a deployment for export or import, while no server runs."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from typing import TypedDict

from tidings.actions.export.exporting import ExportProof
from tidings.assembly.core import master_keys
from tidings.assembly.system import SystemChance, SystemClock, wait_patiently
from tidings.config import Config, DynamoDb
from tidings.data_folder import only_process
from tidings.model.setup_error import optional_import
from tidings.ports.export_facts import Source, Target
from tidings.ports.world import Chance, Clock


class _Where(TypedDict):
    """Which tables to open, and how to reach them."""

    endpoint: str | None
    region: str
    prefix: str
    clock: Clock
    chance: Chance
    back_off: Callable[[int], Awaitable[None]]


@asynccontextmanager
async def open_source(config: Config) -> AsyncIterator[Source]:
    """Open the store to read all facts from.

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
    with _nobody_else(config):
        async with tables.open_source(**_where(config.store)) as source:
            yield source


@asynccontextmanager
async def open_target(config: Config) -> AsyncIterator[Target]:
    """Open the store to write all facts into. Raises as `open_source` does."""
    if not isinstance(config.store, DynamoDb):
        from tidings.stores.sqlite.export import importing as embedded

        async with embedded.open_target(config.data) as target:
            yield target
        return
    with optional_import():
        from tidings.stores.dynamodb.export import importing as tables
    with _nobody_else(config):
        async with tables.open_target(**_where(config.store)) as target:
            yield target


def export_proof(config: Config) -> ExportProof:
    """Return the proof that an export comes from this deployment.

    Raises:
        SetupError: The file of the master key cannot be read.
    """
    return ExportProof(master_keys(config, SystemChance()))


def _nobody_else(config: Config) -> AbstractContextManager[None]:
    """Lock the data folder, because a single server that has it open would be writing."""
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

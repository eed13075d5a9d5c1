# SPDX-License-Identifier: Apache-2.0
"""The engine of a deployment, opened to be exported or imported into. No server runs meanwhile."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from typing import TypedDict

from tidings.actions.export.exporting import ExportProof
from tidings.assembly.core import master_keys
from tidings.assembly.stores import needs
from tidings.assembly.system import SystemChance, SystemClock, wait_patiently
from tidings.config import Config
from tidings.ports.export_facts import Source, Target
from tidings.ports.world import Chance, Clock
from tidings.stores.errors import StoreRefused
from tidings.stores.folder import only_process


class _Where(TypedDict):
    """Which tables, and how to speak to them."""

    endpoint: str | None
    region: str
    prefix: str
    clock: Clock
    chance: Chance
    back_off: Callable[[int], Awaitable[None]]


@asynccontextmanager
async def open_source(config: Config) -> AsyncIterator[Source]:
    """The store to read all facts from.

    Raises:
        StoreRefused: What only the operator can put right.
        StoreUnavailable: The store cannot be reached now.
    """
    if config.store == "sqlite":
        from tidings.stores.sqlite.export import exporting as embedded

        async with embedded.open_source(config.data) as source:
            yield source
        return
    try:
        from tidings.stores.dynamodb.export import exporting as tables
    except ModuleNotFoundError as missing:
        raise StoreRefused(needs(missing)) from missing
    with _nobody_else(config):
        async with tables.open_source(**_where(config)) as source:
            yield source


@asynccontextmanager
async def open_target(config: Config) -> AsyncIterator[Target]:
    """The store to write all facts into. Raises what `open_source` does."""
    if config.store == "sqlite":
        from tidings.stores.sqlite.export import importing as embedded

        async with embedded.open_target(config.data) as target:
            yield target
        return
    try:
        from tidings.stores.dynamodb.export import importing as tables
    except ModuleNotFoundError as missing:
        raise StoreRefused(needs(missing)) from missing
    with _nobody_else(config):
        async with tables.open_target(**_where(config)) as target:
            yield target


def export_proof(config: Config) -> ExportProof:
    """What shows that an export is of this deployment.

    Raises:
        KeyRefused: The file of the master key cannot be read.
    """
    return ExportProof(master_keys(config, SystemChance()))


def _nobody_else(config: Config) -> AbstractContextManager[None]:
    """A server that is alone has the folder: it would be writing."""
    return only_process(config.data) if config.is_alone else nullcontext()


def _where(config: Config) -> _Where:
    assert config.dynamodb_region is not None, "settings are checked"
    return _Where(
        endpoint=config.dynamodb_endpoint,
        region=config.dynamodb_region,
        prefix=config.dynamodb_prefix,
        clock=SystemClock(),
        chance=SystemChance(),
        back_off=wait_patiently,
    )

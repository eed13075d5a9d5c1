# SPDX-License-Identifier: Apache-2.0
"""The engines a deployment under test can stand on, as settings."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final

from tests.support.dynamo_tables import REGION, some_tables

ENGINES: Final = ("sqlite", "dynamodb")

Settings = dict[str, str]
"""Values of settings by their names in Config."""


def on_tables(endpoint: str, prefix: str) -> Settings:
    """The settings of one process on these tables."""
    return {
        "store": "dynamodb",
        "dynamodb_endpoint": endpoint,
        "dynamodb_region": REGION,
        "dynamodb_prefix": prefix,
    }


@asynccontextmanager
async def some_engine(engine: str, endpoint: Callable[[], str]) -> AsyncIterator[Settings]:
    """The settings of an engine with nothing in it; the endpoint is asked for only if needed."""
    if engine == "sqlite":
        yield {}
        return
    where = endpoint()
    # New ones: a server reads the streams of its tables, and those tell of what was there before.
    async with some_tables(where) as prefix:
        yield on_tables(where, prefix)


def as_environment(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings as environment variables."""
    return {f"TIDINGS_{name.upper()}": value for name, value in settings.items()}

# SPDX-License-Identifier: Apache-2.0
"""The settings of each engine on which a test can run a deployment."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final

from tests.support.dynamo_tables import REGION
from tests.support.patience import patience
from tests.support.spare_tables import spare_tables

ENGINES: Final = ("sqlite", "dynamodb")
WITH_FRONTS: Final = "fronts"
"""The embedded store with several processes, for suites that use sockets."""

Settings = dict[str, str]
"""Values of settings by their names in Config."""


def on_tables(endpoint: str, prefix: str) -> Settings:
    """Return the settings of one process on these tables."""
    return {
        "store": "dynamodb",
        "dynamodb_endpoint": endpoint,
        "dynamodb_region": REGION,
        "dynamodb_prefix": prefix,
    }


@asynccontextmanager
async def some_engine(
    engine: str, endpoint: Callable[[], str], *, streams: bool = True
) -> AsyncIterator[Settings]:
    """Yield the settings of an empty engine; `endpoint` is called only if it is needed.

    A core alone does without the streams of tables, which a server reads. Stores of this process
    wait for DynamoDB as long as a busy machine needs; for a server, `waits` have to say so.
    """
    if engine in ("sqlite", WITH_FRONTS):
        yield {"processes": "2"} if engine == WITH_FRONTS else {}
        return
    where = endpoint()
    async with spare_tables(where, streams=streams, is_shared=True) as prefix:
        with patience():
            yield on_tables(where, prefix)


def as_environment(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings as environment variables."""
    return {f"TIDINGS_{name.upper()}": value for name, value in settings.items()}

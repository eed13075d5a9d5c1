# SPDX-License-Identifier: Apache-2.0
"""A real server for the tests of a module, and a tenant for each test."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator

import pytest

from tests.harness.people import Town
from tests.harness.server import ServerProcess

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One server process for a module."""
    process = ServerProcess(tmp_path_factory.mktemp("server"))
    asyncio.run(process.start())
    try:
        yield process
    finally:
        asyncio.run(process.terminate())


@pytest.fixture
async def town(server: ServerProcess) -> AsyncIterator[Town]:
    """A tenant of its own."""
    async with Town(server.url, server.root_key, f"town-{next(_numbers)}") as opened:
        yield opened

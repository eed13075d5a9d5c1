# SPDX-License-Identifier: Apache-2.0
"""A real server for the tests of a module, and a tenant for each test."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack

import pytest

from tests.support.engine import as_environment, some_engine
from tests.support.people import Town
from tests.support.server import ServerProcess
from tests.support.services import dynamodb_endpoint as dynamodb_endpoint
from tests.support.services import shared_dynamodb as shared_dynamodb

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def engine() -> str:
    """The engine that suites run on which do not ask for each of them."""
    return "sqlite"


@pytest.fixture(scope="module")
def limits() -> str:
    """Rate limits are on, except in suites that do more than anyone honest."""
    return "on"


@pytest.fixture(scope="module")
def server(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    engine: str,
    limits: str,
) -> Iterator[ServerProcess]:
    """One server process for a module."""

    def endpoint() -> str:
        return str(request.getfixturevalue("dynamodb_endpoint"))

    stack = AsyncExitStack()
    with asyncio.Runner() as runner:
        settings = runner.run(stack.enter_async_context(some_engine(engine, endpoint)))
        process = ServerProcess(
            tmp_path_factory.mktemp("server"),
            environment=as_environment({**settings, "limits": limits}),
        )
        runner.run(process.start())
        try:
            yield process
        finally:
            runner.run(process.terminate())
            runner.run(stack.aclose())


@pytest.fixture
async def town(server: ServerProcess) -> AsyncIterator[Town]:
    """A tenant of its own."""
    async with Town(server.url, server.root_key, f"town-{next(_numbers)}") as opened:
        yield opened

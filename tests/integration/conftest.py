# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the integration tests."""

from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
import pytest_asyncio

from tests.integration.cores import Deployment, open_deployment
from tests.integration.rest_world import Rest, open_rest
from tests.integration.socket_town import troubles
from tests.support.engine import Settings, as_environment, some_engine
from tests.support.people import Town
from tests.support.server import ServerProcess
from tidings.actions.chat import coalesced_receipts


@pytest.fixture(autouse=True, scope="package")
def patient_reads() -> Iterator[None]:
    """A read waits for what its user has just sent as long as a busy machine needs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(coalesced_receipts, "READ_WAIT_SECONDS", 10.0)
        yield


@pytest.fixture(scope="module")
def engine() -> str:
    """The engine that suites run on which do not ask for each of them."""
    return "sqlite"


@pytest.fixture(scope="module")
def limits() -> str:
    """Rate limits are on, except in suites that do more than anyone honest."""
    return "on"


@pytest.fixture(scope="module")
def waits() -> str:
    """A server waits as long as in a deployment, except in suites that name shorter waits."""
    return ""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def settings(
    request: pytest.FixtureRequest, engine: str, limits: str
) -> AsyncIterator[Settings]:
    """The settings of the engine, with nothing in it yet."""
    async with _engine(request, engine, streams=True) as made:
        yield {**made, "limits": limits}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def core_settings(
    request: pytest.FixtureRequest, engine: str, limits: str
) -> AsyncIterator[Settings]:
    """The same for a core alone."""
    async with _engine(request, engine, streams=False) as made:
        yield {**made, "limits": limits}


def _engine(
    request: pytest.FixtureRequest, engine: str, *, streams: bool
) -> AbstractAsyncContextManager[Settings]:
    def endpoint() -> str:
        return str(request.getfixturevalue("dynamodb_endpoint"))

    return some_engine(engine, endpoint, streams=streams)


@pytest.fixture
async def deployment(tmp_path: Path) -> AsyncIterator[Deployment]:
    """A core in a folder of its own."""
    async with open_deployment(tmp_path / "data") as opened:
        yield opened


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rest(
    tmp_path_factory: pytest.TempPathFactory, core_settings: Settings
) -> AsyncIterator[Rest]:
    """The REST application for all tests of a module."""
    async with open_rest(tmp_path_factory.mktemp("rest"), settings=core_settings) as opened:
        yield opened


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(
    tmp_path_factory: pytest.TempPathFactory, settings: Settings, waits: str
) -> AsyncIterator[ServerProcess]:
    """A server for all tests of a module; whatever they did to it, it has logged no trouble."""
    data = tmp_path_factory.mktemp("server") / "data"
    environment, waits = as_environment(settings), f"{waits} store"
    async with ServerProcess(data, environment=environment, waits=waits) as running:
        yield running
    assert running.exit_code == 0
    assert troubles(running) == []


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def town(server: ServerProcess) -> AsyncIterator[Town]:
    """A tenant of the module's server."""
    async with Town(server.url, server.root_key) as made:
        yield made

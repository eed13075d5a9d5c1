# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the integration tests."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.harness.people import Town
from tests.harness.server import ServerProcess
from tests.integration.cores import Deployment, open_deployment
from tests.integration.socket_town import troubles


@pytest.fixture
async def deployment(tmp_path: Path) -> AsyncIterator[Deployment]:
    """A core in a folder of its own."""
    async with open_deployment(tmp_path / "data") as opened:
        yield opened


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ServerProcess]:
    """A server for all tests of a module; whatever they did to it, it has logged no trouble."""
    async with ServerProcess(tmp_path_factory.mktemp("server") / "data") as running:
        yield running
    assert running.exit_code == 0
    assert troubles(running) == []


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def town(server: ServerProcess) -> AsyncIterator[Town]:
    """A tenant of the module's server."""
    async with Town(server.url, server.root_key) as made:
        yield made

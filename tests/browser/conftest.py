# SPDX-License-Identifier: Apache-2.0
"""Fixtures: one browser and one server for all tests of a worker, and people who use them."""

import os
from collections.abc import AsyncIterator
from itertools import count

import pytest
import pytest_asyncio
from playwright.async_api import Browser, async_playwright

from scripts.services import chromium
from scripts.services.obtaining import Unavailable
from tests.browser.visitors import FLAGS, Visitors
from tests.support.people import Person, Town
from tests.support.server import ServerProcess
from tests.support.services import do_without

_numbers = count()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the tests of this folder in one event loop, the one of the browser."""
    for item in items:
        if "tests/browser" in item.path.as_posix():
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser(request: pytest.FixtureRequest) -> AsyncIterator[Browser]:
    """A Chromium without a window."""
    try:
        path = chromium.obtain_headless()
    except Unavailable as error:
        do_without(request.config, chromium.NAME, str(error))
    environment: dict[str, str | float | bool] = {**os.environ, **chromium.environment(path)}
    async with async_playwright() as playwright:
        launched = await playwright.chromium.launch(
            executable_path=path, env=environment, args=FLAGS
        )
        yield launched
        await launched.close()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ServerProcess]:
    """A server for tests that do not stop it."""
    async with ServerProcess(tmp_path_factory.mktemp("browser") / "data") as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def demo(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ServerProcess]:
    """A server with Alice, Bob and Carol, for tests of the web app.

    Each file has its own, because the chats of these three grow with every test.
    """
    data = tmp_path_factory.mktemp("demo") / "data"
    async with ServerProcess(data, options=["--demo"]) as running:
        yield running


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def town(server: ServerProcess) -> AsyncIterator[Town]:
    """A tenant of the server."""
    async with Town(server.url, server.root_key) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="session")
async def people(town: Town) -> list[Person]:
    """Alice and Bob, whom no other test knows."""
    number = next(_numbers)
    return [await town.user(f"{name}-{number}") for name in ("alice", "bob")]


@pytest_asyncio.fixture(loop_scope="session")
async def visitors(browser: Browser) -> AsyncIterator[Visitors]:
    """The people who use the browser in one test; none of their pages raises an error."""
    async with Visitors(browser) as made:
        yield made
    assert made.errors == []

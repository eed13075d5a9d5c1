# SPDX-License-Identifier: Apache-2.0
"""Requests of a page that have to wait, as on a slow network."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from playwright.async_api import Page, Route


class Held:
    """The requests that wait; all of them go on when this is released."""

    def __init__(self) -> None:
        self.urls: list[str] = []
        self._may_go = asyncio.Event()

    async def hold(self, route: Route) -> None:
        """Keep a request back."""
        self.urls.append(route.request.url)
        await self._may_go.wait()
        await route.continue_()

    def release(self) -> None:
        """Let everything through."""
        self._may_go.set()


@asynccontextmanager
async def held(page: Page, method: str, path: str) -> AsyncIterator[Held]:
    """Hold the requests for a path up, with one method, as long as the test likes."""
    requests = Held()

    async def sort(route: Route) -> None:
        if route.request.method == method:
            await requests.hold(route)
        else:
            await route.continue_()

    await page.route(path, sort)
    try:
        yield requests
    finally:
        requests.release()
        await page.unroute(path, sort)

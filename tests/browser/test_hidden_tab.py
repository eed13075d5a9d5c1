# SPDX-License-Identifier: Apache-2.0
"""A tab that nobody looks at stays connected, although the browser slows its timers down.

Playwright switches this off and keeps every page visible, so the browser is started without it.
"""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest

from scripts.services import chromium
from scripts.services.obtaining import Unavailable
from tests.support.people import Town
from tests.support.services import do_without
from tests.support.waiting import until

HIDDEN_SECONDS: Final = 600
SLOW_TICKS_MAX: Final = 3
"""A timer of a second may run so often in the last minute; on a visible page it runs 60 times."""
START: Final = """(async () => {
  const { Tidings } = await import("/assets/any/src/index.js");
  window.tidings = new Tidings(location.origin, { token: () => %s });
  window.drops = 0;
  window.ticks = [];
  setInterval(() => ticks.push(performance.now()), 1000);
  await tidings.start();
  window.view = tidings.chat(%s);
  view.subscribe(() => {});
  return true;
})()"""
WATCH: Final = """tidings.state.subscribe(() => {
  if (tidings.state.snapshot().connection !== "live") drops += 1;
})"""


class HiddenTab:
    """A tab behind another one, over the browser's own protocol."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count()

    async def run(self, script: str) -> Any:
        """The value of an expression."""
        number = next(self._numbers)
        wish = {"expression": script, "awaitPromise": True, "returnByValue": True}
        await self._socket.send_json({"id": number, "method": "Runtime.evaluate", "params": wish})
        while True:
            answer = await self._socket.receive_json()
            if answer.get("id") == number:
                assert "exceptionDetails" not in answer["result"], answer
                return answer["result"]["result"].get("value")


@asynccontextmanager
async def hidden_tab(browser: Path, folder: Path, url: str) -> AsyncIterator[HiddenTab]:
    """Open a page and another one in front of it."""
    flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0"]
    process = await asyncio.create_subprocess_exec(
        str(browser),
        *flags,
        f"--user-data-dir={folder}",
        "about:blank",
        env={"HOME": str(folder), **chromium.environment(browser)},
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        told = folder / "DevToolsActivePort"
        port = await until(lambda: told.exists() and told.read_text().split("\n")[0])
        async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as http:
            async with http.put(f"/json/new?{url}") as answer:
                page = await answer.json()
            async with http.ws_connect(page["webSocketDebuggerUrl"]) as socket:
                tab = HiddenTab(socket)
                loaded = "document.readyState === 'complete' && location.href"
                await until(lambda: tab.run(loaded), equals=url)
                async with http.put("/json/new?about:blank"):
                    await until(lambda: tab.run("document.visibilityState"), equals="hidden")
                yield tab
    finally:
        process.terminate()
        await process.wait()


@pytest.mark.soak
async def test_a_hidden_tab_stays_connected(
    request: pytest.FixtureRequest, town: Town, tmp_path: Path
) -> None:
    try:
        browser = chromium.obtain()
    except Unavailable as error:
        do_without(request.config, chromium.NAME, str(error))
    alice, bob = await town.user("alice-hidden"), await town.user("bob-hidden")
    chat = await alice.create_direct(bob)
    async with hidden_tab(browser, tmp_path, f"{town.url}/about") as tab:
        await tab.run(START % (json.dumps(alice.token), json.dumps(chat)))
        state = "tidings.state.snapshot().connection"
        await until(lambda: tab.run(state), equals="live")
        await tab.run(WATCH)
        begun = await tab.run("performance.now()")
        is_over = f"performance.now() > {begun + HIDDEN_SECONDS * 1_000}"
        await until(lambda: tab.run(is_over), seconds=HIDDEN_SECONDS + 60)

        assert await tab.run("document.visibilityState") == "hidden"
        slow = "ticks.filter((at) => at > performance.now() - 60_000).length"
        assert await tab.run(slow) <= SLOW_TICKS_MAX
        assert await tab.run("drops") == 0
        await bob.send(chat, "still there?")
        last = "view.snapshot().rows.at(-1)?.content"
        await until(lambda: tab.run(last), equals="still there?")

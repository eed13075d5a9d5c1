# SPDX-License-Identifier: Apache-2.0
"""Two people talk in Firefox, which is driven over WebDriver BiDi, its own protocol.

Playwright drives only a Firefox of its own, which no distribution has.
"""

import asyncio
import itertools
import os
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest

from scripts.services import firefox
from scripts.services.obtaining import Unavailable
from tests.support.server import ServerProcess
from tests.support.waiting import until

SETTINGS: Final = {
    "browser.newtabpage.enabled": "false",
    "dom.ipc.processPrelaunch.enabled": "false",
    "network.captive-portal-service.enabled": "false",
}
FIND: Final = """(selector, text) => {
  const all = (root) => [...root.querySelectorAll("*")].flatMap((one) =>
    one.shadowRoot ? [one, ...all(one.shadowRoot)] : [one]);
  const found = (one) => one.matches(selector) && one.innerText.includes(text);
  return all(document).filter((one) => one.checkVisibility()).findLast(found) ?? null;
}"""
"""Finds the innermost element that is seen, also inside of other elements."""


class Firefox:
    """The browser, over the socket of its protocol."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count()

    async def call(self, method: str, **params: object) -> Any:
        """The answer to a command."""
        number = next(self._numbers)
        await self._socket.send_json({"id": number, "method": method, "params": params})
        while True:
            answer = await self._socket.receive_json()
            if answer.get("id") == number:
                assert answer["type"] == "success", answer
                return answer["result"]

    async def window(self, url: str) -> "Window":
        """A page in a profile of its own."""
        profile = (await self.call("browser.createUserContext"))["userContext"]
        made = await self.call("browsingContext.create", type="window", userContext=profile)
        place = {"context": made["context"]}
        await self.call("browsingContext.navigate", url=url, wait="complete", **place)
        return Window(self, made["context"])


class Window:
    """A window with the web app."""

    def __init__(self, browser: Firefox, context: str) -> None:
        self._browser = browser
        self._context = context

    async def find(self, selector: str, text: str = "") -> Any:
        """An element that is seen; waits for it."""

        async def look() -> Any:
            texts = [{"type": "string", "value": value} for value in (selector, text)]
            return await self._run(FIND, *texts)

        return await until(look)

    async def click(self, selector: str, text: str = "") -> None:
        """Click on an element."""
        await self._run("(one) => one.click()", await self.find(selector, text))

    async def send(self, text: str) -> None:
        """Type a message, key by key, and send it with Enter."""
        await self._run("(one) => one.focus()", await self.find("textarea"))
        kinds = ("keyDown", "keyUp")
        keys = [{"type": kind, "value": key} for key in (*text, "\ue007") for kind in kinds]
        typing = [{"type": "key", "id": "keyboard", "actions": keys}]
        await self._browser.call("input.performActions", context=self._context, actions=typing)

    async def _run(self, script: str, *arguments: object) -> Any:
        """The element that a function returns; None if it returns none."""
        answer = await self._browser.call(
            "script.callFunction",
            functionDeclaration=script,
            arguments=arguments,
            target={"context": self._context},
            awaitPromise=False,
        )
        assert answer["type"] == "success", answer
        shared = answer["result"].get("sharedId")
        return {"sharedId": shared} if shared else None


@asynccontextmanager
async def started(path: Path, folder: Path) -> AsyncIterator[Firefox]:
    """Start Firefox without a window."""
    folder.mkdir()
    lines = [f'user_pref("{name}", {value});' for name, value in SETTINGS.items()]
    (folder / "user.js").write_text("\n".join(lines))
    flags = ["--headless", "--no-remote", "--remote-debugging-port=0", "--profile", str(folder)]
    log = folder / "log"
    with log.open("wb") as file:
        process = await asyncio.create_subprocess_exec(
            str(path),
            *flags,
            env={**os.environ, "HOME": str(folder), **firefox.environment(path)},
            stdout=file,
            stderr=file,
        )
    try:
        said = await until(lambda: re.search(r"BiDi listening on (\S+)", log.read_text()))
        url = said[1]
        async with aiohttp.ClientSession() as http, http.ws_connect(f"{url}/session") as socket:
            browser = Firefox(socket)
            await browser.call("session.new", capabilities={})
            yield browser
    finally:
        process.terminate()
        await process.wait()


@pytest.mark.parametrize(
    "search",
    [
        pytest.param(firefox.find, id="installed"),
        pytest.param(firefox.obtain, id="obtained", marks=pytest.mark.soak),
    ],
)
async def test_two_people_talk_in_firefox(
    search: Callable[[], Path | None], demo: ServerProcess, tmp_path: Path
) -> None:
    try:
        path = search()
    except Unavailable as error:
        pytest.skip(str(error))
    if path is None:
        pytest.skip("Firefox is not installed; `make soak` obtains it")
    async with started(path, tmp_path / "firefox") as browser:
        alice, bob = await browser.window(demo.url), await browser.window(demo.url)
        await alice.click("button", "Alice")
        await bob.click("button", "Bob")
        await alice.click(".entry", "Bob")
        await bob.click(".entry", "Alice")
        await alice.send("Hello from a fox")
        await bob.find(".text", "Hello from a fox")
        await bob.send("Hello fox")
        await alice.find(".text", "Hello fox")
        await alice.find(".row:has(.tick.read)", "Hello from a fox")

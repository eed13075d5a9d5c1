# SPDX-License-Identifier: Apache-2.0
"""People in a browser, each with a profile of their own, and a page that has only the client."""

import urllib.parse
from types import TracebackType
from typing import Any, Final, Self

from playwright.async_api import Browser, BrowserContext, Page, Route, WebSocket, expect

from tests.support.people import Person
from tests.support.waiting import WAIT_SECONDS, until
from tidings.api.web_app import load_web_app

expect.set_options(timeout=WAIT_SECONDS * 1_000)

FLAGS: Final = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    # A page that a test answers for counts as one from the internet, which may not reach a server
    # on this machine.
    "--disable-features=LocalNetworkAccessChecks,LocalNetworkAccessChecksWebSockets",
)

_PLACE: Final = "/page-of-a-test/"
_PAGE: Final = f"""<!doctype html><title>Client</title><script type="module">
import {{ Tidings }} from "{_PLACE}client.js";
const token = decodeURIComponent(location.hash.slice(1));
// Real pauses between attempts to connect are up to a minute.
const clock = {{ now: () => performance.now(), wall: () => Date.now(), random: () => 0.02 }};
window.tidings = new Tidings(location.origin, {{ token: () => token, clock }});
window.watch = (chat) => (window.view = tidings.chat(chat)).subscribe(() => {{}});
window.messages = async () => {{
  const isLive = tidings.state.snapshot().connection === "live";
  while (isLive && view.snapshot().hasOlder) await view.older();
  return view.snapshot().rows.filter((row) => row.kind === "message");
}};
window.stored = async () => {{
  const done = (request) => new Promise((resolve, reject) => {{
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  }});
  const database = await done(indexedDB.open(`tidings ${{location.origin}}`));
  const names = [...database.objectStoreNames];
  const transaction = database.transaction(names);
  const all = await Promise.all(names.map((name) => done(transaction.objectStore(name).getAll())));
  database.close();
  return JSON.stringify(all);
}};
window.tidings.start();
</script>"""

_TELL_VIOLATIONS: Final = """
addEventListener("securitypolicyviolation", ({ violatedDirective, blockedURI, sample }) =>
  window.violated(`${violatedDirective}: ${blockedURI} ${sample}`));
"""


FOR_AXE: dict[str, Any] = {"bypass_csp": True, "reduced_motion": "reduce"}
"""Options of a profile whose pages axe examines: it adds a script, and nothing may be faded."""


class Visitors:
    """Everybody who uses the browser in one test."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._contexts: list[BrowserContext] = []
        self.errors: list[str] = []
        """What no script caught, and what the content security policy refused."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for context in self._contexts:
            await context.close()

    async def profile(self, **options: Any) -> BrowserContext:
        """A browser profile: its storage is its own. Errors of its pages are collected."""
        context = await self._browser.new_context(**options)
        self._contexts.append(context)
        context.set_default_timeout(WAIT_SECONDS * 1_000)
        context.on("weberror", lambda error: self.errors.append(str(error.error)))
        await context.expose_function("violated", lambda what: self.errors.append(what))
        await context.add_init_script(_TELL_VIOLATIONS)
        return context

    async def visitor(self, person: Person, url: str | None = None) -> "Visitor":
        """Somebody with a profile, whose tabs have nothing but the client."""
        context = await self.profile()
        client = await load_web_app().files["src/index.js"].form("identity")

        async def answer(route: Route) -> None:
            if route.request.url.endswith("client.js"):
                await route.fulfill(body=client, content_type="text/javascript")
            else:
                await route.fulfill(body=_PAGE, content_type="text/html")

        await context.route(f"**{_PLACE}*", answer)
        return Visitor(context, person, url or person.town.url)


class Visitor:
    """Somebody with a browser profile of their own."""

    def __init__(self, context: BrowserContext, person: Person, url: str) -> None:
        self.context = context
        self.person = person
        self._url = url
        self._sockets: set[WebSocket] = set()

    @property
    def sockets(self) -> int:
        """How many sockets are open now, in all tabs."""
        return len(self._sockets)

    async def tab(self, chat: str | None = None, *, live: bool = True) -> "Tab":
        """A new tab that shows a chat, when it has caught up."""
        page = await self.context.new_page()
        self._count_sockets(page)
        await page.goto(f"{self._url}{_PLACE}#{urllib.parse.quote(self.person.token)}")
        tab = Tab(page)
        if live:
            await tab.is_live()
        if chat is not None:
            await tab.watch(chat)
        return tab

    def _count_sockets(self, page: Page) -> None:
        mine: set[WebSocket] = set()

        def opened(socket: WebSocket) -> None:
            mine.add(socket)
            self._sockets.add(socket)
            socket.on("close", lambda _: self._sockets.discard(socket))

        page.on("websocket", opened)
        # A tab that is closed does not say what becomes of its sockets.
        page.on("close", lambda _: self._sockets.difference_update(mine))


class Tab:
    """A tab with the client."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self._chat: str | None = None

    async def run(self, script: str, argument: object = None) -> Any:
        """The value of an expression, or of a call of a function with the argument."""
        return await self.page.evaluate(script, argument)

    async def state(self) -> dict[str, Any]:
        """The state of the client."""
        state: dict[str, Any] = await self.run("window.tidings?.state.snapshot() ?? {}")
        return state

    async def connection(self) -> str | None:
        """The state of the connection."""
        return (await self.state()).get("connection")

    async def is_live(self) -> None:
        """Wait until the client is connected and has caught up."""
        await until(self.connection, equals="live")

    async def leads(self) -> bool:
        """Whether this tab has the socket."""
        return bool((await self.state()).get("leads"))

    async def watch(self, chat: str) -> None:
        """Show a chat."""
        self._chat = chat
        await self.run("watch", chat)

    async def send(self, *texts: str) -> None:
        """Send messages, without waiting for anything."""
        await self.run("(texts) => texts.forEach((text) => void view.send(text))", list(texts))

    async def messages(self) -> list[dict[str, Any]]:
        """The rows of all messages, oldest first."""
        messages: list[dict[str, Any]] = await self.run("messages()")
        return messages

    async def texts(self) -> list[str | None]:
        """The texts of all messages, oldest first."""
        return [row.get("content") for row in await self.messages()]

    async def shows(self, *texts: str | None) -> None:
        """Wait until the chat has exactly these messages."""
        await until(self.texts, equals=list(texts))

    async def stored(self) -> str:
        """Everything that the browser's database holds, as JSON."""
        return str(await self.run("stored()"))

    async def reload(self, *, live: bool = True) -> None:
        """Load the page again, and show the same chat."""
        await self.page.reload()
        if live:
            await self.is_live()
        if self._chat is not None:
            await self.watch(self._chat)

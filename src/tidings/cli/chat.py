# SPDX-License-Identifier: Apache-2.0
"""`tidings chat`: a demo in which two users chat, each in a terminal."""

import asyncio
from argparse import ArgumentParser, Namespace
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from tidings import __version__
from tidings.cli.server_access import known_root_key, need_client, plain, server_url, trust_of
from tidings.cli.terminal import Terminal, open_terminal
from tidings.config import Config
from tidings.model.setup_error import SetupError

if TYPE_CHECKING:
    import httpx

    from tidings_client import Client, Event, Message

HISTORY_ENTRIES: Final = 20
TOKEN_SECONDS: Final = 86_400
TYPING_SECONDS: Final = 6.0
LAST_WORDS_SECONDS: Final = 5.0


def add_chat_options(parser: ArgumentParser) -> None:
    """Add the options of `tidings chat`."""
    parser.add_argument("--as", dest="me", metavar="USER", required=True, help="your user id")
    parser.add_argument("--with", dest="other", metavar="USER", help="the other user (bob)")
    parser.add_argument(
        "--server", metavar="URL", help="the server (the one that runs on the data folder)"
    )
    parser.add_argument("--tenant", default="demo", help="the tenant of both users (demo)")


def chat(config: Config, options: Namespace) -> int:
    """Chat until `/quit` or the end of the input; return the exit code."""
    need_client()
    from tidings_client import TidingsError

    me, other = options.me, options.other or ("alice" if options.me == "bob" else "bob")
    if me == other:
        raise SetupError("both users are the same: name another user with --with")
    url = server_url(config, options.server, "--server")
    root_key = known_root_key(config)
    try:
        asyncio.run(_meet(url, root_key, options.tenant, me, other))
    except KeyboardInterrupt:
        pass
    except (TidingsError, OSError) as error:
        raise SetupError(str(error)) from error
    return 0


async def _meet(url: str, root_key: str, tenant: str, me: str, other: str) -> None:
    import httpx

    from tidings_client import Client

    headers = {"Authorization": f"Bearer {root_key}"}
    # No proxy is used, because only the given server may get the root key.
    trust = trust_of(url)
    async with httpx.AsyncClient(
        base_url=url, headers=headers, trust_env=False, verify=trust or False
    ) as http:
        await _token(http, tenant, other)
        token = partial(_token, http, tenant, me)
        name = f"tidings-chat/{__version__}"
        async with Client(
            url, token=token, device="terminal", client_name=name, ssl_context=trust
        ) as client:
            direct = await client.api.create_direct(other)
            with open_terminal() as terminal:
                terminal.show(f"You are {me}, talking to {other} at {url}. /quit ends it.")
                await Talk(client, direct.chat_id, me, other, terminal).run()


async def _token(http: "httpx.AsyncClient", tenant: str, user: str) -> str:
    """Return a token for a user; create the user and the tenant if they do not exist."""
    import httpx

    path = f"/v1/tenants/{tenant}"
    wanted = {"user_id": user, "expires_in": TOKEN_SECONDS}
    try:
        answer = await http.post(f"{path}/tokens", json=wanted)
        if answer.status_code == 404:
            (await http.put(path, json={})).raise_for_status()
            answer = await http.post(f"{path}/tokens", json=wanted)
        if answer.is_error:
            raise SetupError(f"no token for {user}: {answer.json().get('detail')}")
    except (httpx.HTTPError, ValueError) as error:
        raise SetupError(f"{http.base_url} gave an unexpected answer: {error!r}") from None
    return str(answer.json()["token"])


class Talk:
    """Shows a direct chat on the terminal, and sends the lines that the user types."""

    def __init__(
        self, client: "Client", chat: str, me: str, other: str, terminal: Terminal
    ) -> None:
        self._client = client
        self._chat = chat
        self._me, self._other = me, other
        self._terminal = terminal
        self._width = max(len(me), len(other))
        self._is_connected = True
        """Whether the last state shown was "connected"."""
        self._shown = 0
        """The sequence of the newest entry on the screen."""
        self._mine = 0
        """The sequence of the user's newest message, or 0 if the other user wrote after it."""
        self._waiting: set[str] = set()
        """The client_message_id of each message from the user that is not on the screen yet."""
        self._none_waits = asyncio.Event()

    async def run(self) -> None:
        """Show the history, then new entries, until the input ends."""
        history = await self._client.history(self._chat, limit=HISTORY_ENTRIES)
        for event in history.entries:
            await self._show(event)
        for receipt in await self._client.api.receipts(self._chat):
            if receipt.user_id == self._other:
                self._show_receipt(receipt.delivered, receipt.read)
        tasks = [asyncio.create_task(work()) for work in (self._write, self._follow, self._notice)]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if tasks[0].done():
                await self._last_words()
            for task in tasks:
                if task.done():
                    task.result()
        finally:
            for task in tasks:
                task.cancel()

    async def _write(self) -> None:
        from tidings_client import Refused

        async for line in self._terminal.lines():
            if line.strip() in ("/quit", "/q"):
                return
            if not line.strip():
                continue
            if not self._client.is_live:
                self._terminal.show(f"  (waiting for a connection: {plain(line)})")
            try:
                self._waiting.add(self._client.send_nowait(self._chat, line))
                self._none_waits.clear()
            except Refused as refused:
                self._terminal.show(f"  (not sent: {refused.detail})")

    async def _notice(self) -> None:
        """Tell the other user whenever this user types."""
        while True:
            await self._terminal.typed.wait()
            self._terminal.typed.clear()
            await self._client.typing(self._chat)

    async def _last_words(self) -> None:
        """Wait a moment until the messages typed just before `/quit` are sent."""
        if not self._waiting:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_WORDS_SECONDS):
                await self._none_waits.wait()
        if self._waiting:
            self._terminal.show(f"  ({len(self._waiting)} not sent: there is no connection)")

    async def _follow(self) -> None:
        async for event in self._client.events():
            await self._show(event)

    async def _show(self, event: "Event") -> None:
        from tidings_client import events

        if isinstance(event, events.EntryEvent):
            if event.chat != self._chat or event.sequence <= self._shown:
                return
            self._shown = event.sequence
        match event:
            case events.Message():
                await self._show_message(event)
            case events.Edited(content=str(content)):
                self._terminal.show(f"  ({event.sender} edited a message: {plain(content)})")
            case events.Redacted():
                self._terminal.show(f"  ({event.sender} redacted a message)")
            case events.ReceiptMoved() if event.chat == self._chat and event.user == self._other:
                self._show_receipt(event.delivered, event.read)
            case events.Typing() if event.chat == self._chat and event.user == self._other:
                self._terminal.note(f"{self._other} is typing", TYPING_SECONDS)
            case events.Disconnected() if self._is_connected:
                self._is_connected = False
                self._terminal.show(f"  (disconnected: {event.reason}; reconnecting)")
            case events.Connected() if not self._is_connected:
                self._is_connected = True
                self._terminal.show("  (reconnected)")
            case events.SendFailed():
                self._settle(event.client_message_id)
                self._terminal.show(f"  (not sent: {plain(event.content)}: {event.detail})")
            case _:
                pass

    async def _show_message(self, message: "Message") -> None:
        time = message.created_at.astimezone().strftime("%H:%M")
        content = plain(message.content) if message.content is not None else f"({message.gone})"
        self._mine = message.sequence if message.sender == self._me else 0
        if self._mine:
            self._settle(message.client_message_id)
        else:
            self._terminal.forget_note()
            await self._client.read(self._chat, message.sequence)
        self._terminal.show(f"{time}  {message.sender:<{self._width}}  {content}")
        self._terminal.say_status("sent" if self._mine else "")

    def _settle(self, client_message_id: str) -> None:
        self._waiting.discard(client_message_id)
        if not self._waiting:
            self._none_waits.set()

    def _show_receipt(self, delivered: int, read: int) -> None:
        """Show whether the other user has received or read the newest message, if it is ours."""
        if 0 < self._mine <= delivered:
            self._terminal.say_status("read" if read >= self._mine else "delivered")

# SPDX-License-Identifier: Apache-2.0
"""`tidings chat`: two terminals that talk, in a pipe and on a terminal."""

import asyncio
import os
import pty
import re
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from tests.support.server import ServerProcess
from tests.support.waiting import WAIT_SECONDS, until

LEFT: Final = "\x1b[D"
ESCAPES: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Pane:
    """One `tidings chat`, and everything it has printed."""

    def __init__(self, process: asyncio.subprocess.Process, keys: int, screen: int) -> None:
        self.process = process
        self._keys = keys
        self._screen = screen
        self._printed = ""

    @property
    def printed(self) -> str:
        """What it printed, without the colours and movements of a terminal."""
        return ESCAPES.sub("", self._printed)

    def type(self, text: str) -> None:
        os.write(self._keys, text.encode())

    async def until(self, text: str) -> str:
        """Wait until this has been printed; what stands before it is forgotten."""
        await until(partial(self._reads, text), describe=lambda: self.printed)
        before, _, self._printed = self.printed.partition(text)
        return before

    async def prompt(self, text: str) -> None:
        """Have the terminal drawn anew, as after a change of its size, until this is its prompt."""
        await until(partial(self._redrawn, text), describe=lambda: self.printed)

    async def _redrawn(self, text: str) -> bool:
        self.process.send_signal(signal.SIGWINCH)
        return (await self.until(">")).endswith(text)

    async def _reads(self, text: str) -> bool:
        if text not in self.printed:
            with suppress(OSError):
                self._printed += (await asyncio.to_thread(os.read, self._screen, 4_096)).decode()
        return text in self.printed

    async def end(self) -> int:
        async with asyncio.timeout(WAIT_SECONDS):
            return await self.process.wait()


@asynccontextmanager
async def a_pane(user: str, data: Path, *, is_terminal: bool) -> AsyncIterator[Pane]:
    if is_terminal:
        keys, far_end = pty.openpty()
        screen, ends = keys, (far_end, far_end)
    else:
        far_keys, keys = os.pipe()
        screen, far_screen = os.pipe()
        ends = (far_keys, far_screen)
    command = [sys.executable, "-m", "tidings", "chat", "--as", user, "--data", str(data)]
    process = await asyncio.create_subprocess_exec(
        *command, stdin=ends[0], stdout=ends[1], env=_environment()
    )
    for end in set(ends):
        os.close(end)
    try:
        yield Pane(process, keys, screen)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        for end in {keys, screen}:
            os.close(end)


def _environment() -> dict[str, str]:
    own = {name: text for name, text in os.environ.items() if not name.startswith("TIDINGS_")}
    # Nobody here answers where the cursor is.
    return own | {"TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1"}


@pytest.mark.slow
async def test_two_terminals_talk(server: ServerProcess) -> None:
    async with (
        a_pane("alice", server.data, is_terminal=True) as alice,
        a_pane("bob", server.data, is_terminal=False) as bob,
    ):
        await alice.until("You are alice, talking to bob")
        await bob.until("You are bob, talking to alice")
        bob.type("hello\n")
        await alice.until("bob    hello")
        await bob.until("(read)")
        alice.type("alf a 行")
        await alice.until("alf a 行")
        bob.type("\x1b[31mand again\x07\n")
        await alice.until("and again")
        await alice.until("> alf a 行")
        alice.type("\x7f" + LEFT * 6 + "h\x05line\n")
        await bob.until("alice  half a line\n")
        await alice.prompt("[read] ")
        alice.type("goodbye\n/quit\n")
        assert await alice.end() == 0
        await bob.until("alice  goodbye\n")
        bob.type("/quit\n")
        assert await bob.end() == 0


async def refusal(arguments: Sequence[str], folder: Path) -> str:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tidings", "chat", *arguments),
        stderr=asyncio.subprocess.PIPE,
        env=_environment(),
        cwd=folder,
    )
    _, said = await process.communicate()
    assert process.returncode == 2
    return said.decode()


async def test_without_a_server_it_says_what_to_do(tmp_path: Path) -> None:
    assert "`tidings serve`" in await refusal(["--as", "alice"], tmp_path)
    assert "name another user" in await refusal(["--as", "alice", "--with", "alice"], tmp_path)

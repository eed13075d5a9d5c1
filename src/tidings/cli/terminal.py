# SPDX-License-Identifier: Apache-2.0
"""Input and output of lines at the same time, for `tidings chat`.

On a terminal the line being typed stays below the output. In a pipe lines are just lines.
"""

import asyncio
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Self

from tidings.model.setup_error import SetupError

if TYPE_CHECKING:
    from prompt_toolkit.buffer import Buffer


class Terminal(ABC):
    """Lines that a user types, and output that arrives meanwhile."""

    def __init__(self) -> None:
        self.typed = asyncio.Event()
        """Set by every change of the line being typed."""
        self._status = ""
        self._note = ""
        self._note_end: asyncio.TimerHandle | None = None

    def __enter__(self) -> Self:
        return self

    @abstractmethod
    def __exit__(self, *_: object) -> None:
        """Leave the screen as it was found."""

    @abstractmethod
    def lines(self) -> AsyncIterator[str]:
        """Yield the lines typed, until the end of the input."""

    def show(self, text: str) -> None:
        """Show a line above the line being typed."""
        print(text, flush=True)

    def say_status(self, status: str) -> None:
        """Show the status of the newest message in the prompt."""
        if status != self._status:
            self._status = status
            self._show_prompt()

    def note(self, text: str, seconds: float) -> None:
        """Show a text in the prompt for some seconds."""
        self.forget_note()
        self._note = text
        self._note_end = asyncio.get_running_loop().call_later(seconds, self.forget_note)
        self._show_prompt()

    def forget_note(self) -> None:
        """Remove the text of `note` from the prompt."""
        if self._note_end is not None:
            self._note_end.cancel()
            self._note_end = None
            self._note = ""
            self._show_prompt()

    @abstractmethod
    def _show_prompt(self) -> None:
        """Show the prompt again, because its status or note has changed."""


class PipeTerminal(Terminal):
    """Standard input and output of which at least one is no terminal."""

    def __enter__(self) -> Self:
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        call = asyncio.get_running_loop().call_soon_threadsafe
        # A thread, because reading standard input blocks; it ends with the process.
        threading.Thread(target=self._read, args=(call,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """Leave all as it is."""

    async def lines(self) -> AsyncIterator[str]:
        """Yield the lines typed, until the end of the input."""
        while (line := await self._lines.get()) is not None:
            self.typed.set()
            yield "".join(letter for letter in line if letter.isprintable())

    def say_status(self, status: str) -> None:
        """Print the status of the newest message, as there is no prompt."""
        if status not in (self._status, "", "sent"):
            print(f"  ({status})", flush=True)
        self._status = status

    def _show_prompt(self) -> None:
        """Do nothing: a pipe has no prompt."""

    def _read(self, call: Callable[..., object]) -> None:
        with (
            suppress(RuntimeError),  # the loop may have ended meanwhile
            open(sys.stdin.fileno(), errors="replace", closefd=False) as file,
        ):
            for line in file:
                call(self._lines.put_nowait, line)
            call(self._lines.put_nowait, None)


class PromptTerminal(Terminal):
    """A terminal whose last line is edited with all the usual keys."""

    def __init__(self) -> None:
        super().__init__()
        from prompt_toolkit import PromptSession

        self._session: PromptSession[str] = PromptSession(self.prompt, erase_when_done=True)
        self._session.default_buffer.on_text_changed += self._changed
        self._patched = ExitStack()

    def __enter__(self) -> Self:
        from prompt_toolkit.patch_stdout import patch_stdout

        self._patched.enter_context(patch_stdout())
        return self

    def __exit__(self, *_: object) -> None:
        """Print what still waits to be printed."""
        self._patched.close()

    async def lines(self) -> AsyncIterator[str]:
        """Yield the lines typed, until the end of the input."""
        with suppress(EOFError, KeyboardInterrupt):
            while True:
                yield await self._session.prompt_async()

    def prompt(self) -> str:
        """Return what stands before the line being typed."""
        text = self._note or self._status
        return f"[{text}] > " if text else "> "

    def _changed(self, buffer: "Buffer") -> None:
        if buffer.text:
            self.typed.set()

    def _show_prompt(self) -> None:
        self._session.app.invalidate()


def open_terminal() -> Terminal:
    """Return the terminal that standard input and output are, or a pipe.

    Raises:
        SetupError: It is a terminal, and the package for it is not installed.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return PipeTerminal()
    try:
        return PromptTerminal()
    except ImportError:
        raise SetupError(
            "on a terminal this needs prompt_toolkit: pip install 'tidings[chat]'"
        ) from None

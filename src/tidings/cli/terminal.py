# SPDX-License-Identifier: Apache-2.0
"""Reads typed lines while output arrives, and shows the progress of commands.

On a terminal, the line being typed stays below the output. In a pipe, there is no such line.
"""

import asyncio
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, suppress
from time import monotonic
from typing import TYPE_CHECKING, Final, Self

from tidings.model.setup_error import SetupError

if TYPE_CHECKING:
    from prompt_toolkit.buffer import Buffer

BAR_CHARS: Final = 30

_CLEAR_LINE: Final = "\r\033[K"
_TERMINAL_SECONDS: Final = 0.2


class ProgressLine:
    """Terminal line that shows progress: each text overwrites the last, and exit clears the line.

    If standard error is not a terminal but, for example, a log file, a new line is printed every
    `log_seconds`. If that is None, nothing is printed.
    """

    def __init__(self, log_seconds: float | None = None) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._pause = _TERMINAL_SECONDS if self._is_terminal else log_seconds
        self._next = monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    @property
    def is_due(self) -> bool:
        """Whether it is time to show another text."""
        return self._pause is not None and monotonic() >= self._next

    def show(self, text: str) -> None:
        """Show a text in place of the last one."""
        if self._pause is None:
            return
        self._next = monotonic() + self._pause
        if self._is_terminal:
            self._write(_CLEAR_LINE + text)
        else:
            self._write(text + "\n")

    def clear(self) -> None:
        """Clear the line for other output."""
        if self._is_terminal:
            self._write(_CLEAR_LINE)

    def _write(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()


def bar(done: int, total: int) -> str:
    """Return a progress bar, followed by `done` and `total`."""
    share = done / total if total else 1.0
    filled = int(BAR_CHARS * share)
    return f"[{'#' * filled}{'.' * (BAR_CHARS - filled)}] {done:,} of {total:,}"


class Terminal(ABC):
    """Reads the lines that a user types, and shows output that arrives meanwhile."""

    def __init__(self) -> None:
        self.typed = asyncio.Event()
        """Set whenever the user changes the line being typed."""
        self._status = ""
        self._note = ""
        self._note_end: asyncio.TimerHandle | None = None

    def __enter__(self) -> Self:
        return self

    @abstractmethod
    def __exit__(self, *_: object) -> None:
        """Restore the screen."""

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
    """Terminal for standard input and output if at least one of them is a pipe or a file."""

    def __enter__(self) -> Self:
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        call = asyncio.get_running_loop().call_soon_threadsafe
        # Reading standard input blocks, so a thread does it; the thread ends with the process.
        threading.Thread(target=self._read, args=(call,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing, because a pipe has no screen."""

    async def lines(self) -> AsyncIterator[str]:
        """Yield the lines typed, until the end of the input."""
        while (line := await self._lines.get()) is not None:
            self.typed.set()
            yield "".join(letter for letter in line if letter.isprintable())

    def say_status(self, status: str) -> None:
        """Print the status of the newest message, because there is no prompt."""
        if status not in (self._status, "", "sent"):
            print(f"  ({status})", flush=True)
        self._status = status

    def _show_prompt(self) -> None:
        """Do nothing, because a pipe has no prompt."""

    def _read(self, call: Callable[..., object]) -> None:
        with (
            suppress(RuntimeError),  # the loop may have ended meanwhile
            open(sys.stdin.fileno(), errors="replace", closefd=False) as file,
        ):
            for line in file:
                call(self._lines.put_nowait, line)
            call(self._lines.put_nowait, None)


class PromptTerminal(Terminal):
    """Terminal with a prompt in its last line, where the user types and edits."""

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
        """Print the output that has not been printed yet."""
        self._patched.close()

    async def lines(self) -> AsyncIterator[str]:
        """Yield the lines typed, until the end of the input."""
        with suppress(EOFError, KeyboardInterrupt):
            while True:
                yield await self._session.prompt_async()

    def prompt(self) -> str:
        """Return the text before the line being typed: a note or status, and `>`."""
        text = self._note or self._status
        return f"[{text}] > " if text else "> "

    def _changed(self, buffer: "Buffer") -> None:
        if buffer.text:
            self.typed.set()

    def _show_prompt(self) -> None:
        self._session.app.invalidate()


def open_terminal() -> Terminal:
    """Return a terminal with a prompt, or a pipe if standard input or output is not a terminal.

    Raises:
        SetupError: The package that a terminal needs is not installed.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return PipeTerminal()
    try:
        return PromptTerminal()
    except ImportError:
        raise SetupError(
            "on a terminal this needs prompt_toolkit: pip install 'tidings[chat]'"
        ) from None

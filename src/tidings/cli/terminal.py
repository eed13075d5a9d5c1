# SPDX-License-Identifier: Apache-2.0
"""A terminal that shows output while the user types."""

import asyncio
import os
import re
import shutil
import sys
import termios
import threading
import tty
from codecs import getincrementaldecoder
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, Final, Self

CLEAR_LINE: Final = "\r\033[K"
ERASE: Final = ("\x7f", "\b")
ERASE_LINE: Final = "\x15"
END: Final = "\x04"
_ESCAPES: Final = re.compile("\x1b(\\[[0-9;]*[A-Za-z~]|O[A-Za-z])?")
"""Arrow keys and other escape sequences, which are ignored."""


class Terminal:
    """Input and output of lines at the same time. On a terminal the line being typed stays below
    the output; in a pipe lines are just lines."""

    def __init__(self) -> None:
        self.typed = asyncio.Event()
        """Set by every key."""
        self._is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()
        self._decoder = getincrementaldecoder("utf-8")("replace")
        self._line = ""
        self._status = ""
        self._note = ""
        self._note_end: asyncio.TimerHandle | None = None
        self._modes: list[Any] = []

    def __enter__(self) -> Self:
        if self._is_terminal:
            self._modes = termios.tcgetattr(sys.stdin)
            tty.setcbreak(sys.stdin)
            self._draw()
        # A thread, because reading standard input blocks; it ends with the process.
        threading.Thread(target=self._read, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_terminal:
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self._modes)
            print(CLEAR_LINE, end="", flush=True)

    async def lines(self) -> AsyncIterator[str]:
        """Yield the lines typed, until the end of the input."""
        while (line := await self._lines.get()) is not None:
            yield line

    def show(self, text: str) -> None:
        """Show a line above the line being typed."""
        print(f"{CLEAR_LINE if self._is_terminal else ''}{text}", flush=True)
        self._draw()

    def say_status(self, status: str) -> None:
        """Show the status of the newest message in the prompt."""
        if status != self._status:
            self._status = status
            if self._is_terminal:
                self._draw()
            elif status not in ("", "sent"):
                print(f"  ({status})", flush=True)

    def note(self, text: str, seconds: float) -> None:
        """Show a text in the prompt for some seconds."""
        if self._note_end is not None:
            self._note_end.cancel()
        self._note = text
        self._note_end = self._loop.call_later(seconds, self.forget_note)
        self._draw()

    def forget_note(self) -> None:
        """Remove the text of `note` from the prompt."""
        self._note = ""
        self._draw()

    def _draw(self) -> None:
        if self._is_terminal:
            text = self._note or self._status
            prompt = f"[{text}] > " if text else "> "
            room = shutil.get_terminal_size().columns - len(prompt) - 1
            print(f"{CLEAR_LINE}{prompt}{self._line[-room:]}", end="", flush=True)

    def _read(self) -> None:
        chunk = b"-"
        while chunk:
            chunk = os.read(sys.stdin.fileno(), 4_096)
            with suppress(RuntimeError):  # the loop may have ended meanwhile
                self._loop.call_soon_threadsafe(self._take, chunk)

    def _take(self, chunk: bytes) -> None:
        for key in _ESCAPES.sub("", self._decoder.decode(chunk, not chunk)):
            self._press(key)
        if not chunk:
            if self._line:
                self._press("\n")
            self._lines.put_nowait(None)
        self._draw()

    def _press(self, key: str) -> None:
        if key in "\r\n":
            self._lines.put_nowait(self._line)
            self._line = ""
        elif key in ERASE:
            self._line = self._line[:-1]
        elif key == ERASE_LINE:
            self._line = ""
        elif key == END:
            if not self._line:
                self._lines.put_nowait(None)
        elif key.isprintable():
            self._line += key
            self.typed.set()

# SPDX-License-Identifier: Apache-2.0
"""The progress of a command on standard error."""

import sys
from time import monotonic
from typing import Final, Self

BAR_CHARS: Final = 30

_CLEAR_LINE: Final = "\r\033[K"
_TERMINAL_SECONDS: Final = 0.2


class ProgressLine:
    """Line that is overwritten with each text, on a terminal; cleared at the end.

    Elsewhere, for example in a log file, nothing is printed, or a line every `log_seconds`.
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
        """Whether a text shown now is neither too soon after the last one nor unwanted."""
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
        """Make room for other output."""
        if self._is_terminal:
            self._write(_CLEAR_LINE)

    def _write(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()


def bar(done: int, total: int) -> str:
    """Return a progress bar with its numbers."""
    share = done / total if total else 1.0
    filled = int(BAR_CHARS * share)
    return f"[{'#' * filled}{'.' * (BAR_CHARS - filled)}] {done:,} of {total:,}"

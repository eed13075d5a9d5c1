# SPDX-License-Identifier: Apache-2.0
"""A progress line for commands, shown on a terminal only."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tidings.cli.terminal import CLEAR_LINE

BAR_CHARS: Final = 30


class ProgressLine:
    """Line on standard error that is overwritten with each text."""

    def __call__(self, text: str) -> None:
        if sys.stderr.isatty():
            sys.stderr.write(CLEAR_LINE + text)
            sys.stderr.flush()


@contextmanager
def progress_line(text: str) -> Iterator[ProgressLine]:
    """Show a progress line with this text, and clear it at the end."""
    say = ProgressLine()
    say(text)
    try:
        yield say
    finally:
        say("")


def bar(done: int, total: int) -> str:
    """Return a progress bar with its numbers."""
    share = done / total if total else 1.0
    filled = int(BAR_CHARS * share)
    return f"[{'#' * filled}{'.' * (BAR_CHARS - filled)}] {done:,} of {total:,}"

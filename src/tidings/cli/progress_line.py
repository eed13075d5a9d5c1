# SPDX-License-Identifier: Apache-2.0
"""A line that says how far a command is, on a terminal; nowhere else."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tidings.cli.terminal import CLEAR_LINE

BAR_CHARS: Final = 30


class ProgressLine:
    """Written again and again, and gone at the end."""

    def __call__(self, text: str) -> None:
        if sys.stderr.isatty():
            sys.stderr.write(CLEAR_LINE + text)
            sys.stderr.flush()


@contextmanager
def progress_line(text: str) -> Iterator[ProgressLine]:
    """A line that begins with this text."""
    say = ProgressLine()
    say(text)
    try:
        yield say
    finally:
        say("")


def bar(done: int, total: int) -> str:
    """How much of it is done, to be seen at a glance."""
    share = done / total if total else 1.0
    filled = int(BAR_CHARS * share)
    return f"[{'#' * filled}{'.' * (BAR_CHARS - filled)}] {done:,} of {total:,}"

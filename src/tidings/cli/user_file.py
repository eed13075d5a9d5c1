# SPDX-License-Identifier: Apache-2.0
"""User ids in the first column of a CSV file."""

import csv
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tidings.cli.reaching import CommandRefused
from tidings.model.ids import USER

HEADINGS: Final = ("user_id", "uid")
BYTE_ORDER_MARK: Final = "\ufeff"
"""What some spreadsheets write before everything else."""


def read_users(name: str) -> list[str]:
    """The users that a file names, each once, in its order; `-` is standard input.

    Raises:
        CommandRefused: It cannot be read, or something in it is no user id; says where.
    """
    try:
        if name == "-":
            return _users(sys.stdin, "standard input")
        # What is not UTF-8 is no user id either, and is told with its line.
        with Path(name).open(encoding="utf-8", errors="replace", newline="") as lines:
            return _users(lines, name)
    except OSError as error:
        raise CommandRefused(f"{name}: {error.strerror}") from error


def _users(lines: Iterable[str], name: str) -> list[str]:
    reader = csv.reader(lines)
    found: dict[str, None] = {}
    try:
        for number, row in enumerate(reader):
            first = row[0].strip().removeprefix(BYTE_ORDER_MARK).strip() if row else ""
            if not first or (number == 0 and first.lower() in HEADINGS):
                continue
            if USER.fullmatch(first) is None:
                raise CommandRefused(f"{name}, line {reader.line_num}: {first!r:.80} is no user id")
            found[first] = None
    except csv.Error as error:
        raise CommandRefused(f"{name}, line {reader.line_num}: {error}") from error
    if not found:
        raise CommandRefused(f"{name} names no user")
    return list(found)

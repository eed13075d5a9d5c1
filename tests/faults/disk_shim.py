# SPDX-License-Identifier: Apache-2.0
"""The shim between a server and its disk: built, put in place, and its notes made use of."""

import os
import random
import shutil
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import pytest

from tests.support.server import ServerProcess

SOURCE: Final = Path(__file__).with_name("unsynced.c")
NOT_TESTED: Final = "NOT TESTED: loss of power and disk trouble, for want of a C compiler"
SECTOR: Final = 512
SYNC_US: Final = 5_000
WRITE: Final = 1
TRUNCATE: Final = 2
SYNC: Final = 3

Trouble = Literal["full", "failing"]
"""There is no room for writes, or syncs fail."""

_RECORD: Final = struct.Struct("<IIQQQII")


@dataclass(frozen=True, slots=True)
class Record:
    """One change of a file, or one sync of it."""

    kind: int
    path: Path
    number: int
    offset: int
    old_size: int
    old: bytes
    new: bytes


def find_compiler() -> str | None:
    """The C compiler, if there is one."""
    return shutil.which("cc")


def build_shim(folder: Path) -> Path:
    """Compile the shim; skips the test, loudly, where there is no C compiler and nobody checks."""
    compiler = find_compiler()
    if compiler is None and not os.environ.get("CI"):
        pytest.skip(NOT_TESTED)
    assert compiler is not None, "install a C compiler: it makes the shim that loses power"
    shim = folder / "unsynced.so"
    flags = ["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([compiler, *flags, "-o", shim, SOURCE, "-ldl", "-lpthread"], check=True)
    return shim


class DiskShim:
    """A shim for one server: its notes and its trouble are files beside the data folder."""

    def __init__(self, server: ServerProcess, shim: Path) -> None:
        self._data = server.data
        self._notes = server.data.with_name("unsynced.log")
        self._trouble = server.data.with_name("trouble")
        self._trouble.mkdir()
        server.preload = shim
        server.environment |= {
            "UNSYNCED_FOLDER": str(server.data.resolve()),
            "UNSYNCED_LOG": str(self._notes),
            "UNSYNCED_SYNC_US": str(SYNC_US),
            "UNSYNCED_TROUBLE": str(self._trouble),
        }

    def begin(self, trouble: Trouble) -> None:
        """From now on the disk is sick."""
        (self._trouble / trouble).touch()

    def end(self, trouble: Trouble) -> None:
        """The disk is well again."""
        (self._trouble / trouble).unlink()

    def lose_power(self, chance: random.Random | None = None) -> int:
        """Take back every write since the last sync of its file; returns how many there were.

        With `chance` some of them are on the disk all the same, whole or in part, in any order:
        a disk promises nothing about what it was not told to keep. Only for a dead server.
        """
        unsynced = _unsynced(self._notes)
        for record in reversed(unsynced):
            _undo(record)
        if chance is not None:
            for record in unsynced:
                _keep_perhaps(record, chance)
        for shared_memory in self._data.glob("*-shm"):
            shared_memory.unlink()
        self._notes.unlink(missing_ok=True)
        return len(unsynced)


def _records(notes: Path) -> Iterator[Record]:
    """The records; the last may be cut short by the kill, and then its write never happened."""
    whole = notes.read_bytes() if notes.exists() else b""
    at = 0
    while at + _RECORD.size <= len(whole):
        kind, path_bytes, number, offset, old_size, old_bytes, new_bytes = _RECORD.unpack_from(
            whole, at
        )
        path_at = at + _RECORD.size
        old_at = path_at + path_bytes
        new_at = old_at + old_bytes
        at = new_at + new_bytes
        if at <= len(whole):
            path = Path(os.fsdecode(whole[path_at:old_at]))
            old, new = whole[old_at:new_at], whole[new_at:at]
            yield Record(kind, path, number, offset, old_size, old, new)


def _unsynced(notes: Path) -> list[Record]:
    synced: dict[Path, int] = {}
    changes: list[Record] = []
    for record in _records(notes):
        if record.kind == SYNC:
            synced[record.path] = max(record.number, synced.get(record.path, 0))
        else:
            changes.append(record)
    return [record for record in changes if record.number > synced.get(record.path, 0)]


def _undo(record: Record) -> None:
    with record.path.open("r+b") as file:
        file.truncate(record.old_size)
        file.seek(record.offset)
        file.write(record.old)


def _keep_perhaps(record: Record, chance: random.Random) -> None:
    kept = chance.choice([0, len(record.new), chance.randrange(len(record.new) + 1)])
    with record.path.open("r+b") as file:
        if record.kind == TRUNCATE and chance.random() < 0.5:
            file.truncate(record.offset)
        elif record.kind == WRITE and kept:
            file.seek(record.offset)
            file.write(record.new[: max(SECTOR, kept - kept % SECTOR)])

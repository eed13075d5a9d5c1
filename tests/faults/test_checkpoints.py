# SPDX-License-Identifier: Apache-2.0
"""Copying the write-ahead log into the database: trouble with the disk does not pass unnoticed."""

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from tidings.stores.sqlite.engine import checkpoints as checkpoints_module
from tidings.stores.sqlite.engine.checkpoints import (
    COPY_PAGES,
    NICENESS,
    READERS_WAIT_MS,
    Checkpoints,
)
from tidings.stores.sqlite.engine.connections import BUSY_MS


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tidings.db"


@pytest.fixture
def writing(path: Path) -> Iterator[apsw.Connection]:
    with closing(apsw.Connection(str(path))) as db:
        db.execute("PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0").fetchall()
        db.execute("CREATE TABLE rows (content)")
        yield db


def open_database(path: Path, flags: int) -> apsw.Connection:
    db = apsw.Connection(str(path), flags=flags)
    db.execute("SELECT count(*) FROM rows").fetchall()  # until it has read, it knows of no log
    return db


def fill_log(db: apsw.Connection) -> None:
    rows = [(bytes(5_000),)] * COPY_PAGES
    with db:
        db.executemany("INSERT INTO rows VALUES (?)", rows)


def test_a_long_log_is_copied_into_the_database(path: Path, writing: apsw.Connection) -> None:
    with closing(open_database(path, apsw.SQLITE_OPEN_READWRITE)) as own:
        checkpoints = Checkpoints(writing, own)
        fill_log(writing)
        checkpoints.between_commits(writing)
        checkpoints.close()
        assert path.stat().st_size > COPY_PAGES * 4_096
        checkpoints.between_commits(writing)


def test_a_copy_that_failed_is_told_to_the_next_commit(
    path: Path, writing: apsw.Connection
) -> None:
    # One that may not write fails as one whose disk is sick does: with an error of SQLite's.
    with closing(open_database(path, apsw.SQLITE_OPEN_READONLY)) as own:
        checkpoints = Checkpoints(writing, own)
        fill_log(writing)
        checkpoints.between_commits(writing)
        checkpoints.close()
        with pytest.raises(apsw.IOError):
            checkpoints.between_commits(writing)


@pytest.mark.usefixtures("writing")
def test_commits_do_not_wait_for_a_long_reader(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a backup reads: the log is restarted later, and until then hardly a commit tries."""
    monkeypatch.setattr(checkpoints_module, "RESTART_PAGES", COPY_PAGES)
    tried = []

    class Watched(apsw.Connection):
        def set_busy_timeout(self, milliseconds: int) -> None:
            tried.append(milliseconds)
            super().set_busy_timeout(milliseconds)

    with (
        closing(Watched(str(path))) as db,
        closing(open_database(path, apsw.SQLITE_OPEN_READWRITE)) as own,
        closing(open_database(path, apsw.SQLITE_OPEN_READONLY)) as reader,
    ):
        checkpoints = Checkpoints(db, own)
        reader.execute("BEGIN; SELECT count(*) FROM rows").fetchall()
        fill_log(db)
        for _ in range(5):
            checkpoints.between_commits(db)
        assert tried == [READERS_WAIT_MS, BUSY_MS]
        checkpoints.empty_soon()
        for _ in range(2):
            checkpoints.between_commits(db)
        assert tried[2:] == [0, BUSY_MS] * 2
        reader.execute("COMMIT")
        checkpoints.between_commits(db)
        assert path.with_name(f"{path.name}-wal").stat().st_size == 0
        checkpoints.close()


@pytest.mark.skipif(sys.platform != "linux", reason="threads have no priority of their own here")
def test_the_copying_thread_lets_the_others_go_first(path: Path, writing: apsw.Connection) -> None:
    seen = []

    def niceness() -> int:
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    class Watched(apsw.Connection):
        def wal_checkpoint(self, *_args: object, **_options: object) -> tuple[int, int]:
            seen.append(niceness())
            return 0, 0

    before = niceness()
    with closing(Watched(str(path))) as own:
        checkpoints = Checkpoints(writing, own)
        fill_log(writing)
        checkpoints.between_commits(writing)
        checkpoints.close()
    assert seen == [min(before + NICENESS, 19)]
    assert niceness() == before

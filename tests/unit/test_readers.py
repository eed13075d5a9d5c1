# SPDX-License-Identifier: Apache-2.0
"""Reads: each from one snapshot, bounded, and a refusal when the disk fails."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from tidings.model.refusals import StoreUnavailable
from tidings.stores.sqlite import readers as readers_module
from tidings.stores.sqlite.readers import READERS, Readers


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "things.db"


@pytest.fixture
def db(path: Path) -> Iterator[apsw.Connection]:
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA journal_mode = WAL").fetchall()
    connection.execute("CREATE TABLE things (number INTEGER PRIMARY KEY)")
    yield connection
    connection.close()


@pytest.fixture
def readers(db: apsw.Connection, path: Path) -> Iterator[Readers]:
    made = Readers(lambda: apsw.Connection(str(path)))
    yield made
    made.close()


def count(db: apsw.Connection) -> int:
    found: int = db.execute("SELECT count(*) FROM things").get
    return found


async def test_a_read_is_one_snapshot(db: apsw.Connection, readers: Readers) -> None:
    def read(own: apsw.Connection) -> tuple[int, int]:
        before = count(own)
        db.execute("INSERT INTO things VALUES (1)")
        return before, count(own)

    assert await readers.read(read) == (0, 0)
    assert await readers.read(count) == 1


@pytest.mark.parametrize("error", [apsw.IOError, apsw.CorruptError])
async def test_a_failing_disk_is_a_refusal(readers: Readers, error: type[Exception]) -> None:
    def read(own: apsw.Connection) -> None:
        raise error("the disk")

    for _ in range(2 * READERS):  # the connections are given back
        with pytest.raises(StoreUnavailable):
            await readers.read(read)
    assert await readers.read(count) == 0


async def test_any_other_error_is_the_callers(readers: Readers) -> None:
    for _ in range(2 * READERS):
        with pytest.raises(ZeroDivisionError):
            await readers.read(lambda db: 1 / 0)
    assert await readers.read(count) == 0


async def test_too_many_waiting_reads_are_turned_away(
    readers: Readers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers_module, "WAITING_READS_MAX", 3)
    go_on = threading.Event()
    async with asyncio.TaskGroup() as group:
        waiting = [group.create_task(readers.read(lambda db: go_on.wait(60))) for _ in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(StoreUnavailable):
            await readers.read(count)
        go_on.set()

    assert [task.result() for task in waiting] == [True] * 3
    assert await readers.read(count) == 0

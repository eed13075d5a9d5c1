# SPDX-License-Identifier: Apache-2.0
"""Reads: each from one snapshot, bounded, and a refusal when the disk fails."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

from tidings.model.refusals import RateLimited, StoreUnavailable
from tidings.model.setup_error import SetupError
from tidings.ports.store import REVOCATIONS, Requester, on_behalf_of, unknown_requester
from tidings.stores.sqlite.engine.connections import (
    READERS,
    USER_READS_AT_ONCE,
    USER_READS_WAITING_MAX,
    Readers,
)

ANN, BOB = Requester("acme", "acme:ann"), Requester("bees", "bees:bob")


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


async def test_connections_are_opened_for_reads_at_the_same_time(
    db: apsw.Connection, path: Path
) -> None:
    opened: list[apsw.Connection] = []

    def connect() -> apsw.Connection:
        opened.append(apsw.Connection(str(path)))
        return opened[-1]

    readers, gate = Readers(connect), Gate()
    assert opened == []
    for _ in range(3):
        await readers.read(count)
    assert len(opened) == 1
    async with asyncio.TaskGroup() as group:
        for who in (ANN, ANN, BOB, BOB):
            group.create_task(read_as(readers, who, gate.read))
        await gate.holds(READERS)
        gate.opened.set()
    assert len(opened) == READERS
    readers.close()


@pytest.mark.parametrize("error", [SetupError("restoring"), apsw.CantOpenError("files")])
async def test_a_connection_that_cannot_be_opened_is_a_refusal(
    db: apsw.Connection, path: Path, error: Exception
) -> None:
    errors = [error, error]

    def connect() -> apsw.Connection:
        if errors:
            raise errors.pop()
        return apsw.Connection(str(path))

    readers = Readers(connect)
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            await readers.read(count)
    assert await readers.read(count) == 0
    readers.close()


async def test_any_other_error_is_the_callers(readers: Readers) -> None:
    for _ in range(2 * READERS):
        with pytest.raises(ZeroDivisionError):
            await readers.read(lambda db: 1 / 0)
    assert await readers.read(count) == 0


class Gate:
    """Holds reads until it is opened, and knows how many it holds."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self._arrived = threading.Semaphore(0)

    def read(self, _db: apsw.Connection) -> bool:
        self._arrived.release()
        assert self.opened.wait(60), "nobody else got through"
        return True

    async def holds(self, count: int) -> None:
        """Wait until so many reads stand at it."""
        for _ in range(count):
            assert await asyncio.to_thread(self._arrived.acquire, timeout=60)


async def read_as(
    readers: Readers, who: Requester, act: Callable[[apsw.Connection], object]
) -> object:
    with on_behalf_of(who):
        return await readers.read(act)


async def test_too_many_waiting_reads_of_a_user_are_turned_away_and_nobody_else(
    readers: Readers,
) -> None:
    gate = Gate()
    async with asyncio.TaskGroup() as group:
        waiting = [
            group.create_task(read_as(readers, ANN, gate.read))
            for _ in range(USER_READS_AT_ONCE + USER_READS_WAITING_MAX)
        ]
        await gate.holds(USER_READS_AT_ONCE)
        with pytest.raises(RateLimited):
            await read_as(readers, ANN, count)
        assert await read_as(readers, BOB, count) == 0
        gate.opened.set()

    assert all(task.result() for task in waiting)
    assert await read_as(readers, ANN, count) == 0


@pytest.mark.attack("S03", "F04", "D21")
async def test_one_user_s_reads_leave_readers_for_everybody_else(readers: Readers) -> None:
    gate = Gate()
    async with asyncio.TaskGroup() as group:
        for _ in range(100):
            group.create_task(read_as(readers, ANN, gate.read))
        await gate.holds(USER_READS_AT_ONCE)
        assert await read_as(readers, BOB, count) == 0
        gate.opened.set()


@pytest.mark.attack("S03", "F04")
@pytest.mark.parametrize("who", [REVOCATIONS, unknown_requester("192.0.2.1")])
async def test_no_load_of_users_delays_revocations_and_credentials(
    readers: Readers, who: Requester
) -> None:
    gate = Gate()
    async with asyncio.TaskGroup() as group:
        for number in range(100):
            user = Requester("acme", f"acme:user-{number}")
            group.create_task(read_as(readers, user, gate.read))
        await gate.holds(READERS)
        assert await read_as(readers, who, count) == 0
        gate.opened.set()


async def test_a_read_that_nobody_waits_for_any_more_keeps_its_turn_until_it_is_done(
    readers: Readers,
) -> None:
    gate = Gate()
    tasks = [asyncio.ensure_future(read_as(readers, ANN, gate.read)) for _ in range(2)]
    await gate.holds(USER_READS_AT_ONCE)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    later = asyncio.ensure_future(read_as(readers, ANN, count))
    assert await read_as(readers, BOB, count) == 0
    assert not later.done()
    gate.opened.set()
    assert await later == 0


async def test_reads_of_background_work_that_wait_share_a_turn(readers: Readers) -> None:
    gate, ran = Gate(), list[str]()

    def look(name: str) -> Callable[[apsw.Connection], int]:
        def read(own: apsw.Connection) -> int:
            ran.append(name)
            if name == "fails":
                raise apsw.IOError("the disk")
            return id(own)

        return read

    held = [asyncio.ensure_future(readers.read(gate.read)) for _ in range(READERS)]
    await gate.holds(READERS)
    names = ["first", "fails", "gone", "last"]
    waiting = [asyncio.ensure_future(readers.read(look(name))) for name in names]
    await asyncio.sleep(0)
    waiting[2].cancel()
    gate.opened.set()
    await asyncio.gather(*held)
    first, failed, gone, last = await asyncio.gather(*waiting, return_exceptions=True)
    assert first == last, "one snapshot"
    assert isinstance(failed, StoreUnavailable)
    assert isinstance(gone, asyncio.CancelledError)
    assert ran == ["first", "fails", "last"]


async def test_background_work_of_a_closed_store_is_refused_while_it_waits(
    readers: Readers,
) -> None:
    gate = Gate()
    held = [asyncio.ensure_future(readers.read(gate.read)) for _ in range(READERS)]
    await gate.holds(READERS)
    # So many that they do not share a few turns: their tenants take turns.
    tenants = [Requester(f"tenant{number}") for number in range(400)]
    waiting = [asyncio.ensure_future(read_as(readers, tenant, count)) for tenant in tenants]
    await asyncio.sleep(0)
    gate.opened.set()
    readers.close()
    async with asyncio.timeout(60):
        answers = await asyncio.gather(*waiting, return_exceptions=True)
    assert {type(answer) for answer in answers} == {StoreUnavailable}
    assert all(await asyncio.gather(*held))


async def test_a_read_of_a_closed_store_is_refused(readers: Readers) -> None:
    readers.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        await readers.read(count)

# SPDX-License-Identifier: Apache-2.0
"""Group commit: one transaction for many, an outcome for each, the end when the disk fails."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import apsw
import pytest

from tests.unit.writing import INSERT, Bench, Thing, a_bench
from tidings.model.refusals import StoreUnavailable
from tidings.stores.sqlite.engine import writer as writer_module
from tidings.stores.sqlite.engine.write_jobs import Steps
from tidings.stores.sqlite.engine.writer import BATCH_ROWS_MAX


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with a_bench(tmp_path / "things.db") as made:
        yield made


# One transaction for many.


async def test_what_comes_in_one_turn_goes_in_one_transaction(bench: Bench) -> None:
    await bench.run(*[bench.thing(n, alone=n % 2 == 0) for n in range(10)])

    assert bench.diary.commits == 1
    assert bench.kept() == list(range(10))


async def test_a_write_of_no_rows_is_answered(bench: Bench) -> None:
    assert await bench.writer.write(lambda _: "done", rows=0) == "done"


async def test_what_comes_during_a_commit_goes_in_the_next(bench: Bench) -> None:
    is_committing, go_on = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def pause() -> None:
        loop.call_soon_threadsafe(is_committing.set)
        assert go_on.wait(60)

    bench.diary.at["after_commit_before_answer"] = pause
    jobs = [bench.thing(n) for n in range(5)]
    bench.writer.submit(jobs[0])
    await is_committing.wait()
    for job in jobs[1:]:
        bench.writer.submit(job)
        await asyncio.sleep(0)
    assert bench.settled == []
    go_on.set()
    for job in jobs:
        await job.done.wait()

    assert bench.diary.commits == 2
    assert bench.settled == [f"{n} written" for n in range(5)]


def things_in_steps(
    *numbers: int, error: Exception | None = None
) -> Callable[[apsw.Connection], Steps[int]]:
    """Puts these things, one a step; then fails, if it is told to."""

    def write(db: apsw.Connection) -> Steps[int]:
        for number in numbers:
            db.execute(INSERT, (number,))
            yield
        if error is not None:
            raise error
        return len(numbers)

    return write


@pytest.mark.attack("S04", "F10")
async def test_between_the_steps_of_a_long_write_the_loop_turns_and_nobody_sees_a_part(
    bench: Bench,
) -> None:
    seen: list[list[int]] = []
    long = asyncio.ensure_future(
        bench.writer.write_in_steps(things_in_steps(*range(5)), rows=BATCH_ROWS_MAX)
    )
    short = bench.thing(99)
    await asyncio.sleep(0)
    bench.writer.submit(short)
    while not long.done():
        seen.append(bench.kept())
        await asyncio.sleep(0)
    await short.done.wait()

    assert await long == 5
    assert len(seen) > 5
    assert {tuple(one) for one in seen} <= {(), (0, 1, 2, 3, 4), (0, 1, 2, 3, 4, 99)}
    assert bench.kept() == [0, 1, 2, 3, 4, 99]
    assert bench.diary.commits == 2


async def test_a_long_write_that_fails_takes_back_all_of_its_steps_and_nothing_else(
    bench: Bench,
) -> None:
    before, after = bench.thing(1), bench.thing(2)
    bench.writer.submit(before)
    steps = things_in_steps(10, 11, error=ZeroDivisionError())
    long = asyncio.ensure_future(bench.writer.write_in_steps(steps, rows=2))
    await asyncio.sleep(0)
    bench.writer.submit(after)
    with pytest.raises(ZeroDivisionError):
        await long
    await after.done.wait()
    assert bench.kept() == [1, 2]


async def test_a_transaction_takes_only_so_many_rows(bench: Bench) -> None:
    await bench.run(*[bench.thing(n, rows=BATCH_ROWS_MAX // 2) for n in range(5)])
    assert bench.diary.commits == 3


async def test_outcomes_come_in_the_order_of_the_jobs(bench: Bench) -> None:
    await bench.run(*[bench.thing(n, alone=n in (1, 4)) for n in range(7)])
    assert bench.settled == [f"{n} written" for n in range(7)]


async def test_nothing_is_settled_before_its_commit(bench: Bench) -> None:
    seen: list[list[int]] = []
    bench.diary.at["before_commit"] = lambda: seen.append(bench.kept())
    bench.diary.at["after_commit_before_answer"] = lambda: seen.append(bench.kept())

    await bench.run(bench.thing(1), bench.thing(2, alone=True))

    assert seen == [[], [1, 2]]
    assert bench.diary.lines == [
        "before_commit",
        "after_commit_before_answer",
        "1 written",
        "2 written",
    ]


# One bad job.


async def test_a_job_that_breaks_a_constraint_loses_alone(bench: Bench) -> None:
    await bench.run(bench.thing(2))
    await bench.run(*[bench.thing(n) for n in (1, 2, 3)])

    assert bench.settled == ["2 written", "1 written", "2 taken", "3 written"]
    assert bench.kept() == [1, 2, 3]


@pytest.mark.parametrize("error", [KeyError("a mistake"), apsw.SQLError("a mistake")])
async def test_a_job_that_raises_fails_alone(bench: Bench, error: Exception) -> None:
    await bench.run(bench.thing(1), bench.thing(2, error=error), bench.thing(3, alone=True))
    await bench.run(bench.thing(4))

    assert bench.settled == ["1 written", "2 failed", "3 written", "4 written"]
    assert bench.kept() == [1, 3, 4]
    assert bench.broken == []


async def test_a_row_that_cannot_be_bound_fails_alone(bench: Bench) -> None:
    await bench.run(bench.thing(1), bench.thing(2**70), bench.thing(3))

    assert bench.settled == ["1 written", f"{2**70} failed", "3 written"]
    assert bench.kept() == [1, 3]


async def test_a_function_that_raises_takes_back_its_own_writes_only(bench: Bench) -> None:
    def put(db: apsw.Connection) -> int:
        db.execute(INSERT, (1,))
        return 1

    def put_and_refuse(db: apsw.Connection) -> None:
        db.execute(INSERT, (2,))
        raise LookupError("no")

    results = []
    async with asyncio.TaskGroup() as group:
        good = group.create_task(bench.writer.write(put))

        async def refused() -> None:
            with pytest.raises(LookupError, match="no"):
                await bench.writer.write(put_and_refuse)
            results.append("refused")

        group.create_task(refused())

    assert (good.result(), results) == (1, ["refused"])
    assert bench.kept() == [1]
    assert bench.diary.commits == 1


async def test_an_answer_nobody_can_take_does_not_keep_others_from_theirs(bench: Bench) -> None:
    class Deaf(Thing):
        def settle(self, outcome: object) -> None:
            super().settle(outcome)
            raise RuntimeError("not listening")

    await bench.run(Deaf(1, bench.diary), bench.thing(2))
    await bench.run(bench.thing(3))

    assert bench.settled == ["1 written", "2 written", "3 written"]


async def test_a_job_is_made_when_its_transaction_begins(bench: Bench) -> None:
    class Late(Thing):
        def prepare(self) -> int:
            self._number = len(bench.kept()) + 100
            return 1

    await bench.run(bench.thing(1), bench.thing(2))
    await bench.run(Late(0, bench.diary))
    assert bench.kept() == [1, 2, 102]


async def test_a_job_without_anything_to_write_is_passed_over(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    class Unmade(Thing):
        def prepare(self) -> int:
            raise RuntimeError("nothing to be had")

    for job in (bench.thing(1, rows=0), Unmade(2, bench.diary)):
        bench.writer.submit(job)
    await bench.writer.close()
    assert bench.kept() == []
    assert bench.diary.lines == []
    assert "preparing failed" in caplog.text


async def test_a_caller_who_gave_up_harms_nobody(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    waiting = asyncio.create_task(bench.writer.write(lambda db: db.execute(INSERT, (1,)).get))
    await asyncio.sleep(0)
    waiting.cancel()
    await bench.run(bench.thing(2))

    assert waiting.cancelled()
    assert bench.kept() == [1, 2]
    assert caplog.records == []


# The end.


def fill_up(db: apsw.Connection) -> None:
    """Leave no room for another page, and put something that needs several."""
    db.execute("CREATE TABLE more (filling BLOB)")
    db.execute(f"PRAGMA max_page_count = {db.pragma('page_count')}").fetchall()
    db.execute("INSERT INTO more VALUES (zeroblob(100000))")


async def test_a_full_disk_is_the_end_for_everyone(bench: Bench) -> None:
    await bench.run(bench.thing(1))
    early, late = bench.thing(2), bench.thing(3)
    bench.writer.submit(early)

    with pytest.raises(StoreUnavailable):
        await bench.writer.write(fill_up)
    bench.writer.submit(late)
    await late.done.wait()
    with pytest.raises(StoreUnavailable):
        await bench.writer.write(lambda db: db.execute(INSERT, (4,)).get)

    assert bench.settled == ["1 written", "2 failed", "3 failed"]
    assert bench.kept() == [1]
    assert len(bench.broken) == 1
    assert "full" in str(bench.broken[0])


async def test_a_failed_commit_is_the_end_for_those_who_wait_as_well(bench: Bench) -> None:
    waiting = bench.thing(2)
    loop = asyncio.get_running_loop()
    submitted = threading.Event()

    def submit_one_more() -> None:
        bench.writer.submit(waiting)
        submitted.set()

    def break_down() -> None:
        loop.call_soon_threadsafe(submit_one_more)
        assert submitted.wait(60)
        raise apsw.IOError("fsync")

    bench.diary.at["after_commit_before_answer"] = break_down

    await bench.run(bench.thing(1))
    await waiting.done.wait()

    assert bench.settled == ["1 failed", "2 failed"]
    assert bench.kept() == [1]  # unknown to the caller: here it did happen
    assert len(bench.broken) == 1


async def test_too_many_waiting_jobs_are_turned_away(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "WAITING_JOBS_MAX", 2)
    await bench.run(*[bench.thing(n) for n in range(3)])

    assert sorted(bench.settled) == ["0 written", "1 written", "2 failed"]
    assert bench.broken == []


async def test_closing_finishes_what_was_submitted_and_takes_no_more(tmp_path: Path) -> None:
    async with a_bench(tmp_path / "closing.db") as bench:
        first, second = bench.thing(1), bench.thing(2)
        bench.writer.submit(first)
        await bench.writer.close()
        bench.writer.submit(second)
        await second.done.wait()

        assert bench.settled == ["1 written", "2 failed"]
        assert bench.kept() == [1]


# The write-ahead log.


async def test_the_log_is_emptied_as_soon_as_no_reader_needs_it(bench: Bench) -> None:
    log = bench.path.with_name(f"{bench.path.name}-wal")
    await bench.run(bench.thing(1))

    def put_and_empty(db: apsw.Connection) -> None:
        db.execute(INSERT, (2,))
        bench.writer.empty_log_after_commit()

    bench.other.execute("BEGIN; SELECT * FROM things").fetchall()
    await bench.writer.write(put_and_empty)
    assert log.stat().st_size > 0
    bench.other.execute("COMMIT")
    await bench.run(bench.thing(3))

    assert log.stat().st_size == 0
    assert bench.kept() == [1, 2, 3]
    await bench.run(bench.thing(4))
    assert log.stat().st_size > 0

# SPDX-License-Identifier: Apache-2.0
"""Run a load test, as fast as possible or at a given rate, and compute its result."""

import asyncio
from array import array
from collections.abc import Callable, Iterable, Sequence
from time import perf_counter, process_time
from typing import Final

import msgspec

from tidings.tools.load_crowd import Crowd
from tidings.tools.load_talker import Talker

LOAD_BOUND: Final = 0.9
"""If the load generator uses more than this share of a core, it is itself the limit, and the server
could be faster than the measured rate."""

PACE_SECONDS: Final = 0.002
FIRST_ANSWER_SECONDS_MAX: Final = 30.0

Clock = Callable[[], float]
"""Function that returns the CPU seconds that the server has used so far."""
Tick = Callable[[int, float], None]
"""Function that is called about twice per second, with the number of messages acknowledged so far
and the seconds that have passed."""
HEAD: Final = (
    "pairs", "window", "sent/s", "delivered/s", "µs/sent", "p50 ms", "p99 ms", "max ms",
    "server", "load", "",
)  # fmt: skip
_WIDTHS: Final = (6, 6, 8, 11, 7, 8, 8, 8, 6, 5)


class Latency(msgspec.Struct, frozen=True):
    """Percentiles of the time to the answer, in milliseconds."""

    count: int
    p50: float
    p99: float
    p999: float
    max: float


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The figures measured in one run."""

    pairs: int
    window: int
    """Number of sends that each user keeps unanswered; 0 for a run at a given rate."""
    seconds: float
    sent: int
    """Number of messages that were acknowledged as durable."""
    delivered: int
    missing: int
    """Number of acknowledged messages that never reached the other user of the pair."""
    refused: int
    """Number of sends that were refused and had to be repeated."""
    latency: Latency
    load_cpu: float
    """Share of a core that the load generator used."""
    server_cpu: float | None = None
    """Share of a core that the server used; None if the server runs on another machine."""

    @property
    def rate(self) -> float:
        """Acknowledged messages per second."""
        return self.sent / self.seconds

    @property
    def server_us(self) -> float | None:
        """CPU time that the server used per message, in microseconds."""
        if self.server_cpu is None or not self.sent:
            return None
        return self.server_cpu * self.seconds / self.sent * 1e6

    @property
    def remarks(self) -> str:
        """Reasons to read the figures with care; empty if there are none."""
        remarks = []
        if self.load_cpu > LOAD_BOUND:
            remarks.append("load-bound")
        if self.refused:
            remarks.append(f"{self.refused} refused")
        if self.missing:
            remarks.append(f"{self.missing} MISSING")
        return ", ".join(remarks)

    def row(self) -> list[str]:
        """Return this result as a row of the table whose columns are `HEAD`."""
        return [
            str(self.pairs),
            str(self.window) if self.window else "paced",
            f"{self.rate:,.0f}",
            f"{self.delivered / self.seconds:,.0f}",
            "-" if self.server_us is None else f"{self.server_us:.1f}",
            f"{self.latency.p50:.1f}",
            f"{self.latency.p99:.1f}",
            f"{self.latency.max:.1f}",
            "-" if self.server_cpu is None else f"{self.server_cpu:.0%}",
            f"{self.load_cpu:.0%}",
            self.remarks,
        ]


def latency_of(samples_ms: Iterable[float]) -> Latency:
    """Compute the percentiles of some samples."""
    ordered = sorted(samples_ms)
    if not ordered:
        return Latency(0, 0.0, 0.0, 0.0, 0.0)
    p50, p99, p999 = (ordered[int(len(ordered) * share)] for share in (0.5, 0.99, 0.999))
    return Latency(len(ordered), p50, p99, p999, ordered[-1])


def merge_samples(parts: Iterable["array[float]"]) -> "array[float]":
    """Join several arrays of samples into one."""
    everything = array("d")
    for part in parts:
        everything.extend(part)
    return everything


def line(row: Sequence[str]) -> str:
    """Format one line of the table of results."""
    cells = [cell.rjust(width) for cell, width in zip(row, _WIDTHS, strict=False)]
    return "  ".join([*cells, row[-1]]).rstrip()


class _Mark(msgspec.Struct, frozen=True):
    """Values of all counters at one moment."""

    at: float
    sent: int
    delivered: int
    refused: int
    load_cpu: float
    server_cpu: float | None


async def throughput(
    crowd: Crowd,
    pairs: int,
    window: int,
    seconds: float,
    *,
    warm_up_seconds: float = 1.0,
    server_cpu: Clock | None = None,
    tick: Tick | None = None,
) -> Result:
    """Measure a run in which every user always keeps `window` sends unanswered."""
    talkers = await crowd.talkers(pairs)
    already = [talker.acknowledged for talker in talkers]
    for talker in talkers:
        talker.start(window)
    await _warmed_up(crowd, talkers, already, warm_up_seconds)
    result = await _measured(crowd, talkers, seconds, server_cpu, tick)
    return await _ended(crowd, talkers, result, window)


async def paced(
    crowd: Crowd,
    pairs: int,
    rate: float,
    seconds: float,
    *,
    warm_up_seconds: float = 1.0,
    server_cpu: Clock | None = None,
    tick: Tick | None = None,
) -> Result:
    """Measure a run that sends `rate` messages per second, evenly, without waiting for answers."""
    talkers = await crowd.talkers(pairs)
    already = [talker.acknowledged for talker in talkers]
    pacing = asyncio.create_task(_pace(talkers, rate))
    try:
        await _warmed_up(crowd, talkers, already, warm_up_seconds)
        result = await _measured(crowd, talkers, seconds, server_cpu, tick)
    finally:
        pacing.cancel()
    return await _ended(crowd, talkers, result, 0)


async def _warmed_up(
    crowd: Crowd, talkers: list[Talker], already: list[int], seconds: float
) -> None:
    """Wait until every user has got an answer, then for this many seconds.

    A user's first message is slower, because it also creates a data key and loads the chat.
    """

    def everyone_was_answered() -> bool:
        pairs = zip(talkers, already, strict=True)
        return all(talker.acknowledged > before for talker, before in pairs)

    await crowd.watch.until(everyone_was_answered, FIRST_ANSWER_SECONDS_MAX)
    await crowd.watch.wait(seconds)


async def _pace(talkers: list[Talker], rate: float) -> None:
    started, sent = perf_counter(), 0
    while True:
        due = int((perf_counter() - started) * rate)
        for number in range(sent, due):
            talkers[number % len(talkers)].send()
        sent = due
        await asyncio.sleep(PACE_SECONDS)


async def _measured(
    crowd: Crowd,
    talkers: list[Talker],
    seconds: float,
    server_cpu: Clock | None,
    tick: Tick | None,
) -> Result:
    for talker in talkers:
        talker.forget_latencies()
    start = _mark(talkers, server_cpu)

    def report() -> None:
        if tick is not None:
            sent = sum(talker.acknowledged for talker in talkers)
            tick(sent - start.sent, perf_counter() - start.at)

    await crowd.watch.wait(seconds, report)
    end = _mark(talkers, server_cpu)
    elapsed = end.at - start.at
    is_known = start.server_cpu is not None and end.server_cpu is not None
    return Result(
        pairs=len(talkers) // 2,
        window=0,
        seconds=elapsed,
        sent=end.sent - start.sent,
        delivered=end.delivered - start.delivered,
        missing=0,
        refused=end.refused - start.refused,
        latency=latency_of(merge_samples(talker.latencies_ms for talker in talkers)),
        load_cpu=(end.load_cpu - start.load_cpu) / elapsed,
        server_cpu=((end.server_cpu or 0) - (start.server_cpu or 0)) / elapsed
        if is_known
        else None,
    )


async def _ended(crowd: Crowd, talkers: list[Talker], result: Result, window: int) -> Result:
    for talker in talkers:
        talker.stop()
    missing = await crowd.settle(talkers)
    return msgspec.structs.replace(result, window=window, missing=missing)


def _mark(talkers: list[Talker], server_cpu: Clock | None) -> _Mark:
    return _Mark(
        at=perf_counter(),
        sent=sum(talker.acknowledged for talker in talkers),
        delivered=sum(talker.delivered for talker in talkers),
        refused=sum(talker.refused for talker in talkers),
        load_cpu=process_time(),
        server_cpu=server_cpu() if server_cpu is not None else None,
    )

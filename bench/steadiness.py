# SPDX-License-Identifier: Apache-2.0
"""Finds out when the cores of the machine were slow.

The cores of a virtual machine may be several times slower for a tenth of a second, because the host
runs other guests. The virtual machine does not notice: such time is counted as used, not as stolen.
Therefore a witness process on each core does the same small piece of work every two milliseconds.
It compares the CPU time of each piece with the usual time. A busy server cannot delay a witness for
long, because the kernel schedules fairly: if a witness is late, the core itself was not available.
Measurements during slow times can then be reported separately, because they say more about the host
than about the server.
"""

import asyncio
import os
import sys
from argparse import ArgumentParser
from bisect import bisect_left
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, suppress
from itertools import pairwise
from pathlib import Path
from select import select
from statistics import median, quantiles
from time import perf_counter, thread_time_ns
from typing import Final

import msgspec

from tidings.tools.load_runs import Latency
from tidings.tools.load_talker import Talker

INTERVAL_SECONDS: Final = 0.002
STEPS: Final = 200
"""Number of steps in a piece of work, which takes about ten microseconds."""
TRIES: Final = 5_000
SLOW_FACTOR: Final = 2.0
IN_A_ROW: Final = 3
"""Number of consecutive pieces whose median decides whether the core is slow. A single piece may be
slow because of an interrupt."""
AWAY_SECONDS: Final = 0.010
"""If a witness is late by this time or more, the core was not available. Under full load, the
witness on the server's core was 4 ms late once in a thousand times, and never more than 5 ms late.
All longer delays, on either core, agreed within two ticks with the stolen time that the kernel
reports."""
RECOVERY: Final = 1.0
"""Time to recover after a slow time, as a multiple of that time. The work that has piled up delays
later answers."""

DISTURBED_SHARE: Final = 0.5

Span = tuple[float, float]
"""Start and end of a time, on the clock that all processes share (`perf_counter`)."""


class Steadiness:
    """The times in which a core was slow; they are known only after the measurement."""

    def __init__(self) -> None:
        self.pieces = 0
        """Number of pieces of work that the witnesses have done."""
        self._slow: list[Span] = []
        self._disturbed: list[Span] = []

    def saw(self, pieces: int, slow: Iterable[Span]) -> None:
        """Add the slow times that a witness has found."""
        self.pieces += pieces
        self._slow = _joined([*self._slow, *slow])
        self._disturbed = _joined(
            [(start, end + (end - start) * RECOVERY) for start, end in self._slow]
        )

    def was_steady(self, span: Span) -> bool:
        """Return whether no core was slow, or recovering, for most of this time.

        A short slow time within it is tolerated, because a long operation nearly always includes
        one. Otherwise slow answers would be left out of the results just because they took long.
        """
        return _share(span, self._disturbed) < DISTURBED_SHARE

    def slow_share(self, span: Span) -> float:
        """Return the share of this time in which a core was slow."""
        return _share(span, self._slow)


def _share(span: Span, parts: list[Span]) -> float:
    """Return the share of a time that these parts cover. The parts are in order and do not
    overlap."""
    covered = 0.0
    first = bisect_left(parts, span[0], key=lambda part: part[1])
    for start, end in parts[first:]:
        if start >= span[1]:
            break
        covered += min(span[1], end) - max(span[0], start)
    return covered / (span[1] - span[0])


def spans_of(talkers: Iterable[Talker]) -> list[Span]:
    """Return when each message of these users was sent and answered, as far as they remember it."""
    return [span for talker in talkers for span in talker.spans()]


async def idle_share(seconds: float) -> float:
    """Return the share of the time in which a core is slow while nothing is measured, for
    comparison."""
    async with witnessed() as steadiness:
        started = perf_counter()
        await asyncio.sleep(seconds)
        span = started, perf_counter()
    return steadiness.slow_share(span)


def told(latency: Latency, among: int) -> str:
    """Describe the latency of the answers that no slow core delayed; `among` is the number of all
    answers."""
    if not latency.count:
        return f"none of {among:,} answers was steady"
    return (
        f"p50 {latency.p50:.1f} ms, p99 {latency.p99:.1f} ms, max {latency.max:.1f} ms "
        f"of {latency.count:,} among {among:,} answers"
    )


def took_ms(spans: Iterable[Span]) -> Iterator[float]:
    """Return the duration of each span in milliseconds."""
    return ((end - start) * 1e3 for start, end in spans)


def _joined(spans: list[Span]) -> list[Span]:
    joined: list[Span] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((start, end))
    return joined


@asynccontextmanager
async def witnessed() -> AsyncIterator[Steadiness]:
    """Watch every core inside this context."""
    steadiness = Steadiness()
    witnesses = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-m", "bench.steadiness", str(core),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            cwd=Path(__file__).parents[1],
        )
        for core in range(os.cpu_count() or 1)
    ]  # fmt: skip
    try:
        yield steadiness
    finally:
        for witness in witnesses:
            output, _ = await witness.communicate(b"")  # ends its standard input
            steadiness.saw(*msgspec.json.decode(output, type=tuple[int, list[Span]]))


def main() -> None:
    """Watch one core until standard input ends, then write its slow times to standard output."""
    parser = ArgumentParser(prog="bench.steadiness", description=__doc__)
    parser.add_argument("core", type=int)
    with suppress(OSError):  # a core that this process may not use is watched from another one
        os.sched_setaffinity(0, {parser.parse_args().core})
    usual = quantiles([_piece() for _ in range(TRIES)], n=10)[0]
    pieces: list[tuple[float, float]] = []
    is_over = False
    while not is_over:
        at = perf_counter()
        _piece()  # warms the caches, which the server had meanwhile
        pieces.append((at, _piece() / usual))
        is_over = bool(select([sys.stdin], [], [], INTERVAL_SECONDS)[0])
    sys.stdout.buffer.write(msgspec.json.encode((len(pieces), slow_spans(pieces))))


def slow_spans(pieces: list[tuple[float, float]]) -> list[Span]:
    """Return the times in which a core was slow. Each piece of work has its time, and its duration
    as a multiple of the usual duration."""
    rows = zip(*(pieces[offset:] for offset in range(IN_A_ROW)), strict=False)
    slow = [
        (row[0][0], row[-1][0] + INTERVAL_SECONDS)
        for row in rows
        if median(factor for _, factor in row) > SLOW_FACTOR
    ]
    away = [
        (before, after)
        for (before, _), (after, _) in pairwise(pieces)
        if after - before > INTERVAL_SECONDS + AWAY_SECONDS
    ]
    return _joined([*slow, *away])


def _piece() -> float:
    started, total = thread_time_ns(), 0
    for step in range(STEPS):
        total += step * step
    return thread_time_ns() - started


if __name__ == "__main__":
    main()

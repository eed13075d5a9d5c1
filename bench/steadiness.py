# SPDX-License-Identifier: Apache-2.0
"""Whether the machine itself kept its pace.

The cores of a virtual machine may run several times slower for a tenth of a second, because its
host has other guests, and nothing inside is told: such time counts as used, not as stolen. So a
witness on each core does the same small piece of work every two milliseconds and compares the
processor time it took with what it takes when nothing is in the way. Nor can it be kept from its
work for long by a busy server, for the kernel is fair: if it comes late, the core was away. What
was under way while a core was slow can be told apart afterwards, for it says more about the host
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
"""Of the piece of work: about ten microseconds."""
TRIES: Final = 5_000
SLOW_FACTOR: Final = 2.0
IN_A_ROW: Final = 3
"""Slow is what the middle one of so many pieces says: a single one may have met an interrupt."""
AWAY_SECONDS: Final = 0.010
"""From so late on the core was away. Under full load the witness of the server's core was 4 ms late
once in a thousand times and never more than 5; what was later than this, on either core, agreed
with what the kernel counted as stolen, to two ticks."""
RECOVERY: Final = 1.0
"""What piled up in a slow time takes time to go: so much of the slow time is added to it."""

DISTURBED_SHARE: Final = 0.5

Span = tuple[float, float]
"""From, to, on the clock that all processes share (`perf_counter`)."""


class Steadiness:
    """When the cores were slow; known once the watching is over."""

    def __init__(self) -> None:
        self.pieces = 0
        """How many pieces of work the witnesses have done."""
        self._slow: list[Span] = []
        self._disturbed: list[Span] = []

    def saw(self, pieces: int, slow: Iterable[Span]) -> None:
        """Take in what a witness saw."""
        self.pieces += pieces
        self._slow = _joined([*self._slow, *slow])
        self._disturbed = _joined(
            [(start, end + (end - start) * RECOVERY) for start, end in self._slow]
        )

    def was_steady(self, span: Span) -> bool:
        """Whether for most of this time no core was slow, nor had just been.

        Most of it: what takes long meets something sooner or later, and must not be let off for it.
        """
        return _share(span, self._disturbed) < DISTURBED_SHARE

    def slow_share(self, span: Span) -> float:
        """How much of this time a core was slow."""
        return _share(span, self._slow)


def _share(span: Span, parts: list[Span]) -> float:
    """How much of a span these parts, which are in order and apart, take."""
    covered = 0.0
    first = bisect_left(parts, span[0], key=lambda part: part[1])
    for start, end in parts[first:]:
        if start >= span[1]:
            break
        covered += min(span[1], end) - max(span[0], start)
    return covered / (span[1] - span[0])


def spans_of(talkers: Iterable[Talker]) -> list[Span]:
    """From send to answer, of all their messages since they last forgot."""
    return [span for talker in talkers for span in talker.spans()]


async def idle_share(seconds: float) -> float:
    """How much of the time a core is slow while nothing is measured: to compare with."""
    async with witnessed() as steadiness:
        started = perf_counter()
        await asyncio.sleep(seconds)
        span = started, perf_counter()
    return steadiness.slow_share(span)


def told(latency: Latency, among: int) -> str:
    """The latency of those answers among all of which no slow core was in the way."""
    if not latency.count:
        return f"none of {among:,} answers was steady"
    return (
        f"p50 {latency.p50:.1f} ms, p99 {latency.p99:.1f} ms, max {latency.max:.1f} ms "
        f"of {latency.count:,} among {among:,} answers"
    )


def took_ms(spans: Iterable[Span]) -> Iterator[float]:
    """How long each took."""
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
    """Have every core watched meanwhile."""
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
    """Be the witness of one core until standard input ends, then write down when it was slow."""
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
    """When the pieces of work, with their time and how many times too long they took, say so."""
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

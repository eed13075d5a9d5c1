# SPDX-License-Identifier: Apache-2.0
"""Measures latency at half of the maximum load, with a core that sleeps when idle and with one that
is kept awake.

The speed of a machine that shares its cores changes over time. Each round therefore measures its
own maximum and applies half of it. The result is the median of the rounds.
"""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterable
from contextlib import AsyncExitStack
from math import inf
from statistics import median
from typing import Final

import msgspec

from bench.awake import kept_awake
from bench.server import SERVER_CORE, own_server
from bench.steadiness import idle_share, spans_of, took_ms, witnessed
from bench.throughput import throughput
from tidings.tools import load_runs
from tidings.tools.load_crowd import Crowd
from tidings.tools.load_runs import Latency, Result, latency_of

PAIRS: Final = 200
ALONE: Final = 1
"""Window with which the maximum is measured: one unanswered message per user. Messages that arrive
one by one cost more than those that arrive eight to a packet. An evenly spread load arrives one by
one, so its maximum must be measured in the same way."""
TARGET_MS: Final = 15.0
AS_IT_IS: Final = "as it is"
AWAKE: Final = "awake"


class Half(msgspec.Struct, frozen=True):
    """One run at half of the maximum of its round. `steady` is the latency of messages that no slow
    core delayed."""

    round: int
    maximum: float
    core: str
    result: Result
    steady: Latency
    slow_share: float

    def row(self) -> list[str]:
        """Return the cells of a row of the table."""
        result = self.result
        return [
            str(self.round),
            f"{self.maximum:,.0f}",
            self.core,
            f"{result.rate:,.0f}",
            f"{result.server_us or 0:.0f}",
            f"{result.server_cpu or 0:.0%}",
            f"{result.latency.p50:.1f}",
            f"{result.latency.p99:.1f}",
            f"{self.steady.p99:.1f}" if self.steady.count else "-",
            f"{1 - self.steady.count / result.latency.count:.0%}",
            f"{self.slow_share:.0%}",
        ]


def add_options(parser: ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5)


async def run(options: Namespace) -> list[Half]:
    """Measure all rounds and print a summary."""
    idle_slow_share = await idle_share(options.seconds)
    print(
        "Half of what is possible one by one, evenly spread; the server's core as it is, which\n"
        "sleeps between messages, and kept awake. Steady: without the times when a core of the\n"
        f"machine was slow (idle, before: {idle_slow_share:.0%} of the time)."
    )
    print(_line(_HEAD), flush=True)
    halves = []
    for number in range(1, options.rounds + 1):
        async with own_server() as target:
            maximum = (await throughput(target, options.pairs, ALONE, options.seconds)).rate
        for core in (AS_IT_IS, AWAKE):
            halves.append(await _half(options, number, maximum, core))
            print(_line(halves[-1].row()), flush=True)
    for core in (AS_IT_IS, AWAKE):
        print(_summary(core, [half for half in halves if half.core == core]), flush=True)
    return halves


async def _half(options: Namespace, number: int, maximum: float, core: str) -> Half:
    async with AsyncExitStack() as stack:
        target = await stack.enter_async_context(own_server())
        crowd = await stack.enter_async_context(Crowd(target.url, target.root_key))
        if core == AWAKE:
            await stack.enter_async_context(kept_awake(SERVER_CORE))
        async with witnessed() as steadiness:
            result = await load_runs.paced(
                crowd, options.pairs, maximum / 2, options.seconds, server_cpu=target.cpu_seconds
            )
        spans = sorted(spans_of(await crowd.talkers(options.pairs)))
    steady = latency_of(took_ms(filter(steadiness.was_steady, spans)))
    slow_share = steadiness.slow_share((spans[0][0], spans[-1][1]))
    return Half(number, maximum, core, result, steady, slow_share)


_HEAD: Final = (
    "round", "max/s", "core", "sent/s", "µs/sent", "server", "p50 ms", "p99 ms", "steady p99",
    "left out", "slow",
)  # fmt: skip
_WIDTHS: Final = (5, 7, 8, 7, 7, 6, 7, 7, 10, 8, 5)


def _line(cells: Iterable[str]) -> str:
    return "  ".join(cell.rjust(width) for cell, width in zip(cells, _WIDTHS, strict=True))


def _summary(core: str, halves: list[Half]) -> str:
    overall = [half.result.latency.p99 for half in halves]
    steady = [half.steady.p99 if half.steady.count else inf for half in halves]
    return (
        f"{core}: p99 in the middle round {median(overall):.1f} ms, steady {median(steady):.1f}; "
        f"up to {TARGET_MS:.0f} ms in {_kept(overall)} of {len(halves)}, "
        f"steady in {_kept(steady)}"
    )


def _kept(figures: list[float]) -> int:
    return sum(figure <= TARGET_MS for figure in figures)

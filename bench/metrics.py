# SPDX-License-Identifier: Apache-2.0
"""Measures what metrics cost: a server as it is, and one without the code that counts and times.

Both servers run on the same core, and are measured in turn, so every disturbance affects both.
"""

import statistics
from argparse import ArgumentParser, Namespace
from contextlib import AsyncExitStack

import msgspec

from bench.server import own_server
from tidings.tools.load_crowd import Crowd, allow_connections
from tidings.tools.load_runs import Result, throughput

WITH, WITHOUT = "tidings", "bench.without_metrics"


class MetricsResult(msgspec.Struct, frozen=True, kw_only=True):
    """Medians over all rounds."""

    us: float
    """CPU time of the server per message, in microseconds."""
    us_without: float
    rate: float
    """Messages per second."""
    rate_without: float
    ratio: float
    """The ratio of the CPU times, of each two runs that followed each other."""


def add_options(parser: ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--pairs", type=int, default=50)
    parser.add_argument("--window", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--seconds", type=float, default=2)


async def run(options: Namespace) -> MetricsResult:
    """Measure both servers in turn, several times; print the medians."""
    allow_connections(4 * options.pairs)
    async with AsyncExitStack() as stack:
        crowds = []
        for module in (WITH, WITHOUT):
            target = await stack.enter_async_context(own_server(module=module))
            crowd = await stack.enter_async_context(Crowd(target.url, target.root_key))
            crowds.append((crowd, target))
        rounds: list[tuple[Result, ...]] = []
        for number in range(options.rounds):
            # Each goes first in every other round.
            order = (0, 1) if number % 2 else (1, 0)
            found = {
                place: await throughput(
                    crowds[place][0],
                    options.pairs,
                    options.window,
                    options.seconds,
                    server_cpu=crowds[place][1].cpu_seconds,
                )
                for place in order
            }
            rounds.append((found[0], found[1]))
    return _result(rounds)


def _result(rounds: list[tuple[Result, ...]]) -> MetricsResult:
    us = [[one.server_us or 0.0 for one in pair] for pair in rounds]
    result = MetricsResult(
        us=statistics.median(pair[0] for pair in us),
        us_without=statistics.median(pair[1] for pair in us),
        rate=statistics.median(pair[0].rate for pair in rounds),
        rate_without=statistics.median(pair[1].rate for pair in rounds),
        ratio=statistics.median(pair[0] / pair[1] for pair in us),
    )
    print(f"with metrics    {result.us:6.1f} µs a message, {result.rate:8,.0f} a second")
    fewer, more = result.us_without, result.rate_without
    print(f"without         {fewer:6.1f} µs a message, {more:8,.0f} a second")
    print(f"ratio of CPU    {result.ratio:.3f}")
    return result

# SPDX-License-Identifier: Apache-2.0
"""Durable 1:1 throughput and latency, over pairs and windows; and latency at half of the load."""

from argparse import ArgumentParser, Namespace
from typing import Final

import msgspec

from bench.server import OUTPUT, Target, own_server
from bench.steadiness import idle_share, spans_of, told, took_ms, witnessed
from tidings.load import runs
from tidings.load.crowd import Crowd
from tidings.load.files import allow_connections
from tidings.load.picture import picture
from tidings.load.results import HEAD, Latency, Result, latency_of, line
from tidings.load.talker import CONTENT as CONTENT
from tidings.load.talker import RECEIVED_EVERY as RECEIVED_EVERY

ABOUT: Final = (
    "Durable 1:1 messages: encrypted, idempotent, fsync before each answer, stored receipts, "
    "rate limits off, no TLS. A fresh server for each line."
)
CHART: Final = OUTPUT / "throughput.svg"
HALF_LOAD_PAIRS: Final = 200
ALONE: Final = 1
"""Half of a load is half of what the same traffic reaches: messages that come one by one cost more
than those that come eight to a packet, and evenly spread ones come one by one."""


class HalfLoad(msgspec.Struct, frozen=True):
    """Latency at half of what the server can take."""

    maximum: float
    """Messages in a second, at most."""
    result: Result
    steady: Latency
    """Of messages that were not under way while a core of the machine was slow, nor right after."""
    slow_share: float
    """How much of the time one was."""
    idle_slow_share: float
    """The same before, with nothing to do."""


def add_options(parser: ArgumentParser) -> None:
    """Pairs, windows, seconds."""
    parser.add_argument("--pairs", type=int, nargs="+", default=[1, 10, 50, 200, 1_000])
    parser.add_argument("--window", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--seconds", type=float, default=5)


async def run(options: Namespace) -> list[Result]:
    """Each combination on a fresh server; a line for each, and a chart of all."""
    allow_connections(2 * max(options.pairs))
    print(ABOUT)
    print(line(HEAD), flush=True)
    results = []
    for window in options.window:
        for pairs in options.pairs:
            async with own_server() as target:
                results.append(await throughput(target, pairs, window, options.seconds))
            print(line(results[-1].row()), flush=True)
    CHART.write_text(picture(results))
    print(f"chart: {CHART}")
    return results


async def throughput(target: Target, pairs: int, window: int, seconds: float) -> Result:
    """One combination."""
    async with Crowd(target.url, target.root_key) as crowd:
        return await runs.throughput(crowd, pairs, window, seconds, server_cpu=target.cpu_seconds)


def add_half_load_options(parser: ArgumentParser) -> None:
    """The maximum, unless it is to be measured first."""
    parser.add_argument("--pairs", type=int, default=HALF_LOAD_PAIRS)
    parser.add_argument("--maximum", type=float, help="messages/s; measured first if not given")
    parser.add_argument("--seconds", type=float, default=5)


async def run_half_load(options: Namespace) -> HalfLoad:
    """Messages at an even pace of half the maximum."""
    maximum = options.maximum
    if maximum is None:
        async with own_server() as target:
            peak = await throughput(target, options.pairs, ALONE, options.seconds)
        maximum = peak.rate
    idle_slow_share = await idle_share(options.seconds)
    async with own_server() as target, Crowd(target.url, target.root_key) as crowd:
        async with witnessed() as steadiness:
            result = await runs.paced(
                crowd, options.pairs, maximum / 2, options.seconds, server_cpu=target.cpu_seconds
            )
        spans = sorted(spans_of(await crowd.talkers(options.pairs)))
    half = HalfLoad(
        maximum,
        result,
        steady=latency_of(took_ms(filter(steadiness.was_steady, spans))),
        slow_share=steadiness.slow_share((spans[0][0], spans[-1][1])),
        idle_slow_share=idle_slow_share,
    )
    print(f"Half of the {maximum:,.0f} messages/s that one by one are possible, evenly spread.")
    print(line(HEAD))
    print(line(result.row()))
    print(
        f"A core of the machine was slow for {half.slow_share:.0%} of the time (idle, before: "
        f"{half.idle_slow_share:.0%}); otherwise {told(half.steady, len(spans))}",
        flush=True,
    )
    return half

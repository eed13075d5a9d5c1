# SPDX-License-Identifier: Apache-2.0
"""Measures the throughput and latency of durable 1:1 messages, for several numbers of pairs and
windows."""

from argparse import ArgumentParser, Namespace
from typing import Final

from bench.server import OUTPUT, Target, own_server
from tidings.tools import load_runs
from tidings.tools.load_chart import picture
from tidings.tools.load_crowd import Crowd, allow_connections
from tidings.tools.load_runs import HEAD, Result, line
from tidings.tools.load_talker import CONTENT as CONTENT
from tidings.tools.load_talker import RECEIVED_EVERY as RECEIVED_EVERY

ABOUT: Final = (
    "Durable 1:1 messages: encrypted, idempotent, fsync before each answer, stored receipts, "
    "rate limits off, no TLS. A fresh server for each line."
)
CHART: Final = OUTPUT / "throughput.svg"


def add_options(parser: ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--pairs", type=int, nargs="+", default=[1, 10, 50, 200, 1_000])
    parser.add_argument("--window", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--seconds", type=float, default=5)


async def run(options: Namespace) -> list[Result]:
    """Measure each combination on a new server; print a line for each, and draw a chart."""
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
    """Measure one combination."""
    async with Crowd(target.url, target.root_key) as crowd:
        return await load_runs.throughput(
            crowd, pairs, window, seconds, server_cpu=target.cpu_seconds
        )

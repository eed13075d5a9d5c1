# SPDX-License-Identifier: Apache-2.0
"""Measures group fan-out: all members of a group are connected, and a few of them send."""

from argparse import ArgumentParser, Namespace
from time import perf_counter, process_time
from typing import Final

import msgspec

from bench.gathering import Gathering
from bench.server import Target, own_server
from tidings.tools.load_runs import LOAD_BOUND, Latency

WARM_UP_SECONDS: Final = 1.0
HEAD: Final = (
    "members  senders  window    sent/s  delivered/s  µs/delivered   p50 ms   p99 ms  server   load"
)


class FanOutResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result of one run."""

    members: int
    senders: int
    window: int
    seconds: float
    sent: int
    delivered: int
    missing: int
    latency: Latency
    """Time from a send to its answer."""
    server_cpu: float
    load_cpu: float

    def row(self) -> str:
        """Return the result as a line of the table whose header is `HEAD`."""
        cost = self.server_cpu * self.seconds / max(self.delivered, 1) * 1e6
        remarks = "load-bound " if self.load_cpu > LOAD_BOUND else ""
        remarks += f"{self.missing} MISSING" if self.missing else ""
        return (
            f"{self.members:7} {self.senders:8} {self.window:7} {self.sent / self.seconds:9,.0f}"
            f" {self.delivered / self.seconds:12,.0f} {cost:13.2f} {self.latency.p50:8.1f}"
            f" {self.latency.p99:8.1f} {self.server_cpu:7.0%} {self.load_cpu:6.0%}  {remarks}"
        ).rstrip()


def add_options(parser: ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--members", type=int, default=200)
    parser.add_argument("--senders", type=int, default=4)
    parser.add_argument("--window", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=5)


async def run(options: Namespace) -> FanOutResult:
    """Measure one group on a new server."""
    print("Group fan-out: everyone online, `received` every 100 entries.")
    print(HEAD, flush=True)
    async with own_server() as target:
        result = await fan_out(
            target, options.members, options.senders, options.window, options.seconds
        )
    print(result.row(), flush=True)
    return result


async def fan_out(
    target: Target, members: int, senders: int, window: int, seconds: float
) -> FanOutResult:
    """Run the load for some seconds; return the result."""
    async with Gathering(target.url, target.root_key, members, senders) as gathering:
        gathering.start(window)
        await gathering.watch.wait(WARM_UP_SECONDS)
        gathering.forget_latencies()
        start = _mark(gathering, target)
        await gathering.watch.wait(seconds)
        end = _mark(gathering, target)
        latency = gathering.latency()
        missing = await gathering.settle()
    elapsed, sent, delivered, load, server = (b - a for a, b in zip(start, end, strict=True))
    return FanOutResult(
        members=members,
        senders=senders,
        window=window,
        seconds=elapsed,
        sent=int(sent),
        delivered=int(delivered),
        missing=missing,
        latency=latency,
        server_cpu=server / elapsed,
        load_cpu=load / elapsed,
    )


def _mark(gathering: Gathering, target: Target) -> tuple[float, float, float, float, float]:
    return (
        perf_counter(),
        gathering.sent,
        gathering.delivered,
        process_time(),
        target.cpu_seconds(),
    )

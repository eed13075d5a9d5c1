# SPDX-License-Identifier: Apache-2.0
"""Measures group fan-out: all members of a group are connected, and a few of them send."""

from argparse import ArgumentParser, Namespace
from time import perf_counter, process_time
from typing import Final, NamedTuple

import msgspec

from bench.gathering import Gathering
from bench.server import Target, own_server
from tidings.tools.load_runs import LOAD_BOUND, Latency

WARM_UP_SECONDS: Final = 1.0
HEAD: Final = (
    "members  senders  window    sent/s  delivered/s  µs/delivered  busiest"
    "   p50 ms   p99 ms  server   load"
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
    busiest_cpu: float
    """CPU time of the process of the server that used most."""
    load_cpu: float

    def row(self) -> str:
        """Return the result as a line of the table whose header is `HEAD`."""
        each = self.seconds / max(self.delivered, 1) * 1e6
        remarks = "load-bound " if self.load_cpu > LOAD_BOUND else ""
        remarks += f"{self.missing} MISSING" if self.missing else ""
        return (
            f"{self.members:7} {self.senders:8} {self.window:7} {self.sent / self.seconds:9,.0f}"
            f" {self.delivered / self.seconds:12,.0f} {self.server_cpu * each:13.2f}"
            f" {self.busiest_cpu * each:8.2f} {self.latency.p50:8.1f}"
            f" {self.latency.p99:8.1f} {self.server_cpu:7.0%} {self.load_cpu:6.0%}  {remarks}"
        ).rstrip()


def add_options(parser: ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--members", type=int, default=200)
    parser.add_argument("--senders", type=int, default=4)
    parser.add_argument("--window", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--processes", type=int, default=1, help="processes that hold sockets")


async def run(options: Namespace) -> FanOutResult:
    """Measure one group on a new server."""
    print("Group fan-out: everyone online, `received` every 100 entries.")
    print(HEAD, flush=True)
    async with own_server(settings={"TIDINGS_PROCESSES": str(options.processes)}) as target:
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
    elapsed = end.at - start.at
    used = [now - before for before, now in zip(start.server_cpu, end.server_cpu, strict=True)]
    return FanOutResult(
        members=members,
        senders=senders,
        window=window,
        seconds=elapsed,
        sent=end.sent - start.sent,
        delivered=end.delivered - start.delivered,
        missing=missing,
        latency=latency,
        server_cpu=sum(used) / elapsed,
        busiest_cpu=max(used) / elapsed,
        load_cpu=(end.load_cpu - start.load_cpu) / elapsed,
    )


class _Mark(NamedTuple):
    at: float
    sent: int
    delivered: int
    load_cpu: float
    server_cpu: list[float]
    """CPU time of each process of the server."""


def _mark(gathering: Gathering, target: Target) -> _Mark:
    return _Mark(
        perf_counter(),
        gathering.sent,
        gathering.delivered,
        process_time(),
        target.cpu_by_process(),
    )

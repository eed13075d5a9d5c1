# SPDX-License-Identifier: Apache-2.0
"""Measures stalls of the event loop under full load, with a sweeper, checkpoints, and reads of a
long chat.

A stall is measured from outside: every 5 ms, an idle connection sends a ping, and the delay of the
answer is recorded.
"""

import asyncio
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec

from bench.probe import Sample
from bench.seeds import Seed, copied, fill, seeded
from bench.server import Target, own_server
from bench.steadiness import witnessed
from tidings.stores.sqlite.engine.connections import DATABASE
from tidings.tools import load_runs
from tidings.tools.load_crowd import Crowd
from tidings.tools.load_runs import HEAD, Latency, Result, latency_of, line
from tidings.tools.load_talker import Rest

STALL_MS: Final = 20.0
TTL_SECONDS: Final = 2
READ_EVERY_SECONDS: Final = 0.02
PROBE_LEAD_SECONDS: Final = 1.0


class StallsResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result of the pings."""

    load: Result
    pings: Latency
    net: Latency
    """Delays without the time in which the server had no core to run on."""
    longer: int
    """Number of pings that took longer than 20 ms."""
    longer_net: int
    steady: Latency
    """Delays, as in `net`, of the pings that no slow core delayed."""
    longer_steady: int
    slow_share: float
    """Share of the time in which a core was slow."""
    log_bytes: int
    """Size of the write-ahead log at the end."""


def add_options(parser: ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--messages", type=int, default=1_000_000, help="in the long chat")
    parser.add_argument("--expiring", type=int, default=20_000, help="that expire at the start")
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--window", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=15)


async def run(options: Namespace) -> StallsResult:
    """Run the load, the reads and the pings at the same time."""
    seed = await seeded(options.messages, options.seeds)
    async with copied(seed) as store:
        await fill(store, options.expiring, expires_at=1)
        async with own_server(store.data) as target:
            result = await _stalls(store, target, options)
    _print(result)
    return result


async def _stalls(store: Seed, target: Target, options: Namespace) -> StallsResult:
    token = await store.reader(target)
    async with Crowd(target.url, target.root_key) as crowd:
        talkers = await crowd.talkers(options.pairs)
        for talker in talkers[::2]:
            talker.expire_after(TTL_SECONDS)
        async with _reading(store, target, token), witnessed() as steadiness:
            probing = asyncio.create_task(_probe(target, token, options.seconds))
            load = await load_runs.throughput(
                crowd,
                options.pairs,
                options.window,
                options.seconds,
                warm_up_seconds=PROBE_LEAD_SECONDS,
                server_cpu=target.cpu_seconds,
            )
            samples = await probing
    took = [sample.took for sample in samples]
    net = [_net(sample) for sample in samples]
    spans = [(sample.at, sample.at + sample.took / 1e3) for sample in samples]
    steady = [
        _net(sample)
        for sample, span in zip(samples, spans, strict=True)
        if steadiness.was_steady(span)
    ]
    return StallsResult(
        load=load,
        pings=latency_of(took),
        net=latency_of(net),
        longer=sum(one > STALL_MS for one in took),
        longer_net=sum(one > STALL_MS for one in net),
        steady=latency_of(steady),
        longer_steady=sum(one > STALL_MS for one in steady),
        slow_share=steadiness.slow_share((spans[0][0], spans[-1][1])),
        log_bytes=(store.data / f"{DATABASE}-wal").stat().st_size,
    )


def _net(sample: Sample) -> float:
    return max(0.0, sample.took - sample.waited)


@asynccontextmanager
async def _reading(store: Seed, target: Target, token: str) -> AsyncIterator[None]:
    """Read page after page of the long chat inside this context."""
    rest = Rest(target.url)

    async def read() -> None:
        before = store.messages
        while True:
            path = f"/v1/chats/{store.chat}/messages?limit=50&before={before}"
            before = (await rest.call("GET", path, token))["next_before"] or store.messages
            await asyncio.sleep(READ_EVERY_SECONDS)

    reading = asyncio.create_task(read())
    try:
        yield
    finally:
        reading.cancel()
        rest.close()


async def _probe(target: Target, token: str, seconds: float) -> list[Sample]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.probe", target.url, token, str(target.pid), str(seconds),
        stdout=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parents[1],
    )  # fmt: skip
    output, _ = await process.communicate()
    return msgspec.json.decode(output, type=list[Sample])


def _print(result: StallsResult) -> None:
    print(
        "Full load, half of it expiring after 2 s; a sweeper, checkpoints, a long chat being read"
    )
    print(line(HEAD))
    print(line(result.load.row()))
    print(f"{'ping every 5 ms':34}{'p50 ms':>8}{'p99 ms':>8}{'p99.9':>8}{'max':>8}  > 20 ms")
    for name, pings, longer in (
        ("answer", result.pings, result.longer),
        ("without waiting for the core", result.net, result.longer_net),
        ("and while no core was slow", result.steady, result.longer_steady),
    ):
        print(
            f"{name:34}{pings.p50:8.1f}{pings.p99:8.1f}{pings.p999:8.1f}{pings.max:8.1f}"
            f"  {longer} of {pings.count}"
        )
    print(
        f"write-ahead log up to {result.log_bytes / 2**20:.0f} MiB; "
        f"a core of the machine was slow for {result.slow_share:.0%} of the time",
        flush=True,
    )

# SPDX-License-Identifier: Apache-2.0
"""Measures what backups cost a server at full load: runs with and without them take turns."""

import asyncio
import statistics
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from time import perf_counter

import msgspec

from bench.server import own_folder, own_server, unpin
from tidings.tools.load_crowd import Crowd, allow_connections
from tidings.tools.load_runs import throughput


class BackupsResult(msgspec.Struct, frozen=True, kw_only=True):
    """Rates of acknowledged messages per second, over all rounds."""

    rate: float
    """Median without backups."""
    rate_beside: float
    """Median beside backups."""
    ratio: float
    """Median of the ratios of each two runs that followed each other."""
    backups: int
    """Number of backups that were made."""
    seconds: float
    """Median time of a backup."""


def add_options(parser: ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--pairs", type=int, default=50)
    parser.add_argument("--window", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--pause", type=float, default=0, help="seconds between two backups")


async def run(options: Namespace) -> BackupsResult:
    """Measure in turn without and beside backups; print the medians."""
    allow_connections(4 * options.pairs)
    times: list[float] = []
    with own_folder() as folder:
        data, place = folder / "data", folder / "backups"
        async with own_server(data) as target, Crowd(target.url, target.root_key) as crowd:
            rates = []
            for _ in range(options.rounds):
                pair = []
                for beside in (nullcontext(), backups(data, place, options.pause, times)):
                    async with beside:
                        found = await throughput(
                            crowd, options.pairs, options.window, options.seconds
                        )
                        pair.append(found.rate)
                rates.append(pair)
    if not times:
        raise SystemExit("no backup was finished: choose more --seconds")
    result = BackupsResult(
        rate=statistics.median(pair[0] for pair in rates),
        rate_beside=statistics.median(pair[1] for pair in rates),
        ratio=statistics.median(pair[1] / pair[0] for pair in rates),
        backups=len(times),
        seconds=statistics.median(times),
    )
    print(
        f"{result.rate:,.0f} messages a second, {result.rate_beside:,.0f} beside backups: "
        f"{result.ratio:.1%}; {result.backups} backups of {result.seconds:.1f} s"
    )
    return result


@asynccontextmanager
async def backups(data: Path, place: Path, pause: float, times: list[float]) -> AsyncIterator[None]:
    """Make one backup after the other inside this context, and add the time of each to `times`."""
    task = asyncio.create_task(_keep_backing_up(data, place, pause, times))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error


async def _keep_backing_up(data: Path, place: Path, pause: float, times: list[float]) -> None:
    while True:
        began = perf_counter()
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tidings", "backup", str(place), "--data", str(data),
            "--keep", "2", stdout=asyncio.subprocess.DEVNULL, preexec_fn=unpin,
        )  # fmt: skip
        try:
            code = await process.wait()
        except asyncio.CancelledError:
            process.kill()
            await process.wait()
            raise
        if code != 0:
            raise SystemExit("a backup failed")
        times.append(perf_counter() - began)
        await asyncio.sleep(pause)

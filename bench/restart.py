# SPDX-License-Identifier: Apache-2.0
"""Measures how long a server with a large store takes to restart: after SIGTERM, after SIGKILL, and
with a cold disk cache."""

import os
import signal
import statistics
from argparse import ArgumentParser, Namespace
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import perf_counter
from typing import Final

import msgspec

from bench.seeds import Seed, copied, seeded
from bench.server import launch, ready
from tidings.stores.sqlite.engine.connections import DATABASE
from tidings.tools.load_crowd import Crowd
from tidings.tools.load_talker import Talker

LOAD_PAIRS: Final = 50
LOAD_WINDOW: Final = 8


class RestartResult(msgspec.Struct, frozen=True, kw_only=True):
    """Time from the start of the process until it is ready, in seconds: median and maximum."""

    messages: int
    after: str
    median: float
    longest: float
    log_bytes: int
    """Maximum size of the write-ahead log that had to be recovered."""

    def row(self) -> str:
        """Return the result as a line of text."""
        log = f"   write-ahead log up to {self.log_bytes / 2**20:.0f} MiB" if self.log_bytes else ""
        return f"{self.after:28}{self.median:8.2f} s{self.longest:9.2f} s{log}"


def add_options(parser: ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3, help="of load before each SIGKILL")


async def run(options: Namespace) -> list[RestartResult]:
    """Restart the server several times after each kind of end."""
    results = []
    print(f"From exec to /readyz 200, {options.messages:,} messages in the store.")
    print(f"{'':28}{'median':>10}{'longest':>11}", flush=True)
    seed = await seeded(options.messages, options.seeds)
    async with copied(seed) as store:
        for after, prepare in _kinds(store, options.seconds).items():
            took, logs = [], []
            for _ in range(options.times):
                await prepare()
                logs.append(_log_bytes(store.data))
                took.append(await _time_to_ready(store.data))
            results.append(
                RestartResult(
                    messages=options.messages,
                    after=after,
                    median=statistics.median(took),
                    longest=max(took),
                    log_bytes=max(logs),
                )
            )
            print(results[-1].row(), flush=True)
    return results


def _kinds(store: Seed, seconds: float) -> dict[str, Callable[[], Awaitable[None]]]:
    async def nothing() -> None:
        pass

    async def cool() -> None:
        _forget_cached(store.data)

    async def kill() -> None:
        await _kill_under_load(store.data, seconds)

    async def kill_and_cool() -> None:
        await _kill_under_load(store.data, seconds)
        _forget_cached(store.data)

    return {
        "after SIGTERM": nothing,
        "after SIGTERM, cache cold": cool,
        "after SIGKILL under load": kill,
        "after SIGKILL, cache cold": kill_and_cool,
    }


async def _time_to_ready(data: Path) -> float:
    started = perf_counter()
    process = await launch(data)
    await ready(data, process)
    took = perf_counter() - started
    process.send_signal(signal.SIGTERM)
    await process.wait()
    return took


async def _kill_under_load(data: Path, seconds: float) -> None:
    process = await launch(data)
    target = await ready(data, process)
    async with Crowd(target.url, target.root_key) as crowd:
        talkers: list[Talker] = await crowd.talkers(LOAD_PAIRS)
        for talker in talkers:
            talker.start(LOAD_WINDOW)
        await crowd.watch.wait(seconds)
        process.kill()
        await process.wait()


def _log_bytes(data: Path) -> int:
    log = data / f"{DATABASE}-wal"
    return log.stat().st_size if log.exists() else 0


def _forget_cached(data: Path) -> None:
    """Make the kernel drop its cached pages of the files, as after a reboot."""
    for path in data.iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

# SPDX-License-Identifier: Apache-2.0
"""Runs one attack after the other, each beside the quiet neighbours and on its own server."""

import asyncio
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from time import monotonic
from typing import Final, Protocol

import msgspec

from bench.neighbours.attacks_by_tenants import CostlySchema, LargePosts
from bench.neighbours.attacks_by_users import (
    Downloading,
    Fetching,
    LargeGroups,
    ManyChats,
    ManyPeers,
    ManyUnread,
)
from bench.neighbours.attacks_on_port import Hoarding, Pipelining, Trailers
from bench.neighbours.ground import Ground, NotPrepared
from bench.neighbours.seen import Seen
from bench.server import Target, own_server
from tidings.tools.load_runs import latency_of

P99_MS_MAX: Final = 250.0
GROWTH_BYTES_MAX: Final = 50 * 2**20
BACK_SECONDS_MAX: Final = 30.0
LOOK_SECONDS: Final = 0.05
LIMITS_ON: Final = {"TIDINGS_LIMITS": "on"}


class Attack(Protocol):
    """An attack on the server."""

    id: str
    title: str

    async def prepare(self, ground: Ground) -> None:
        """Create everything that the attack needs, before the measurement begins."""
        ...

    async def strike(self, ground: Ground) -> None:
        """Perform the attack once. It is repeated until its time is over."""
        ...


ATTACKS: Final[tuple[Callable[[], Attack], ...]] = (
    Pipelining,
    Trailers,
    ManyUnread,
    ManyChats,
    LargeGroups,
    Hoarding,
    CostlySchema,
    Fetching,
    ManyPeers,
    LargePosts,
    Downloading,
)


class Verdict(msgspec.Struct, kw_only=True):
    """Result of one attack: its effect on the neighbours and on the server."""

    id: str
    title: str
    quiet: Seen
    """Measurements before the attack."""
    attacked: Seen
    growth_bytes: int = 0
    """Maximum growth of the server's memory."""
    back_seconds: float | None = None
    """Time after the attack until the growth was below 50 MB; None if it stayed above."""
    outcomes: dict[str, int] = {}
    """Number of the attacker's requests by outcome."""
    not_prepared: str | None = None
    """Reason why the attack could not be prepared."""

    @property
    def has_held(self) -> bool:
        """Whether the attack had no noticeable effect on the neighbours, and the server's memory
        recovered."""
        return (
            not self.attacked.closed
            and not self.attacked.unanswered
            and self._within(self.quiet.messages_ms, self.attacked.messages_ms)
            and self._within(self.quiet.lists_ms, self.attacked.lists_ms)
            and self.growth_bytes < GROWTH_BYTES_MAX
            and self.back_seconds is not None
        )

    def _within(self, quiet: Sequence[float], attacked: Sequence[float]) -> bool:
        return latency_of(attacked).p99 <= max(P99_MS_MAX, 2 * latency_of(quiet).p99)


def add_options(parser: ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--only", nargs="*", metavar="ID", help="such as S01; all if left out")
    parser.add_argument("--seconds", type=float, default=15, help="before and during each attack")
    parser.add_argument("--neighbours", type=int, default=5)
    parser.add_argument("--size", type=float, default=1.0, help="of each attack")


async def run(options: Namespace) -> list[Verdict]:
    """Run all attacks, each on its own server."""
    verdicts = []
    print(HEAD)
    for make in ATTACKS:
        attack = make()
        if options.only and attack.id not in options.only:
            continue
        async with own_server(settings=LIMITS_ON) as target:
            async with neighbours(target, options.neighbours) as quiet:
                verdict = await measure(
                    attack, Ground(target, options.size), quiet, options.seconds
                )
        verdicts.append(verdict)
        print(_line(verdict), flush=True)
    return verdicts


class Neighbours:
    """The process with the quiet neighbours."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def seen_at_all(self) -> Seen:
        """Return the measurements as `seen` does, but wait until they contain an answered message
        and list, or a closed socket."""
        seen = await self.seen()
        while not (seen.messages_ms and seen.lists_ms) and not seen.closed:
            await asyncio.sleep(LOOK_SECONDS)
            seen.add(await self.seen())
        return seen

    async def seen(self) -> Seen:
        """Return the measurements since the last call."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(b"\n")
        told = await self._process.stdout.readline()
        return msgspec.json.decode(told, type=Seen)


@asynccontextmanager
async def neighbours(target: Target, count: int) -> AsyncIterator[Neighbours]:
    """Start the neighbours, and wait until they are connected."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.neighbours.quiet", "--"),
        *(target.url, target.root_key, str(count)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=2**24,
        cwd=Path(__file__).parents[2],
    )
    try:
        quiet = Neighbours(process)
        await quiet.seen()
        yield quiet
    finally:
        process.kill()
        await process.wait()


async def measure(attack: Attack, ground: Ground, quiet: Neighbours, seconds: float) -> Verdict:
    """Prepare the attack, measure the neighbours without it, attack, and wait until the server
    recovers."""
    await ground.start()
    verdict = Verdict(id=attack.id, title=attack.title, quiet=Seen(), attacked=Seen())
    try:
        await attack.prepare(ground)
    except NotPrepared as why:
        verdict.not_prepared = str(why)
    await quiet.seen()
    await asyncio.sleep(seconds)
    verdict.quiet = await quiet.seen_at_all()
    if verdict.not_prepared is None:
        await _strike(attack, ground, verdict, seconds)
    verdict.attacked = await quiet.seen_at_all()
    verdict.outcomes = dict(ground.outcomes)
    return verdict


async def _strike(attack: Attack, ground: Ground, verdict: Verdict, seconds: float) -> None:
    before = ground.target.own_bytes()
    memory = asyncio.create_task(_highest(ground.target))
    end = monotonic() + seconds
    while True:
        await attack.strike(ground)
        if monotonic() >= end:
            break
    over = monotonic()
    while monotonic() < over + BACK_SECONDS_MAX:
        if ground.target.own_bytes() < before + GROWTH_BYTES_MAX:
            verdict.back_seconds = monotonic() - over
            break
        await asyncio.sleep(LOOK_SECONDS)
    memory.cancel()
    verdict.growth_bytes = max(0, await _result(memory) - before)


async def _highest(target: Target) -> int:
    """Return the maximum memory of the server, observed until this task is cancelled."""
    most = 0
    try:
        while True:
            most = max(most, target.own_bytes())
            await asyncio.sleep(LOOK_SECONDS)
    except asyncio.CancelledError:
        return most


async def _result(task: "asyncio.Task[int]") -> int:
    return await task


HEAD: Final = (
    f"{'':5}{'attack':38}{'message p99 ms':>20}{'chat list p99 ms':>20}{'sockets':>9}"
    f"{'unanswered':>12}{'memory':>10}{'back':>8}  held"
)


def _line(verdict: Verdict) -> str:
    if verdict.not_prepared is not None:
        return f"{verdict.id:5}{verdict.title:38}could not be prepared: {verdict.not_prepared}"
    quiet, attacked = verdict.quiet, verdict.attacked
    messages = _change(quiet.messages_ms, attacked.messages_ms)
    lists = _change(quiet.lists_ms, attacked.lists_ms)
    closed = f"{attacked.closed} lost" if attacked.closed else "stay"
    back = "no" if verdict.back_seconds is None else f"{verdict.back_seconds:.1f} s"
    outcomes = ", ".join(f"{count} {name}" for name, count in sorted(verdict.outcomes.items()))
    return (
        f"{verdict.id:5}{verdict.title:38}{messages:>20}{lists:>20}{closed:>9}"
        f"{len(attacked.unanswered):>12}{verdict.growth_bytes / 2**20:>7.0f} MB{back:>8}"
        f"  {'yes' if verdict.has_held else 'NO'}  ({outcomes})"
    )


def _change(quiet: Sequence[float], attacked: Sequence[float]) -> str:
    return f"{latency_of(quiet).p99:.0f} -> {latency_of(attacked).p99:.0f}"

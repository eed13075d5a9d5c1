# SPDX-License-Identifier: Apache-2.0
"""Measures latency at half of the maximum, and stalls under full load, on our server and on another
in turn.

Each round measures a server's own maximum and applies half of it, evenly. The maximum is that of
one message in flight per user, because an even load arrives one by one as well. All figures are
those of the machine as it is: nothing is left out.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from statistics import median
from typing import Final

import msgspec

from bench.peers.catalog import OURS, Peer
from bench.peers.load import WARM_UP_SECONDS, pairs_load
from bench.peers.member import Pinged, Server
from bench.peers.outcome import Outcome
from bench.peers.probe import probed
from bench.peers.shapes import BOTH_WRITE
from tidings.tools.load_runs import Latency, latency_of

TARGET: Final = 0.5
"""Our p99 at half load should be at most this share of the other server's."""
STALL_MS: Final = 20.0
ALONE: Final = 1
"""Number of messages in flight per user with which the maximum is measured."""


class Half(msgspec.Struct, frozen=True, kw_only=True):
    """One server in one round."""

    round: int
    who: str
    full: Outcome
    pings: Latency
    """Delay of pings under full load."""
    stalls: int
    """Number of pings that took longer than 20 ms."""
    maximum: float
    half: Outcome

    def row(self) -> tuple[str, ...]:
        """Return the cells of a row of the table."""
        latency, pings = self.half.latency, self.pings
        return (
            str(self.round + 1),
            self.who,
            f"{self.maximum:,.0f}",
            f"{self.half.rate:,.0f}",
            f"{latency.p50:.1f}",
            f"{latency.p99:.1f}",
            f"{self.full.rate:,.0f}",
            f"{pings.p50:.1f}",
            f"{pings.p99:.1f}",
            f"{pings.max:.0f}",
            f"{self.stalls / max(1, pings.count):.0%}",
        )


HEAD: Final = (
    "round", "", "maximum/s", "sent/s", "p50 ms", "p99 ms", "full load/s", "ping p50 ms",
    "ping p99 ms", "ping max ms", "> 20 ms",
)  # fmt: skip


async def halves(peers: Sequence[Peer], rounds: int, seconds: float) -> AsyncIterator[Half]:
    """Yield the results of these servers in turn, each on a new server."""
    for number in range(rounds):
        for peer in peers:
            async with peer.start() as server:
                yield await _half(peer.who, server, number, seconds)


def half_ratios(found: Sequence[Half]) -> tuple[list[float], list[float]]:
    """Return for each round our p99 divided by the other server's: of acknowledgements at half
    load, and of pings under full load."""
    ours = [one for one in found if one.who == OURS.who]
    theirs = [one for one in found if one.who != OURS.who]
    rounds = list(zip(ours, theirs, strict=True))
    return (
        [one.half.latency.p99 / other.half.latency.p99 for one, other in rounds],
        [one.pings.p99 / other.pings.p99 for one, other in rounds],
    )


def half_verdict(found: Sequence[Half]) -> str:
    """Say how our server compares with the other."""
    acks, pings = half_ratios(found)
    kept = "held" if median(acks) <= TARGET else "MISSED"
    return (
        f"p99 at half load: ours is {median(acks):.2f} of the other's in the middle round"
        f" ({_listed(acks)}), goal at most {TARGET}: {kept}. p99 of pings under full load:"
        f" {median(pings):.2f} ({_listed(pings)})."
    )


def _listed(ratios: Sequence[float]) -> str:
    return ", ".join(f"{ratio:.2f}" for ratio in ratios)


async def _half(who: str, server: Server, number: int, seconds: float) -> Half:
    assert isinstance(server, Pinged), who
    ping = await server.ping()
    load = await pairs_load(server, BOTH_WRITE)
    try:
        pinging = asyncio.create_task(probed(ping, WARM_UP_SECONDS + seconds))
        full = await load.full(server, who, BOTH_WRITE.window, seconds)
        delays = await pinging
        return Half(
            round=number,
            who=who,
            full=full,
            pings=latency_of(delays),
            stalls=sum(delay > STALL_MS for delay in delays),
            maximum=(maximum := (await load.full(server, who, ALONE, seconds)).rate),
            half=await load.paced(server, who, maximum / 2, seconds),
        )
    finally:
        load.close()

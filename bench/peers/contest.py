# SPDX-License-Identifier: Apache-2.0
"""Measures the servers in turn, each anew in every round, so that all see the same machine."""

from collections.abc import AsyncIterator, Sequence
from typing import Final

import msgspec

from bench.machine import Others
from bench.peers.catalog import OURS, Peer, say_skipped
from bench.peers.load import Load, group_load, pairs_load
from bench.peers.member import Server
from bench.peers.outcome import GROUP, PAIRS, Outcome
from bench.peers.processes import PeerError
from bench.peers.shapes import Shape
from bench.peers.wire import WireError

KINDS: Final = {PAIRS: pairs_load, GROUP: group_load}


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What is measured, and for how long."""

    shapes: Sequence[Shape]
    kinds: Sequence[str]
    seconds: float
    rounds: int


async def outcomes(peers: Sequence[Peer], plan: Plan) -> AsyncIterator[Outcome]:
    """Yield the outcomes of all servers in turn. Each round starts with another server."""
    for number in range(plan.rounds):
        first = number % len(peers)
        for peer in (*peers[first:], *peers[:first]):
            others = Others()
            for outcome in await _of_round(peer, plan, number):
                yield msgspec.structs.replace(outcome, others=others.share())


async def _of_round(peer: Peer, plan: Plan, number: int) -> list[Outcome]:
    """Return the outcomes of one server. If another server than ours fails, a line says so, and it
    has no outcome in this round."""
    try:
        async with peer.start() as server:
            return await _runs(peer.who, server, plan, number)
    except (PeerError, WireError) as error:
        if peer is OURS:
            raise
        say_skipped(peer.who, error)
        return []


async def _runs(who: str, server: Server, plan: Plan, number: int) -> list[Outcome]:
    found, sent = [], {PAIRS: 0, GROUP: 0}
    for shape in plan.shapes:
        for kind in plan.kinds:
            load = await KINDS[kind](server, shape)
            outcome = await _run(who, server, load, shape.window_of(kind), plan.seconds)
            sent[kind] += load.sent
            found.append(
                msgspec.structs.replace(outcome, kind=kind, shape=shape.name, round=number)
            )
    # The archive and the log are those of all runs; the last one tells.
    found[-1] = msgspec.structs.replace(
        found[-1],
        rows=server.rows(sent[PAIRS], sent[GROUP]),
        errors=server.errors(),
        database=server.settings(),
    )
    return found


async def _run(who: str, server: Server, load: Load, window: int, seconds: float) -> Outcome:
    try:
        return await load.full(server, who, window, seconds)
    finally:
        load.close()

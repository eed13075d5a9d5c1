# SPDX-License-Identifier: Apache-2.0
"""Measures our own server under the same load, with all its features on."""

from bench.fan_out import fan_out
from bench.peers.outcome import Outcome
from bench.server import own_server
from bench.throughput import throughput

WHO = "Tidings"


async def pairs_on_ours(pairs: int, window: int, seconds: float) -> Outcome:
    """Measure 1:1 messages on a new server."""
    async with own_server() as target:
        result = await throughput(target, pairs, window, seconds)
    return Outcome(
        who=WHO,
        seconds=result.seconds,
        sent=result.sent,
        delivered=result.delivered,
        missing=result.missing,
        latency=result.latency,
        cpu_seconds={"tidings": (result.server_cpu or 0.0) * result.seconds},
        load_cpu=result.load_cpu,
    )


async def group_on_ours(members: int, senders: int, window: int, seconds: float) -> Outcome:
    """Measure a group on a new server."""
    async with own_server() as target:
        result = await fan_out(target, members, senders, window, seconds)
    return Outcome(
        who=WHO,
        seconds=result.seconds,
        sent=result.sent,
        delivered=result.delivered,
        missing=result.missing,
        latency=result.latency,
        cpu_seconds={"tidings": result.server_cpu * result.seconds},
        load_cpu=result.load_cpu,
    )

# SPDX-License-Identifier: Apache-2.0
"""Measures how many messages per second one chat takes through sockets, with and without packs.

Twenty members, on one gateway or on two, send as fast as they get answers, and every member
receives every message. With one gateway, the server is a single process. With two gateways, there
are also a worker, Kafka and Redis. The ways of writing take turns, so that a busy machine affects
all of them equally. The store is a stand-in in memory that answers every request after 5 ms, or
DynamoDB Local.
"""

import asyncio
import secrets
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Final

import msgspec

from bench.gathering import Gathering
from bench.machine import Others
from bench.packs import REGION, WAYS, Way
from bench.scale import make_tables, processes
from bench.server import Target, own_folder, unpin
from bench.stand_in import StandIn
from scripts.services.dynamodb_local import DynamoDBLocal
from tidings.assembly.system import SystemChance, SystemClock
from tidings.config.settings import DynamoDb
from tidings.model.formats import PACKS
from tidings.stores.dynamodb.client.dynamo import open_client
from tidings.stores.dynamodb.formats import EPOCH
from tidings.stores.dynamodb.patterns import KEEP_VALUE

TWO_GATEWAYS: Final = ("gateway,api", "gateway,api", "worker")
"""Roles of the processes. There is no relay, because the stand-in has no streams."""
_TO_THE_ANSWER: Final = ("PutItem messages", "PutItem idempotency_keys")


class HotRate(msgspec.Struct, frozen=True, kw_only=True):
    """Result of one way of writing in one round."""

    gateways: int
    way: str
    messages_per_second: float
    write_units: float | None
    """Write units per message, until its answer; None with DynamoDB Local, which does not report
    them."""
    p50_ms: float
    p99_ms: float
    cpu_us: float
    """CPU time per message, over all processes of the server."""
    missing: int
    others: float = 0.0
    """Number of cores that other programs used meanwhile."""


def add_options(parser: ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--senders", type=int, default=20)
    parser.add_argument("--window", type=int, default=8, help="unanswered messages of a sender")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--gateways", type=int, nargs="+", default=[1, 2], choices=(1, 2))
    parser.add_argument("--local", action="store_true", help="on DynamoDB Local")


async def run(options: Namespace) -> list[HotRate]:
    """Measure every way in each round, then print the medians."""
    unpin()
    found = []
    for _ in range(options.rounds):
        for at in options.gateways:
            options.at = at
            for way in WAYS:
                found.append(await _measured(way, options))
                _print(found[-1])
    for gateways in options.gateways:
        for way in WAYS:
            _sum_up([one for one in found if (one.gateways, one.way) == (gateways, way.name)])
    return found


def _print(rate: HotRate) -> None:
    units = "" if rate.write_units is None else f"{rate.write_units:6.2f} w"
    print(
        f"{rate.gateways} gateway(s)  {rate.way:24}{rate.messages_per_second:7.0f}/s {units}  "
        f"p50 {rate.p50_ms:.0f} ms, p99 {rate.p99_ms:.0f} ms  {rate.cpu_us:.0f} us  "
        f"{rate.missing} missing  others used {rate.others:.1f} cores",
        flush=True,
    )


def _sum_up(rounds: Sequence[HotRate]) -> None:
    rates = [one.messages_per_second for one in rounds]
    print(
        f"{rounds[0].gateways} gateway(s)  {rounds[0].way:24}median {median(rates):.0f}/s, "
        f"{min(rates):.0f} to {max(rates):.0f}",
        flush=True,
    )


async def _measured(way: Way, options: Namespace) -> HotRate:
    others = Others()
    with own_folder() as folder:
        service = DynamoDBLocal if options.local else StandIn
        with service(folder / "dynamodb") as tables:
            if isinstance(tables, DynamoDBLocal):
                await make_tables(tables.address)
            if not way.packs:
                await _forbid_packs(tables.address)
            counted = tables if isinstance(tables, StandIn) else None
            found = await _on(tables.address, counted, folder, way, options)
    # Only processes that have ended are known to be ours.
    return msgspec.structs.replace(found, others=others.share())


async def _forbid_packs(endpoint: str) -> None:
    """Make the deployment look as if it was created before packs existed."""
    async with open_client(
        endpoint=endpoint,
        region=REGION,
        prefix=DynamoDb(region=REGION).prefix,
        clock=SystemClock(),
        chance=SystemChance(),
    ) as dynamo:
        await dynamo.put(KEEP_VALUE, {**EPOCH, "value": secrets.token_hex(8), "writes": PACKS - 1})


async def _on(
    endpoint: str, counted: StandIn | None, folder: Path, way: Way, options: Namespace
) -> HotRate:
    roles = TWO_GATEWAYS if options.at > 1 else ()
    async with processes(folder, endpoint, roles) as targets:
        urls = [target.url for target in targets[: options.at]]
        size = options.senders
        async with Gathering(urls[0], targets[0].root_key, size, size, urls) as hot:
            if way.after:
                hot.name_after()
            hot.start(options.window)
            await hot.all_answered()
            await asyncio.sleep(options.seconds / 5)
            return await _timed(hot, targets, counted, way, options)


async def _timed(
    hot: Gathering, targets: list[Target], counted: StandIn | None, way: Way, options: Namespace
) -> HotRate:
    hot.forget_latencies()
    sent, began = hot.sent, perf_counter()
    cpu, units = _cpu(targets), _units(counted)
    await asyncio.sleep(options.seconds)
    sent, took = hot.sent - sent, perf_counter() - began
    cpu, units = _cpu(targets) - cpu, _units(counted) - units
    latency = hot.latency()
    return HotRate(
        gateways=options.at,
        way=way.name,
        messages_per_second=sent / took,
        write_units=None if counted is None else units / sent,
        p50_ms=latency.p50,
        p99_ms=latency.p99,
        cpu_us=cpu / sent * 1e6,
        missing=await hot.settle(),
    )


def _cpu(targets: Sequence[Target]) -> float:
    return sum(target.cpu_seconds() for target in targets)


def _units(counted: StandIn | None) -> int:
    units: Counter[str] = counted.units() if counted is not None else Counter()
    return sum(units[name] for name in _TO_THE_ANSWER)

# SPDX-License-Identifier: Apache-2.0
"""Measures a steady load on DynamoDB Local, with one process or with four processes, Kafka and
Redis.

DynamoDB Local is a program for tests and runs on the same cores. The benchmark therefore measures
how much CPU time Tidings needs per message, and whether all answers arrive in time.
"""

import asyncio
import base64
import secrets
import signal
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec

from bench.server import Target, launch, own_folder, ready, unpin
from scripts.services.dynamodb_local import DynamoDBLocal
from scripts.services.kafka_broker import KafkaBroker
from scripts.services.redis_server import RedisServer
from tidings.tools import load_runs
from tidings.tools.load_crowd import Crowd
from tidings.tools.load_runs import HEAD, Result, line

ROLES: Final = ("gateway,api", "gateway,api", "worker,relay", "worker")
REGION: Final = "eu-west-1"


class ScaleResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result of the steady load."""

    processes: int
    result: Result


def add_options(parser: ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--rate", type=float, default=120, help="messages/s")
    parser.add_argument("--pairs", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--warm-up", type=float, default=60)
    parser.add_argument("--many", action="store_true", help="four processes, Kafka and Redis")


async def run(options: Namespace) -> ScaleResult:
    """Run the same load at a constant rate for minutes."""
    unpin()  # more programs than cores
    with own_folder() as folder:
        async with deployment(folder, is_many=options.many) as targets:
            result = await _steady(targets, options)
    print(f"{options.rate:.0f} messages/s for {options.seconds:.0f} s, {len(targets)} process(es).")
    print(line(HEAD))
    print(line(result.row()))
    print(f"missing {result.missing}, refused {result.refused}", flush=True)
    return ScaleResult(processes=len(targets), result=result)


async def _steady(targets: list[Target], options: Namespace) -> Result:
    gateways = [target.url for target in targets[:2]] if options.many else []
    async with Crowd(targets[0].url, targets[0].root_key, gateways=gateways) as crowd:
        return await load_runs.paced(
            crowd,
            options.pairs,
            options.rate,
            options.seconds,
            warm_up_seconds=options.warm_up,
            server_cpu=lambda: sum(target.cpu_seconds() for target in targets),
        )


@asynccontextmanager
async def deployment(folder: Path, *, is_many: bool) -> AsyncIterator[list[Target]]:
    """Start DynamoDB Local with tables, the other services and the processes; stop all of them
    afterwards."""
    with DynamoDBLocal(folder / "dynamodb") as dynamodb:
        await make_tables(dynamodb.address)
        roles = ROLES if is_many else ()
        async with processes(folder, dynamodb.address, roles) as targets:
            yield targets


@asynccontextmanager
async def processes(folder: Path, tables: str, roles: Sequence[str]) -> AsyncIterator[list[Target]]:
    """Start a process for each of the roles, with Kafka and Redis; without roles, start a single
    process."""
    async with AsyncExitStack() as stack:
        settings = {
            "TIDINGS_STORE": "dynamodb",
            "TIDINGS_DYNAMODB_ENDPOINT": tables,
            "TIDINGS_DYNAMODB_REGION": REGION,
            "TIDINGS_ROOT_KEY": secrets.token_urlsafe(32),
            "TIDINGS_MASTER_KEY": base64.b64encode(secrets.token_bytes(32)).decode(),
            "AWS_ACCESS_KEY_ID": "local",
            "AWS_SECRET_ACCESS_KEY": "local",
        }
        if not roles:
            yield [await stack.enter_async_context(_process(folder / "all", settings))]
            return
        kafka = stack.enter_context(KafkaBroker(folder / "kafka"))
        redis = stack.enter_context(RedisServer(folder / "redis"))
        settings |= {
            "TIDINGS_BUS": "kafka",
            "TIDINGS_KAFKA_BOOTSTRAP": kafka.address,
            "TIDINGS_REGISTRY": "redis",
            "TIDINGS_REDIS_URL": redis.address,
        }
        yield [
            await stack.enter_async_context(
                _process(folder / f"process-{number}", settings | {"TIDINGS_ROLES": role})
            )
            for number, role in enumerate(roles)
        ]


async def make_tables(endpoint: str) -> None:
    """Create all tables that do not exist."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tidings", "schema", "apply", "--endpoint", endpoint,
        "--region", REGION, stdout=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    if await process.wait():
        raise SystemExit("the tables could not be made")


@asynccontextmanager
async def _process(data: Path, settings: Mapping[str, str]) -> AsyncIterator[Target]:
    data.mkdir()
    process = await launch(data, settings, core=None)
    try:
        target = await ready(data, process, settings["TIDINGS_ROOT_KEY"])
        yield target
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        await process.wait()

# SPDX-License-Identifier: Apache-2.0
"""The doctor beside a running server, and on DynamoDB, Kafka and Redis with their faults."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from tests.integration.engines import engine as engine
from tests.support.clock import ManualClock
from tests.support.cluster import Services, many_processes
from tests.support.command import tidings
from tests.support.dynamo_tables import new_prefix, some_tables
from tests.support.engine import Settings, as_environment, on_tables
from tests.support.server import ServerProcess
from tests.support.settings import config_of
from tidings.actions.content.vault import DIGEST_KEY
from tidings.assembly.system import SystemClock
from tidings.buses.kafka_clients import (
    KafkaServers,
    Topics,
    ensure_topics,
    start_producer,
    stop_producer,
)
from tidings.config import Config
from tidings.doctor import cluster_checks
from tidings.doctor.cluster_checks import look_at_kafka, look_at_redis
from tidings.doctor.examination import examine
from tidings.doctor.findings import Finding, Subject
from tidings.doctor.store_checks import look_at_tables
from tidings.model import formats
from tidings.stores.dynamodb.formats import EPOCH
from tidings.stores.dynamodb.schema.live import aws_client

pytestmark = pytest.mark.asyncio(loop_scope="module")

NOBODY = "127.0.0.1:9"


async def test_beside_a_running_server(server: ServerProcess, settings: Settings) -> None:
    said = await tidings(
        "doctor", "--json", "--data", server.data, environment=as_environment(settings)
    )
    told = json.loads(said.out)
    found = {(each["check"], each["level"]): each["what"] for each in told["findings"]}
    assert found["server", "ok"] == f"the server at {server.url} is ready"
    assert found["limits", "ok"].startswith("the server may open")
    assert said.code == {"fault": 2, "warning": 1, "unknown": 0, "ok": 0}[told["worst"]]


# --- DynamoDB ----------------------------------------------------------------------------------


async def found_in(look: Any, config: Config, clock: Any = None) -> dict[str, list[Finding]]:
    """What a check finds, by level."""
    found: dict[str, list[Finding]] = {}
    async for finding in look(Subject(config, clock or SystemClock())):
        found.setdefault(finding.level, []).append(finding)
    return found


@pytest.fixture
async def tables(dynamodb_endpoint: str, tmp_path: Path) -> AsyncIterator[Settings]:
    """The settings of a process on empty tables of its own, which have no streams."""
    async with some_tables(dynamodb_endpoint, streams=False) as prefix:
        yield on_tables(dynamodb_endpoint, prefix)


async def put(tables: Settings, *items: dict[str, Any]) -> None:
    """Store items about the deployment."""
    async with aws_client(
        "dynamodb", endpoint=tables["dynamodb_endpoint"], region=tables["dynamodb_region"]
    ) as client:
        for item in items:
            await client.put_item(TableName=f"{tables['dynamodb_prefix']}tenants", Item=item)


async def test_tables_and_what_they_contain(tables: Settings, tmp_path: Path) -> None:
    config = config_of(data=tmp_path, **tables)
    found = await found_in(look_at_tables, config, ManualClock())
    # Without streams, gateways would learn of nothing; and this clock is in another year.
    assert [each.cure for each in found["fault"][:-1]] == ["run `tidings schema apply`"]
    assert "its stream" in found["fault"][0].what
    assert "that of DynamoDB" in found["fault"][-1].what

    epoch = {name: {"S": value} for name, value in EPOCH.items()}
    secret = {"sk": {"S": f"secret#{DIGEST_KEY}"}, "master_key_id": {"S": "abc"}}
    newer = {"writes": {"N": str(formats.NEWEST + 1)}}
    await put(tables, {**epoch, **newer}, {**epoch, **secret})
    found = await found_in(look_at_tables, config)
    assert "install the newer version" in found["fault"][-2].cure
    assert "the master key is missing" in found["fault"][-1].what


async def test_tables_that_nobody_has_made(dynamodb_endpoint: str, tmp_path: Path) -> None:
    config = config_of(data=tmp_path, **on_tables(dynamodb_endpoint, new_prefix()))
    found = await found_in(look_at_tables, config)
    assert found.keys() == {"fault"}
    assert "there is no such table" in found["fault"][0].what


# --- Kafka and Redis ---------------------------------------------------------------------------


async def test_services_that_do_not_answer(tmp_path: Path) -> None:
    services = Services(f"http://{NOBODY}", NOBODY, f"redis://{NOBODY}/0")
    config = config_of(
        **many_processes(services, "t-") | {"data": tmp_path, "port": 0, "master_key": bytes(32)}
    )
    findings = await examine(Subject(config, SystemClock()))
    silent = {each.check for each in findings if "cannot be reached" in each.what}
    assert silent == {"store", "kafka", "redis"}
    assert {each.level for each in findings if each.check in silent} == {"fault"}


def on_services(kafka: str, redis: str, prefix: str) -> Config:
    settings = many_processes(Services(f"http://{NOBODY}", kafka, redis), prefix)
    return config_of(**settings | {"master_key": bytes(32)})


async def test_topics_lag_and_dead_letters(
    kafka_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_checks, "KAFKA_SECONDS_SLOW", 60.0)  # on a busy machine
    prefix = new_prefix()
    config = on_services(kafka_address, f"redis://{NOBODY}/0", prefix)
    found = await found_in(look_at_kafka, config)
    assert "Kafka has no topic" in found["warning"][0].what
    servers, topics = KafkaServers(kafka_address), Topics(prefix)
    await ensure_topics(servers, topics, 1)
    producer = await start_producer(servers)
    try:
        await producer.send_and_wait(topics.dead_of(topics.inbox_jobs), b"a dead letter")
    finally:
        await stop_producer(producer)
    found = await found_in(look_at_kafka, config)
    assert [each.what for each in found["warning"]] == [
        f"{prefix}inbox-jobs-dead has 1 dead letters"
    ]
    assert any("events of" in each.what for each in found["ok"])


async def test_the_clock_and_the_rights_of_redis(redis_url: str) -> None:
    prefix = new_prefix()
    found = await found_in(look_at_redis, on_services(NOBODY, redis_url, prefix), ManualClock())
    assert "that of Redis" in found["fault"][0].what
    assert any(each.what.startswith("Redis ") for each in found["ok"])
    async with Redis.from_url(redis_url) as redis:
        await redis.acl_setuser(
            prefix, enabled=True, passwords=["+secret"], commands=["+ping", "+time"]
        )
        limited = redis_url.replace("redis://", f"redis://{prefix}:secret@")
        found = await found_in(look_at_redis, on_services(NOBODY, limited, prefix))
        await redis.acl_deluser(prefix)
    assert "may not use INFO" in found["unknown"][0].what

# SPDX-License-Identifier: Apache-2.0
"""Processes on DynamoDB and Kafka that are killed while they delete a user: the counts of the
receipt are exact, and tables, topics and logs have nothing of the person but what it lists."""

import asyncio
import random
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer

from tests.faults.conftest import Say
from tests.faults.deleted_user import FEW, MANY, Belongings, DeletedUser, fill, traces_in_text
from tests.faults.many.small_steps import STEP_ITEMS, STEP_SECONDS
from tests.support.cluster import Cluster, Services, many_processes
from tests.support.dynamo_tables import REGION, open_tables, some_tables
from tests.support.server import LOG_FILE
from tests.support.waiting import until
from tidings.assembly.system import SystemChance, SystemClock
from tidings.buses.kafka_clients import Topics
from tidings.stores.dynamodb.client.access import Pattern
from tidings.stores.dynamodb.client.dynamo import open_client
from tidings.stores.dynamodb.export.scanning import whole_table
from tidings.stores.dynamodb.tables import TABLES

NAMES = ("one", "two")
ROLES = dict.fromkeys(NAMES, "gateway,api,worker,relay")
MOMENT_SECONDS_MAX = 1.0
SECONDS_PER_KILL = 2.0
"""The job sleeps this long for each kill, so that it does not end before the last one."""
KEPT = {
    "users": "as a mark",
    "sessions": "counters of limits",
    "messages": "in entries of logs",
    "chats": "in the records of these chats",
    "delivery_state": "in the records of these chats",
    "reactions": "the user's reactions to messages",
    "idempotency_keys": "idempotency keys of the user's sends",
    "inbox": "in events for the tenant's webhooks",
    "tenants": "in the lists of revocations and of destroyed keys",
    "keys": "the ledger of erasures",
    "audit": "the audit trail",
}
"""By table, what the receipt says about the id in it."""
SMALL_STEPS = Path(__file__).with_name("small_steps.py")
ID = re.compile(rb"\bzoe\b")


async def stored(services: Services, prefix: str) -> AsyncIterator[tuple[str, bytes]]:
    """All items and events of the deployment, each with its table or topic."""
    async with open_client(
        endpoint=services.dynamodb,
        region=REGION,
        prefix=prefix,
        clock=SystemClock(),
        chance=SystemChance(),
    ) as dynamo:
        for table in TABLES:
            look = Pattern("look", "Scan", (table.name,), "a search", strong=True)
            async for page in whole_table(dynamo, look):
                for item in page:
                    yield table.name, repr(item).encode()
    async for topic, event in events(services.kafka, Topics(prefix)):
        yield topic.removeprefix(prefix), event


async def events(kafka: str, topics: Topics) -> AsyncIterator[tuple[str, bytes]]:
    """All events of the topics, as Kafka has them."""
    names = [
        name
        for topic in (topics.messages, topics.inbox_jobs)
        for name in (topic, topics.dead_of(topic))
    ]
    consumer = AIOKafkaConsumer(*names, bootstrap_servers=kafka, auto_offset_reset="earliest")
    await consumer.start()
    try:
        ends = await consumer.end_offsets(consumer.assignment())
        while any([await consumer.position(place) < end for place, end in ends.items()]):
            for place, records in (await consumer.getmany(timeout_ms=1_000)).items():
                for record in records:
                    yield place.topic, b"%r %r" % (record.key, record.value)
    finally:
        await consumer.stop()


async def deletion_run(
    folder: Path, services: Services, say: Say, kills: int, has: Belongings
) -> None:
    chance, met = random.Random(kills), 0
    async with some_tables(services.dynamodb) as prefix:
        settings = many_processes(services, prefix)
        settings |= {"limits": "off", "attachments_folder": str(folder / "files")}
        cluster = Cluster(folder, settings, ROLES)
        for process in cluster.processes.values():
            process.launcher = SMALL_STEPS
            process.environment[STEP_SECONDS] = str(
                kills * SECONDS_PER_KILL * STEP_ITEMS / has.total
            )
        try:
            await cluster.start(len(NAMES))
            async with cluster.town("town", "one") as one, cluster.town("town", "two") as two:
                user = DeletedUser(one, has)
                await user.make()
                async with open_tables(services.dynamodb, prefix, writes_heads=False) as store:
                    await fill(store, has, SystemClock().now())
                found = [
                    name async for name, text in stored(services, prefix) if traces_in_text(text)
                ]
                assert {"users", "sessions"} <= set(found)
                for _ in range(kills):
                    user.town, victims = chance.choice(((one, ["two"]), (two, NAMES), (one, NAMES)))
                    met += await kill_while_asked(cluster, user, victims, chance)
                await until(user.state, equals="done", seconds=240)
                receipt = await user.receipt()
            await cluster.stop()
        finally:
            await cluster.kill()
        await nothing_else_is_left(services, prefix, receipt["remains"])
    assert [path for path in (folder / "files").rglob("*") if path.is_file()] == []
    for process in cluster.processes.values():
        written = (process.data / LOG_FILE).read_bytes()
        assert (traces_in_text(written), ID.search(written)) == ([], None)
    say(f"a user deleted by two processes with {kills} kills, {met} of them before the end")


async def kill_while_asked(
    cluster: Cluster, user: DeletedUser, victims: Sequence[str], chance: random.Random
) -> bool:
    """Kill processes at any moment of the job; return whether the job was not done before."""
    is_running = await user.state() != "done"
    asked = asyncio.create_task(user.ask())
    await asyncio.sleep(chance.uniform(0, MOMENT_SECONDS_MAX))
    for name in victims:
        await cluster[name].kill()
    await asked
    await asyncio.gather(*(cluster[name].start() for name in victims))
    return is_running


async def nothing_else_is_left(
    services: Services, prefix: str, remains: Sequence[Mapping[str, str]]
) -> None:
    """Tables and topics have nothing but the id, and where they have it, the receipt says so."""
    listed = " / ".join(each["what"] for each in remains)
    wrong = {
        name: text
        async for name, text in stored(services, prefix)
        if traces_in_text(text) or (ID.search(text) and KEPT.get(name, name) not in listed)
    }
    assert wrong == {}


@pytest.mark.slow
async def test_killed_processes_go_on_deleting_a_user(
    tmp_path: Path, say: Say, dynamodb_endpoint: str, kafka_address: str, redis_url: str
) -> None:
    services = Services(dynamodb_endpoint, kafka_address, redis_url)
    await deletion_run(tmp_path, services, say, kills=2, has=FEW)


@pytest.mark.soak
async def test_processes_that_are_killed_20_times_delete_a_user(
    tmp_path: Path, say: Say, dynamodb_endpoint: str, kafka_address: str, redis_url: str
) -> None:
    services = Services(dynamodb_endpoint, kafka_address, redis_url)
    await deletion_run(tmp_path, services, say, kills=20, has=MANY)

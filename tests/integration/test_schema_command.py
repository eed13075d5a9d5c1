# SPDX-License-Identifier: Apache-2.0
"""`tidings schema` against the real DynamoDB Local: it names what differs, and puts it right."""

import asyncio
import dataclasses
import itertools
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiobotocore.session import get_session

from tests.support.dynamo_tables import drop_tables, make_tables
from tidings.cli import main
from tidings.stores.dynamodb.schema import deployment, live, requests
from tidings.stores.dynamodb.schema.differences import Difference
from tidings.stores.dynamodb.schema.live import LiveTables, live_tables
from tidings.stores.dynamodb.tables import (
    BODIES,
    CHAT_MEMBERSHIPS,
    CHATS,
    LISTINGS,
    MESSAGES,
    PITR_DAYS,
    TABLES,
    USERS,
    CapacityMode,
    Table,
    TableKey,
    tables_in,
)

REGION = "local"
_numbers = itertools.count()

RIGHT = "All tables are as declared. Scaling, alarms, the dashboard and backups were not checked."
PROVISIONED = ("--capacity", "provisioned")
FEW = (MESSAGES, BODIES, CHATS, CHAT_MEMBERSHIPS, USERS)
"""Tables of tests that change some of them: one test makes all, which takes long."""

Say = Callable[..., tuple[int, list[str]]]


@pytest.fixture
def prefix(dynamodb_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Settings for tables of this test's own."""
    for name in list(os.environ):
        if name.startswith(("TIDINGS_", "AWS_")):
            monkeypatch.delenv(name)
    prefix = f"schema{os.getpid()}x{next(_numbers)}-"
    monkeypatch.setenv("TIDINGS_DYNAMODB_ENDPOINT", dynamodb_endpoint)
    monkeypatch.setenv("TIDINGS_DYNAMODB_PREFIX", prefix)
    monkeypatch.setenv("AWS_REGION", REGION)
    monkeypatch.setattr(live, "POLL_SECONDS", 0.02)
    yield prefix
    asyncio.run(drop_tables(dynamodb_endpoint, prefix, protected=True))


@pytest.fixture
def few_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the command know few tables."""

    def some_of(mode: CapacityMode) -> tuple[Table, ...]:
        names = {table.name for table in FEW}
        return tuple(table for table in tables_in(mode) if table.name in names)

    monkeypatch.setattr(deployment, "tables_in", some_of)


@pytest.fixture
def say(prefix: str, capsys: pytest.CaptureFixture[str]) -> Say:
    """Type a command; its exit code and what it printed, without the prefix of the tables."""

    def typed(*words: str) -> tuple[int, list[str]]:
        code = main(["schema", *words])
        return code, capsys.readouterr().out.replace(prefix, "").splitlines()

    return typed


@asynccontextmanager
async def sdk(endpoint: str) -> AsyncIterator[Any]:
    async with get_session().create_client(
        "dynamodb",
        endpoint_url=endpoint,
        region_name=REGION,
        aws_access_key_id="local",
        aws_secret_access_key="local",
    ) as client:
        yield client


def with_sdk(endpoint: str, work: Callable[[Any], Awaitable[None]]) -> None:
    async def run() -> None:
        async with sdk(endpoint) as client:
            await work(client)

    asyncio.run(run())


def test_tables_are_planned_made_and_found_right(say: Say) -> None:
    code, lines = say("plan")
    assert code == 0
    assert lines == [
        *(f"apply    {table.name}: there is no such table" for table in TABLES),
        f"{len(TABLES)} not as declared.",
    ]
    assert say("verify")[0] == 1

    code, lines = say("apply")
    assert (code, lines[-1]) == (0, RIGHT)
    assert "apply    bodies: TTL is off: it should be on by ttl" in lines

    code, lines = say("verify")
    assert (code, lines[-1]) == (0, RIGHT)
    assert any("point-in-time recovery" in line for line in lines), "not looked at, and said so"
    assert say("apply") == (0, [RIGHT])


def test_lists_are_filled_with_what_exists(
    say: Say, prefix: str, dynamodb_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "local")
    asyncio.run(make_tables(dynamodb_endpoint, prefix, streams=False))

    async def make(client: Any) -> None:
        numbers = {name: {"N": "1"} for name in ("created_at", "updated_at")}
        user = {"user_id": {"S": "acme:ann"}, **numbers}
        await client.put_item(TableName=prefix + USERS.name, Item=user)

    async def look(client: Any) -> None:
        found = await client.scan(TableName=prefix + LISTINGS.name)
        assert [item["sk"] for item in found["Items"]] == [{"S": "ann"}]

    with_sdk(dynamodb_endpoint, make)
    for _ in range(2):
        lines = [
            "The processes of this version may be started.",
            "1 tenants, keys, users and chats are listed.",
            "0 old chats have got a copy of their head.",
        ]
        assert say("fill") == (0, lines)
        with_sdk(dynamodb_endpoint, look)


def test_lists_are_filled_where_the_region_is_known(
    say: Say, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_REGION", "TIDINGS_DYNAMODB_ENDPOINT"):
        monkeypatch.delenv(name)
    assert main(["schema", "fill"]) == 2
    assert "--region" in capsys.readouterr().err


def test_on_this_machine_there_is_a_region(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_REGION")
    code, lines = say("plan")
    assert (code, lines[-1]) == (0, f"{len(TABLES)} not as declared.")


@pytest.mark.usefixtures("few_tables")
def test_what_was_changed_is_named_and_put_right(
    say: Say, prefix: str, dynamodb_endpoint: str
) -> None:
    say("apply")

    async def change(client: Any) -> None:
        def named(table: Table) -> dict[str, str]:
            return {"TableName": prefix + table.name}

        for table in (USERS, CHAT_MEMBERSHIPS):
            await client.update_table(**named(table), DeletionProtectionEnabled=False)
            await client.delete_table(**named(table))
        bare = dataclasses.replace(CHAT_MEMBERSHIPS, indexes=())
        await client.create_table(
            **requests.create_table(bare, prefix), DeletionProtectionEnabled=True
        )
        await client.update_table(**named(MESSAGES), StreamSpecification={"StreamEnabled": False})
        await client.update_table(
            **named(CHATS),
            BillingMode="PROVISIONED",
            ProvisionedThroughput={"ReadCapacityUnits": 1, "WriteCapacityUnits": 1},
        )
        ttl = {"Enabled": False, "AttributeName": "ttl"}
        await client.update_time_to_live(**named(BODIES), TimeToLiveSpecification=ttl)

    with_sdk(dynamodb_endpoint, change)

    expected = [
        "messages: its stream (KEYS_ONLY) is off",
        "bodies: TTL is off: it should be on by ttl",
        "chats: its mode is PROVISIONED and should be PAY_PER_REQUEST",
        "chat_memberships: it has no index user_chats-index",
        "users: there is no such table",
    ]
    code, lines = say("verify")
    assert code == 1
    assert [line for line in lines if ": " in line and "endpoint" not in line] == expected
    assert lines[-1] == "5 not as declared."

    code, lines = say("apply")
    assert (code, lines[-1]) == (0, RIGHT)
    assert {f"apply    {line}" for line in expected} <= set(lines)
    assert say("verify")[0] == 0


@pytest.mark.usefixtures("few_tables")
def test_capacity_goes_back_into_its_range_and_no_further(
    say: Say, prefix: str, dynamodb_endpoint: str
) -> None:
    say("apply", *PROVISIONED)
    name = prefix + CHAT_MEMBERSHIPS.name
    scaled = {"ReadCapacityUnits": 800, "WriteCapacityUnits": 1}
    index = {"IndexName": "user_chats-index", "ProvisionedThroughput": scaled}

    async def change(client: Any) -> None:
        await client.update_table(
            TableName=name,
            ProvisionedThroughput=scaled,
            GlobalSecondaryIndexUpdates=[{"Update": index}],
        )

    with_sdk(dynamodb_endpoint, change)
    code, lines = say("apply", *PROVISIONED)
    assert code == 0
    assert "apply    chat_memberships: write capacity is 1 and should be 5 to 500" in lines

    async def look(client: Any) -> None:
        table = (await client.describe_table(TableName=name))["Table"]
        for place in (table, table["GlobalSecondaryIndexes"][0]):
            units = place["ProvisionedThroughput"]
            assert (units["ReadCapacityUnits"], units["WriteCapacityUnits"]) == (800, 5)

    with_sdk(dynamodb_endpoint, look)


@pytest.mark.usefixtures("few_tables")
def test_a_wrong_key_is_left_to_a_person(say: Say, prefix: str, dynamodb_endpoint: str) -> None:
    async def make(client: Any) -> None:
        wrong = Table(name="messages", holds="", partition=TableKey("chat"), stream="KEYS_ONLY")
        await client.create_table(**requests.create_table(wrong, prefix))

    with_sdk(dynamodb_endpoint, make)

    code, lines = say("apply")
    told = "messages: its key is chat (S) and should be chat_id (S), sequence (N)"
    assert code == 1
    assert lines[-2:] == [f"by hand  {told}", "1 not as declared."]
    assert told in say("verify")[1]


def test_flags_count_before_the_environment(
    say: Say, monkeypatch: pytest.MonkeyPatch, dynamodb_endpoint: str, prefix: str
) -> None:
    monkeypatch.setenv("TIDINGS_DYNAMODB_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setenv("TIDINGS_DYNAMODB_PREFIX", "elsewhere-")
    code, lines = say("plan", "--endpoint", dynamodb_endpoint, "--prefix", prefix)
    assert (code, lines[0]) == (0, "apply    messages: there is no such table")


def test_an_endpoint_that_does_not_answer(
    prefix: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    assert main(["schema", "verify", "--endpoint", "http://127.0.0.1:1"]) == 2
    assert "DynamoDB at http://127.0.0.1:1" in capsys.readouterr().err


class WithRecovery:
    """DynamoDB Local, and the one thing it lacks: point-in-time recovery, off at first."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.on: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def describe_continuous_backups(self, TableName: str) -> dict[str, Any]:
        status = "ENABLED" if TableName in self.on else "DISABLED"
        recovery = {"PointInTimeRecoveryStatus": status}
        return {"ContinuousBackupsDescription": {"PointInTimeRecoveryDescription": recovery}}

    async def update_continuous_backups(
        self, TableName: str, PointInTimeRecoverySpecification: dict[str, Any]
    ) -> None:
        days = {"RecoveryPeriodInDays": PITR_DAYS}
        assert PointInTimeRecoverySpecification == {"PointInTimeRecoveryEnabled": True, **days}
        self.on.add(TableName)


async def test_recovery_is_switched_on_everywhere_but_for_the_keys(
    prefix: str, dynamodb_endpoint: str
) -> None:
    assert [table.name for table in TABLES if not table.pitr] == ["keys"]
    some = [table for table in TABLES if table.name in ("messages", "users", "keys")]
    async with live_tables(
        endpoint=dynamodb_endpoint, region=REGION, prefix=prefix, tables=some
    ) as tables:
        assert await tables.apply(lambda _: None) == []

    async with sdk(dynamodb_endpoint) as client:
        account = WithRecovery(client)
        tables = LiveTables(account, prefix, some)
        off = {"messages", "users"}
        found = await tables.differences()
        assert {(one.table.name, one.kind) for one in found} == {(name, "pitr_off") for name in off}

        told: list[Difference] = []
        assert await tables.apply(told.append) == []
        assert await tables.knows_pitr()
        assert account.on == {prefix + name for name in off}
        assert {one.table.name for one in told} == off

        account.on.add(prefix + "keys")
        (left,) = await tables.apply(told.append)
        assert (left.table.name, left.kind) == ("keys", "pitr_on"), "for a person to decide"

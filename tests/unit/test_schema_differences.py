# SPDX-License-Identifier: Apache-2.0
"""A described table against the declared one: every difference is named, and only those."""

from typing import Any

import pytest

from tidings.stores.dynamodb.schema import requests
from tidings.stores.dynamodb.schema.differences import CURABLE, DescribedTable, differences
from tidings.stores.dynamodb.tables import (
    IDEMPOTENCY_KEYS,
    KEYS,
    MESSAGES,
    PITR_DAYS,
    TABLES,
    Table,
    tables_in,
)

PROVISIONED = {table.name: table for table in tables_in("provisioned")}
CHATS, CHAT_MEMBERSHIPS = PROVISIONED["chats"], PROVISIONED["chat_memberships"]


def described(table: Table, **changes: Any) -> dict[str, Any]:
    """What DescribeTable says of a table that is as declared, but for the changes."""
    created = requests.create_table(table, "")
    mode = created.pop("BillingMode")
    if mode == "PAY_PER_REQUEST":
        created["BillingModeSummary"] = {"BillingMode": mode}
        created["ProvisionedThroughput"] = {"ReadCapacityUnits": 0, "WriteCapacityUnits": 0}
    return {**created, "TableStatus": "ACTIVE", "DeletionProtectionEnabled": True, **changes}


def found(table: Table, **changes: Any) -> DescribedTable:
    return DescribedTable(described(table, **changes), ttl=table.ttl, pitr=PITR_DAYS * table.pitr)


def kinds(table: Table, there: DescribedTable | None) -> list[str]:
    return [one.kind for one in differences(table, there)]


@pytest.mark.parametrize("table", [*TABLES, CHATS, CHAT_MEMBERSHIPS], ids=lambda table: table.name)
def test_what_is_as_declared_is_not_named(table: Table) -> None:
    assert differences(table, found(table)) == []


def test_a_missing_table() -> None:
    assert kinds(MESSAGES, None) == ["table_missing"]


@pytest.mark.parametrize(
    "change",
    [
        {"KeySchema": requests.key_schema(MESSAGES.partition, None)},
        {
            "AttributeDefinitions": [
                {"AttributeName": "chat_id", "AttributeType": "S"},
                {"AttributeName": "sequence", "AttributeType": "S"},
            ]
        },
    ],
    ids=["no sort key", "a text as sort key"],
)
def test_a_wrong_key(change: dict[str, Any]) -> None:
    (wrong,) = differences(MESSAGES, found(MESSAGES, **change))
    assert wrong.kind == "key_wrong"
    assert "should be chat_id (S), sequence (N)" in wrong.says
    assert not wrong.curable, "the table would have to be made anew"


def test_a_wrong_mode() -> None:
    on_demand = {"BillingModeSummary": {"BillingMode": "PAY_PER_REQUEST"}}
    assert kinds(CHATS, found(CHATS, **on_demand)) == ["mode_wrong"]
    assert kinds(CHAT_MEMBERSHIPS, found(CHAT_MEMBERSHIPS, **on_demand)) == ["mode_wrong"]
    assert kinds(MESSAGES, found(MESSAGES, BillingModeSummary={})) == ["mode_wrong"]


@pytest.mark.parametrize(
    ("read", "write", "names"),
    [(29, 5, "read"), (30, 501, "write"), (3_000, 500, None), (1, 1, "read")],
)
def test_capacity_may_scale_within_its_range(read: int, write: int, names: str | None) -> None:
    units = {"ReadCapacityUnits": read, "WriteCapacityUnits": write}
    told = differences(CHATS, found(CHATS, ProvisionedThroughput=units))
    assert [one.kind for one in told] == ["capacity_wrong"] * bool(names)
    assert all(names is not None and one.says.startswith(names) for one in told)


def an_index(**changes: Any) -> dict[str, Any]:
    (index,) = CHAT_MEMBERSHIPS.indexes
    return {**requests.index(CHAT_MEMBERSHIPS, index), **changes}


@pytest.mark.parametrize(
    ("there", "kind"),
    [
        ([], "index_missing"),
        ([an_index(IndexStatus="DELETING")], "index_missing"),
        ([an_index(KeySchema=requests.key_schema(CHATS.partition, None))], "index_wrong"),
        ([an_index(Projection={"ProjectionType": "KEYS_ONLY"})], "index_wrong"),
        ([an_index(), an_index(IndexName="role-index")], "index_unknown"),
        (
            [an_index(ProvisionedThroughput={"ReadCapacityUnits": 1, "WriteCapacityUnits": 5})],
            "capacity_wrong",
        ),
    ],
)
def test_indexes(there: list[dict[str, Any]], kind: str) -> None:
    assert kinds(CHAT_MEMBERSHIPS, found(CHAT_MEMBERSHIPS, GlobalSecondaryIndexes=there)) == [kind]


def test_a_local_index_brings_a_limit_that_nothing_expects() -> None:
    told = found(MESSAGES, LocalSecondaryIndexes=[{"IndexName": "by-sender"}])
    assert kinds(MESSAGES, told) == ["index_unknown"]


@pytest.mark.parametrize(
    ("table", "stream", "kind"),
    [
        (MESSAGES, {}, "stream_off"),
        (MESSAGES, {"StreamEnabled": False}, "stream_off"),
        (MESSAGES, {"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"}, "stream_wrong"),
        (CHATS, {"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"}, "stream_wrong"),
    ],
)
def test_streams(table: Table, stream: dict[str, Any], kind: str) -> None:
    assert kinds(table, found(table, StreamSpecification=stream)) == [kind]


@pytest.mark.parametrize(
    ("table", "ttl", "kind"),
    [
        (IDEMPOTENCY_KEYS, None, "ttl_off"),
        (IDEMPOTENCY_KEYS, "expires_at", "ttl_wrong"),
        (MESSAGES, "ttl", "ttl_wrong"),
    ],
)
def test_time_to_live(table: Table, ttl: str | None, kind: str) -> None:
    assert kinds(table, DescribedTable(described(table), ttl=ttl, pitr=PITR_DAYS)) == [kind]


def test_point_in_time_recovery_is_on_but_for_the_keys() -> None:
    assert kinds(MESSAGES, DescribedTable(described(MESSAGES), ttl=None, pitr=0)) == ["pitr_off"]
    assert kinds(KEYS, DescribedTable(described(KEYS), ttl=None, pitr=PITR_DAYS)) == ["pitr_on"]
    assert "pitr_on" not in CURABLE, "switching it off throws a history away"


def test_recovery_that_does_not_reach_back_far_enough() -> None:
    (short,) = differences(MESSAGES, DescribedTable(described(MESSAGES), ttl=None, pitr=7))
    assert (short.kind, short.curable) == ("pitr_short", True)
    assert short.says == "point-in-time recovery reaches back 7 days and should reach back 35"


def test_an_endpoint_without_recovery_is_not_blamed_for_it() -> None:
    assert kinds(MESSAGES, DescribedTable(described(MESSAGES), ttl=None, pitr=None)) == []


def test_protection_against_deletion() -> None:
    assert kinds(CHATS, found(CHATS, DeletionProtectionEnabled=False)) == ["protection_off"]


def test_everything_that_is_wrong_is_named_at_once() -> None:
    there = DescribedTable(
        described(
            MESSAGES, BillingModeSummary={}, StreamSpecification={}, DeletionProtectionEnabled=False
        ),
        ttl="ttl",
        pitr=0,
    )
    assert set(kinds(MESSAGES, there)) == {
        "mode_wrong",
        "stream_off",
        "ttl_wrong",
        "pitr_off",
        "protection_off",
    }

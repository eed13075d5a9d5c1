# SPDX-License-Identifier: Apache-2.0
"""The tables in memory that benchmarks use answer as DynamoDB does."""

from typing import Any

import pytest

from bench.expressions import condition, update
from bench.stand_in import Refused, Tables
from tidings.stores.dynamodb.client.writes import Put, Update, Write, expressions, item_to_wire

KEY = {"chat_id": "c", "sequence": 7}
FREE = "attribute_not_exists(#chat_id)"


def put(item: dict[str, Any], rule: str = "") -> dict[str, Any]:
    wire = {"TableName": "x-messages", "Item": item_to_wire(item)}
    return {**wire, **expressions(None, condition=rule)}


@pytest.mark.parametrize(
    ("rule", "holds"),
    [
        ("#a = :one AND #b < :two", True),
        ("#a <> :one OR NOT attribute_exists(#none)", True),
        ("(#a = :two OR #a = :one) AND begins_with(#s, :s)", True),
        ("#a BETWEEN :one AND :two AND #none = :one", False),
        ("size(#l) <= :one", False),
        ("#l[1] = :two", True),
    ],
)
def test_conditions(rule: str, holds: bool) -> None:
    item = {"a": 1, "b": 1, "s": "text", "l": [1, 2]}
    assert bool(condition(rule)(item, {":one": 1, ":two": 2, ":s": "te"})) is holds


def test_updates() -> None:
    item = {"a": 1, "l": [1, 2], "s": frozenset({1, 2}), "gone": 1}
    text = (
        "SET #a = #a + :one, #l[1] = :nine, #n = list_append(if_not_exists(#n, :none), :more) "
        "REMOVE #gone ADD #count :one DELETE #s :some"
    )
    values = {":one": 1, ":nine": 9, ":none": [], ":more": [3], ":some": frozenset({2})}
    assert update(text)(item, values) == {
        "a": 2, "l": [1, 9], "n": [3], "count": 1, "s": frozenset({1}),
    }  # fmt: skip


def test_a_slot_is_taken_once_and_a_transaction_is_all_or_nothing() -> None:
    tables = Tables()
    tables.answer("PutItem", put({**KEY, "text": "x" * 1_500}, FREE))
    assert tables.units == {"PutItem messages": 2}
    with pytest.raises(Refused) as refused:
        tables.answer("PutItem", put({**KEY, "text": "other"}, FREE))
    assert refused.value.answer["Item"]["text"] == {"S": "x" * 1_500}

    writes: list[Write] = [
        Put("messages", {"chat_id": "c", "sequence": 8}, FREE),
        Update("messages", KEY, "SET #text = :text", "#text = :text", {":text": "y"}),
    ]
    request = {"TransactItems": [write.to_wire("x-messages") for write in writes]}
    with pytest.raises(Refused) as refused:
        tables.answer("TransactWriteItems", request)
    codes = [reason["Code"] for reason in refused.value.answer["CancellationReasons"]]
    assert codes == ["None", "ConditionalCheckFailed"]
    found = tables.answer("Query", query(backwards=True))
    assert [item["sequence"] for item in found["Items"]] == [{"N": "7"}]


def query(*, backwards: bool) -> dict[str, Any]:
    where = "#chat_id = :chat AND #sequence BETWEEN :first AND :last"
    values = {":chat": "c", ":first": 1, ":last": 9}
    return {
        "TableName": "x-messages",
        "ScanIndexForward": not backwards,
        **expressions(values, where=where),
    }

# SPDX-License-Identifier: Apache-2.0
"""Load by partition key: each request counts for the keys it names, and a hot key is found."""

from typing import Any

import pytest

from tests.support.clock import ManualClock
from tidings.stores.dynamodb import patterns
from tidings.stores.dynamodb.client.access import usage_of
from tidings.stores.dynamodb.client.partitions import HOT_UNITS, PartitionLoad, keys_of

_KEY = {"chat_id": {"S": "c1"}, "sequence": {"N": "7"}}
_WHERE = {
    "KeyConditionExpression": "#user_id = :user AND #chat_id > :after",
    "ExpressionAttributeValues": {":user": {"S": "acme:ann"}, ":after": {"S": "c0"}},
}


@pytest.mark.parametrize(
    ("request_", "keys"),
    [
        ({"TableName": "t-messages", "Key": _KEY}, [("messages", "c1")]),
        ({"TableName": "t-messages", "Item": _KEY}, [("messages", "c1")]),
        ({"TableName": "t-delivery_state", **_WHERE}, [("delivery_state", "acme:ann")]),
        (
            {"TableName": "t-chat_memberships", "IndexName": "user_chats-index", **_WHERE},
            [("user_chats-index", "acme:ann")],
        ),
        (
            {"RequestItems": {"t-messages": {"Keys": [_KEY, _KEY]}}},
            [("messages", "c1"), ("messages", "c1")],
        ),
        (
            {"RequestItems": {"t-messages": [{"PutRequest": {"Item": _KEY}}]}},
            [("messages", "c1")],
        ),
        (
            {"RequestItems": {"t-messages": [{"DeleteRequest": {"Key": _KEY}}]}},
            [("messages", "c1")],
        ),
        (
            {"TransactItems": [{"Put": {"TableName": "t-messages", "Item": _KEY}}]},
            [("messages", "c1")],
        ),
        ({"TableName": "t-users"}, []),
    ],
)
def test_the_keys_of_a_request(request_: dict[str, Any], keys: list[tuple[str, str]]) -> None:
    assert list(keys_of(request_, "t-")) == keys


def test_the_busiest_second_of_each_key_counts() -> None:
    clock = ManualClock()
    load = PartitionLoad(clock)
    quiet, busy = ("messages", "c1"), ("messages", "c2")
    for units in (1, 2):
        load(usage_of(patterns.CLAIM_SLOT, ("messages",), units, (quiet,)))
    clock.time += 1_000
    load(usage_of(patterns.READ_LOG, ("messages",), HOT_UNITS, (busy,)))
    load(usage_of(patterns.READ_ENTRIES, ("messages",), 3, (quiet, busy)))
    first, second = load.busiest(5)
    assert (first.key, first.units, first.is_hot) == ("c2", HOT_UNITS + 1.5, True)
    assert (second.key, second.units, second.is_hot) == ("c1", 9, False), "a write weighs three"
    assert load.busiest(1) == [first]

# SPDX-License-Identifier: Apache-2.0
"""The client against answers that DynamoDB gives seldom, or only at scale."""

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.support.dynamo_proxy import DynamoProxy, dynamo_proxy
from tests.support.dynamo_tables import REGION
from tidings.assembly.system import SystemChance, SystemClock
from tidings.model.refusals import StoreUnavailable
from tidings.model.setup_error import SetupError
from tidings.stores.dynamodb import patterns
from tidings.stores.dynamodb.client import retrying
from tidings.stores.dynamodb.client.access import Usage
from tidings.stores.dynamodb.client.dynamo import Dynamo, open_client
from tidings.stores.dynamodb.client.retrying import Canceled, ConditionFailed, Rejected
from tidings.stores.dynamodb.client.writes import Delete, Put, Update

CHAT = {"chat_id": "c"}
ENTRY = {"chat_id": "c", "sequence": 1}
WIRE = {"chat_id": {"S": "c"}, "sequence": {"N": "1"}}
ERROR = "com.amazonaws.dynamodb.v20120810#"
IF_FREE = "attribute_not_exists(#chat_id)"


@pytest.fixture
async def proxy() -> AsyncIterator[DynamoProxy]:
    async with dynamo_proxy() as opened:
        yield opened


@pytest.fixture
def used() -> list[Usage]:
    return []


@pytest.fixture
async def dynamo(proxy: DynamoProxy, used: list[Usage]) -> AsyncIterator[Dynamo]:
    async with open_client(
        endpoint=proxy.address,
        region=REGION,
        prefix="p_",
        clock=SystemClock(),
        chance=SystemChance(),
        connections=4,
        record=used.append,
    ) as opened:
        yield opened


# What a request says.


async def test_a_request_takes_table_index_and_strength_from_its_pattern(
    dynamo: Dynamo, proxy: DynamoProxy
) -> None:
    proxy.plan("Query", {"Items": []}, {"Items": []})
    await dynamo.query(patterns.LIST_ROLES, "#user_id = :user", {":user": "u"}, limit=5)
    await dynamo.query(patterns.LIST_MEMBERS, "#chat_id = :chat", {":chat": "c"})

    (_, weak), (_, strong) = proxy.asked
    assert (weak["TableName"], weak["IndexName"]) == ("p_chat_memberships", "user_chats-index")
    assert (weak["ExpressionAttributeNames"], weak["Limit"]) == ({"#user_id": "user_id"}, 5)
    assert "ConsistentRead" not in weak
    assert (strong["TableName"], strong["ConsistentRead"]) == ("p_chat_memberships", True)
    assert "IndexName" not in strong


async def test_a_transaction_keeps_to_what_its_pattern_declares(dynamo: Dynamo) -> None:
    with pytest.raises(AssertionError, match="does not declare"):
        await dynamo.transact(patterns.CREATE_CHAT, [Put("users", {"user_id": "u"})])
    with pytest.raises(AssertionError, match="does not delete"):
        await dynamo.transact(patterns.CHANGE_CHAT, [Delete("messages", ENTRY)])


async def test_every_request_is_recorded(
    dynamo: Dynamo, proxy: DynamoProxy, used: list[Usage]
) -> None:
    proxy.plan("GetItem", {"ConsumedCapacity": {"CapacityUnits": 2.5}})
    proxy.plan("PutItem", {"ConsumedCapacity": {"CapacityUnits": 3}})
    proxy.plan("TransactWriteItems", {"ConsumedCapacity": [{"CapacityUnits": 7}]})
    proxy.plan("UpdateItem", {"__type": ERROR + "ConditionalCheckFailedException"})
    await dynamo.get(patterns.READ_ENTRY, ENTRY)
    await dynamo.put(patterns.CLAIM_SLOT, ENTRY)
    await dynamo.transact(
        patterns.CHANGE_CHAT,
        [Put("messages", ENTRY), Update("chats", CHAT, "SET #a = :a", values={":a": 1})],
    )
    with pytest.raises(ConditionFailed):
        await dynamo.update(patterns.MUTE, CHAT, "SET #a = :a", IF_FREE, {":a": 1})

    read, put, both, lost = used
    assert (read.pattern, read.read_units, read.write_units) == (patterns.READ_ENTRY, 2.5, 0)
    assert (read.operation, read.consistent, read.tables) == ("GetItem", True, ("messages",))
    assert (put.read_units, put.write_units) == (0, 3)
    assert (both.tables, both.write_units) == (("messages", "chats"), 7)
    assert lost.write_units == 1


# What comes of it.


async def test_trouble_that_passes_is_not_seen(dynamo: Dynamo, proxy: DynamoProxy) -> None:
    proxy.plan("GetItem", "throttle", "fail", "cut", "conflict", {"Item": WIRE})
    assert await dynamo.get(patterns.READ_ENTRY, ENTRY) == ENTRY
    assert proxy.count("GetItem") == 5


async def test_an_answer_that_was_changed_on_its_way_is_not_believed(
    dynamo: Dynamo, proxy: DynamoProxy
) -> None:
    async with dynamo_proxy() as behind:
        proxy.upstream = behind.address
        behind.plan("GetItem", {"Item": WIRE})
        proxy.plan("GetItem", "garble", {})
        assert await dynamo.get(patterns.READ_ENTRY, ENTRY) is None


async def test_a_failed_condition_tells_what_stands_there(
    dynamo: Dynamo, proxy: DynamoProxy
) -> None:
    failed = {"__type": ERROR + "ConditionalCheckFailedException", "Item": WIRE}
    proxy.plan("PutItem", failed, "cut", failed)
    for is_repeat in (False, True):
        with pytest.raises(ConditionFailed) as caught:
            await dynamo.put(patterns.CLAIM_SLOT, ENTRY, IF_FREE)
        assert (caught.value.item, caught.value.is_repeat) == (ENTRY, is_repeat)
    assert proxy.asked[0][1]["ReturnValuesOnConditionCheckFailure"] == "ALL_OLD"


async def test_a_canceled_transaction_tells_which_writes_were_at_fault(
    dynamo: Dynamo, proxy: DynamoProxy
) -> None:
    reasons: list[dict[str, Any]] = [
        {"Code": "None"},
        {"Code": "ConditionalCheckFailed", "Item": WIRE},
        {"Code": "TransactionConflict"},
    ]
    canceled = {"__type": ERROR + "TransactionCanceledException", "CancellationReasons": reasons}
    proxy.plan("TransactWriteItems", canceled)
    with pytest.raises(Canceled) as caught:
        await dynamo.transact(patterns.CHANGE_CHAT, [Put("messages", ENTRY)] * 3)
    fine, lost, busy = caught.value.reasons
    assert (fine.code, fine.item) == ("", None)
    assert (lost.is_condition, lost.is_conflict, lost.item) == (True, False, ENTRY)
    assert (busy.is_condition, busy.is_conflict) == (False, True)


async def test_a_throttled_transaction_goes_again_under_the_same_token(
    dynamo: Dynamo, proxy: DynamoProxy
) -> None:
    reasons = [{"Code": "None"}, {"Code": "ThrottlingError"}]
    canceled = {"__type": ERROR + "TransactionCanceledException", "CancellationReasons": reasons}
    proxy.plan("TransactWriteItems", canceled, "cut", {}, {})
    await dynamo.transact(patterns.CHANGE_CHAT, [Put("messages", ENTRY)] * 2)
    await dynamo.transact(patterns.CHANGE_CHAT, [Put("messages", ENTRY)] * 2)

    tokens = [request["ClientRequestToken"] for _, request in proxy.asked]
    assert len(set(tokens[:3])) == 1
    assert tokens[3] != tokens[0]


async def test_what_only_an_operator_can_put_right_is_logged(
    dynamo: Dynamo, proxy: DynamoProxy, caplog: pytest.LogCaptureFixture
) -> None:
    proxy.plan("GetItem", {"__type": ERROR + "AccessDeniedException", "message": "not for you"})
    with caplog.at_level(logging.ERROR), pytest.raises(StoreUnavailable):
        await dynamo.get(patterns.READ_ENTRY, ENTRY)
    assert "not for you" in caplog.text


async def test_a_mistake_of_ours_is_no_refusal(dynamo: Dynamo, proxy: DynamoProxy) -> None:
    proxy.plan("GetItem", {"__type": "com.amazon.coral.validate#ValidationException"})
    with pytest.raises(Rejected):
        await dynamo.get(patterns.READ_ENTRY, ENTRY)


async def test_a_store_that_is_not_there_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retrying, "PAUSE_SECONDS_FIRST", 0.001)
    async with open_client(
        endpoint="http://127.0.0.1:9",
        region=REGION,
        prefix="",
        clock=SystemClock(),
        chance=SystemChance(),
    ) as nowhere:
        with pytest.raises(StoreUnavailable):
            await nowhere.get(patterns.READ_ENTRY, ENTRY)


async def test_why_a_request_was_given_up_is_logged_now_and_then(
    dynamo: Dynamo, proxy: DynamoProxy, caplog: pytest.LogCaptureFixture
) -> None:
    throttled = {"__type": ERROR + "ThrottlingException"}
    proxy.plan("GetItem", *[throttled] * 2 * retrying.ATTEMPTS_MAX)
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            await dynamo.get(patterns.READ_ENTRY, ENTRY)
    (line,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert "ThrottlingException" in line.getMessage()
    assert vars(line)["pattern"] == patterns.READ_ENTRY.name


async def test_without_credentials_aws_is_not_even_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, "/nonexistent")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(SetupError, match="credentials"):
        async with open_client(
            endpoint=None,
            region=REGION,
            prefix="",
            clock=SystemClock(),
            chance=SystemChance(),
        ):
            pass


# Pages and batches.


async def test_all_pages_are_followed_also_empty_ones(dynamo: Dynamo, proxy: DynamoProxy) -> None:
    more = {"LastEvaluatedKey": WIRE}
    proxy.plan("Query", {"Items": [], **more}, {"Items": [WIRE], **more}, {"Items": [WIRE]})
    found = await dynamo.query(
        patterns.READ_LOG, "#chat_id = :c", {":c": "c", ":k": "x"}, only="#kind = :k"
    )
    assert found == [ENTRY, ENTRY]
    assert [request.get("ExclusiveStartKey") for _, request in proxy.asked] == [None, WIRE, WIRE]

    proxy.plan("Query", {"Count": 0, **more}, {"Count": 2, **more}, {"Count": 1})
    assert await dynamo.count(patterns.COUNT_CHATS, "#user_id = :u", {":u": "u"}) == 3


async def test_a_limited_query_asks_for_no_more_than_it_needs(
    dynamo: Dynamo, proxy: DynamoProxy
) -> None:
    more = {"LastEvaluatedKey": WIRE}
    proxy.plan("Query", {"Items": [WIRE] * 3, **more}, {"Items": [WIRE] * 2, **more})
    found = await dynamo.query(patterns.READ_LOG, "#chat_id = :c", {":c": "c"}, limit=5)
    assert len(found) == 5
    assert [request["Limit"] for _, request in proxy.asked] == [5, 2]


async def test_what_a_batch_left_undone_is_asked_for_again(
    dynamo: Dynamo, proxy: DynamoProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retrying, "PAUSE_SECONDS_FIRST", 0.001)
    rest = {"p_messages": {"Keys": [WIRE]}}
    proxy.plan(
        "BatchGetItem",
        {"Responses": {"p_messages": [WIRE] * 99}, "UnprocessedKeys": rest},
        {"Responses": {"p_messages": []}, "UnprocessedKeys": rest},
        {"Responses": {"p_messages": [WIRE]}, "UnprocessedKeys": {}},
        {"Responses": {"p_messages": [WIRE] * 50}},
    )
    keys = [{"chat_id": "c", "sequence": n} for n in range(150)]
    assert len(await dynamo.batch_get(patterns.READ_ENTRIES, keys)) == 150
    asked = [len(request["RequestItems"]["p_messages"]["Keys"]) for _, request in proxy.asked]
    assert asked == [100, 1, 1, 50]

    left = {"p_reactions": [{"DeleteRequest": {"Key": WIRE}}]}
    proxy.plan("BatchWriteItem", {"UnprocessedItems": left}, {}, {"UnprocessedItems": {}})
    await dynamo.batch_write(patterns.FORGET_REACTIONS, puts=[ENTRY] * 5, deletes=[ENTRY] * 25)
    asked = [len(r["RequestItems"]["p_reactions"]) for o, r in proxy.asked if o == "BatchWriteItem"]
    assert asked == [25, 1, 5]


async def test_a_batch_that_gets_nowhere_is_given_up(
    dynamo: Dynamo, proxy: DynamoProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retrying, "PAUSE_SECONDS_FIRST", 0.001)
    nothing = {"Responses": {}, "UnprocessedKeys": {"p_messages": {"Keys": [WIRE]}}}
    proxy.plan("BatchGetItem", *[nothing] * 50)
    with pytest.raises(StoreUnavailable):
        await dynamo.batch_get(patterns.READ_ENTRIES, [ENTRY])
    assert proxy.count("BatchGetItem") == retrying.ATTEMPTS_MAX


async def test_there_are_never_more_requests_under_way_than_connections(
    dynamo: Dynamo, proxy: DynamoProxy
) -> None:
    proxy.gate = asyncio.Event()
    proxy.plan("GetItem", *[{"Item": WIRE}] * 20)
    async with asyncio.TaskGroup() as group:
        for _ in range(20):
            group.create_task(dynamo.get(patterns.READ_ENTRY, ENTRY))
        while proxy.at_once < 4:
            await asyncio.sleep(0)
        proxy.gate.set()
    assert (proxy.most_at_once, proxy.count("GetItem")) == (4, 20)


async def test_who_waits_too_long_for_a_connection_is_refused(
    dynamo: Dynamo, proxy: DynamoProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy.gate = asyncio.Event()
    proxy.plan("GetItem", *[{"Item": WIRE}] * 4)
    async with asyncio.TaskGroup() as group:
        for _ in range(4):
            group.create_task(dynamo.get(patterns.READ_ENTRY, ENTRY))
        while proxy.at_once < 4:
            await asyncio.sleep(0)
        monkeypatch.setattr(retrying, "DEADLINE_SECONDS", 0.01)
        with pytest.raises(StoreUnavailable):
            await dynamo.get(patterns.READ_ENTRY, ENTRY)
        proxy.gate.set()
    assert proxy.count("GetItem") == 4

# SPDX-License-Identifier: Apache-2.0
"""Expiry on DynamoDB: items say when they may go, and the engine lets them go."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.contract.builders import a_chat, append, draft, entry_at, key, message, request
from tests.contract.engines import DynamoEngine, Store
from tests.support.clock import NOW
from tests.support.dynamo_tables import REGION, some_tables
from tests.support.services import DynamoDBLocal
from tests.support.spare_tables import spare_tables
from tests.support.users import ANN, BOB
from tests.support.waiting import WAIT_SECONDS, until
from tidings.assembly.system import SystemClock
from tidings.model.chats import ChatState
from tidings.model.limits import DAY_MS
from tidings.ports.log import Kept
from tidings.stores.dynamodb.client.transport import Transport, open_transport
from tidings.stores.dynamodb.client.writes import item_from_wire
from tidings.stores.dynamodb.schema.live import live_tables
from tidings.stores.dynamodb.tables import request_keys_of, ttl_seconds

SWEPT_SECONDS_MAX = 60


@pytest.fixture
async def prefix(dynamodb_endpoint: str) -> AsyncIterator[str]:
    async with spare_tables(dynamodb_endpoint) as prefix:
        yield prefix


@pytest.fixture
async def store(dynamodb_endpoint: str, prefix: str) -> AsyncIterator[Store]:
    async with DynamoEngine(dynamodb_endpoint, prefix).open() as opened:
        yield opened


@pytest.fixture
async def transport(dynamodb_endpoint: str) -> AsyncIterator[Transport]:
    async with open_transport(
        endpoint=dynamodb_endpoint, region=REGION, clock=SystemClock()
    ) as opened:
        yield opened


async def items(transport: Transport, name: str, chat: str) -> list[dict[str, Any]]:
    """All items of a partition, as they are kept."""
    answer = await transport.send(
        "Query",
        {
            "TableName": name,
            "KeyConditionExpression": "chat_id = :chat",
            "ExpressionAttributeValues": {":chat": {"S": chat}},
            "ConsistentRead": True,
        },
        asyncio.get_running_loop().time() + WAIT_SECONDS,
    )
    return [item_from_wire(item) for item in answer["Items"]]


async def test_only_what_expires_says_when_it_may_go(
    store: Store, prefix: str, transport: Transport
) -> None:
    state = await a_chat(store)
    sent = message(ANN, expires_at=NOW + 10)
    claim = key(sent, expires_at=NOW + 2_001)
    await append(store, state, sent, keys=[claim])
    await store.chats.create(*draft(ANN, BOB), request("k", expires_at=NOW + DAY_MS), NOW)

    (body,) = await items(transport, prefix + "bodies", state.chat_id)
    assert (body["expires_at"], body["ttl"]) == (NOW + 10, ttl_seconds(NOW + 10))
    (kept,) = await items(transport, prefix + "idempotency_keys", state.chat_id)
    assert (kept["expires_at"], kept["ttl"]) == (NOW + 2_001, ttl_seconds(NOW + 2_001))
    (asked,) = await items(transport, prefix + "idempotency_keys", request_keys_of(ANN))
    assert (asked["expires_at"], asked["ttl"]) == (NOW + DAY_MS, ttl_seconds(NOW + DAY_MS))
    for entry in await items(transport, prefix + "messages", state.chat_id):
        assert "ttl" not in entry
        assert "box" not in entry, "content that expires is kept apart"


async def switch_ttl_on(endpoint: str, prefix: str) -> None:
    async with live_tables(endpoint=endpoint, region=REGION, prefix=prefix) as tables:
        for one in await tables.differences():
            if one.kind == "ttl_off":
                await tables.cure(one)


async def send_two(store: Store, state: ChatState, now: int) -> None:
    """One message that has expired, as well as its key, and one that has not."""
    for cmid, expires_at in (("gone", now - 2_000), ("kept", now + DAY_MS)):
        sent = message(ANN, cmid=cmid, expires_at=expires_at)
        await append(store, state, sent, keys=[key(sent, expires_at=expires_at)], now=now - 3_000)


@pytest.mark.slow
async def test_the_engine_deletes_what_has_expired_and_the_entry_stays(
    own_dynamodb: DynamoDBLocal,  # after many tables came and went, one in use deletes no more
) -> None:
    endpoint, now = own_dynamodb.address, SystemClock().now()
    async with (
        some_tables(endpoint) as prefix,
        DynamoEngine(endpoint, prefix).open() as store,
        open_transport(endpoint=endpoint, region=REGION, clock=SystemClock()) as transport,
    ):
        await switch_ttl_on(endpoint, prefix)
        state = await a_chat(store, now=now)
        await send_two(store, state, now)

        async def most_left() -> int:
            kept = ("bodies", "idempotency_keys")
            found = [await items(transport, prefix + name, state.chat_id) for name in kept]
            return max(map(len, found))

        await until(most_left, equals=1, seconds=SWEPT_SECONDS_MAX)

        gone, kept = await entry_at(store, state, 2), await entry_at(store, state, 3)
        assert (gone.box, gone.client_message_id, gone.redacted) == (None, "gone", False)
        assert kept.box == b"hi"
        again = message(ANN, cmid="gone")
        claims = [key(again, expires_at=now + DAY_MS)]
        assert await append(store, state, again, keys=claims, now=now) == Kept()

# SPDX-License-Identifier: Apache-2.0
"""Who gets a connection to the tables, and whose retries are used up."""

import asyncio
from collections.abc import AsyncIterator
from typing import cast

import pytest

from tests.contract.builders import draft
from tests.support.clock import NOW
from tests.support.dynamo_proxy import DynamoProxy, dynamo_proxy
from tests.support.users import some_users
from tests.support.waiting import until
from tidings.assembly.system import SystemChance, SystemClock
from tidings.model import limits
from tidings.model.chats import Chat
from tidings.model.entries import Entry
from tidings.model.ids import UserKey, user_key
from tidings.model.refusals import StoreUnavailable
from tidings.ports.chats import Created, RequestKey
from tidings.ports.store import (
    REVOCATIONS,
    Requester,
    on_behalf_of,
    unknown_requester,
    user_requester,
)
from tidings.stores.dynamodb import patterns
from tidings.stores.dynamodb.chat.creating import ChatMaker
from tidings.stores.dynamodb.chat.heads import Heads
from tidings.stores.dynamodb.chat.runs import Runs
from tidings.stores.dynamodb.client.dynamo import Dynamo, open_client
from tidings.stores.dynamodb.client.retrying import Budget

ANN, BOB = Requester("acme", "acme:ann"), Requester("bees", "bees:bob")
KEY = {"chat_id": "c", "sequence": 1}
CONNECTIONS = 4


@pytest.fixture
async def proxy() -> AsyncIterator[DynamoProxy]:
    async with dynamo_proxy() as opened:
        yield opened


@pytest.fixture
async def dynamo(proxy: DynamoProxy) -> AsyncIterator[Dynamo]:
    async with open_client(
        endpoint=proxy.address,
        region="eu-central-1",
        prefix="p_",
        clock=SystemClock(),
        chance=SystemChance(),
        connections=CONNECTIONS,
    ) as opened:
        yield opened


async def get_as(dynamo: Dynamo, who: Requester) -> object:
    with on_behalf_of(who):
        return await dynamo.get(patterns.READ_ENTRY, KEY)


async def until_at_once(proxy: DynamoProxy, count: int) -> None:
    await until(lambda: proxy.at_once >= count)


@pytest.mark.attack("S03", "F04", "D21")
async def test_one_user_leaves_connections_for_everybody_else(
    dynamo: Dynamo, proxy: DynamoProxy
) -> None:
    proxy.gate = asyncio.Event()
    proxy.plan("GetItem", *[{}] * 21)
    async with asyncio.TaskGroup() as group:
        for _ in range(20):
            group.create_task(get_as(dynamo, ANN))
        await until_at_once(proxy, CONNECTIONS // 2)
        group.create_task(get_as(dynamo, BOB))
        await until_at_once(proxy, CONNECTIONS // 2 + 1)
        proxy.gate.set()
    assert proxy.count("GetItem") == 21


@pytest.mark.attack("S03", "F04")
@pytest.mark.parametrize("who", [REVOCATIONS, unknown_requester("192.0.2.1")])
async def test_no_load_of_users_delays_revocations_and_credentials(
    dynamo: Dynamo, proxy: DynamoProxy, who: Requester
) -> None:
    proxy.gate = asyncio.Event()
    proxy.plan("GetItem", *[{}] * 21)
    async with asyncio.TaskGroup() as group:
        for number in range(20):
            group.create_task(get_as(dynamo, Requester("acme", f"acme:user-{number}")))
        await until_at_once(proxy, CONNECTIONS)
        urgent = group.create_task(get_as(dynamo, who))
        await until_at_once(proxy, CONNECTIONS + 1)
        proxy.gate.set()
    assert urgent.result() is None


@pytest.mark.attack("F13")
async def test_where_users_have_used_up_all_retries_revocations_have_their_own(
    dynamo: Dynamo, proxy: DynamoProxy
) -> None:
    dynamo.retrying._budget = Budget(0)
    proxy.plan("GetItem", "throttle")
    with pytest.raises(StoreUnavailable):
        await get_as(dynamo, ANN)
    proxy.plan("GetItem", "throttle", {})
    assert await get_as(dynamo, REVOCATIONS) is None


class SlowMaker(ChatMaker):
    """Makes no chat, and takes until it is let go on."""

    def __init__(self, dynamo: Dynamo) -> None:
        super().__init__(dynamo, cast(Runs, None), cast(Heads, None))
        self.go_on = asyncio.Event()
        self.making: list[UserKey] = []

    async def _create(
        self, chat: Chat, entries: list[Entry], request: RequestKey | None, now: int
    ) -> Created:
        self.making.append(chat.creator)
        await self.go_on.wait()
        return Created(chat.chat_id, is_new=True)


@pytest.mark.attack("S04")
async def test_a_user_makes_few_large_groups_at_once_and_others_make_theirs(
    dynamo: Dynamo,
) -> None:
    maker = SlowMaker(dynamo)
    loud, quiet = user_key("acme", "ann"), user_key("bees", "bob")
    async with asyncio.TaskGroup() as group:
        for creator in [*[loud] * 10, quiet]:
            chat, entries = draft(creator, *some_users(limits.MEMBERS_PER_ENTRY_MAX))
            with on_behalf_of(user_requester(creator)):
                group.create_task(maker.create(chat, entries, None, NOW))
        small, first = draft(loud, quiet)
        group.create_task(maker.create(small, first, None, NOW))
        for _ in range(5):
            await asyncio.sleep(0)
        assert maker.making == [loud, loud, quiet, loud], "two large, those of others, a small one"
        maker.go_on.set()
    assert maker.making.count(loud) == 11

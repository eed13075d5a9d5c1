# SPDX-License-Identifier: Apache-2.0
"""Whoever is removed while something is read for them gets nothing of it."""

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from tests.contract.builders import a_chat, append, message, reacted, removed
from tests.support.clock import NOW
from tests.support.dynamo_proxy import DynamoProxy, dynamo_proxy
from tests.support.dynamo_tables import open_tables
from tests.support.users import ANN, BOB, CAT
from tidings.model.chats import ChatState
from tidings.stores.dynamodb.chat import heads
from tidings.stores.dynamodb.store import DynamoStore

Read = Callable[[DynamoStore, ChatState], Awaitable[object]]

READS: dict[str, tuple[Read, str, str]] = {
    "a page upwards": (
        lambda store, chat: store.log.page(chat.chat_id, BOB, after=0, limit=9), "Query", "messages"
    ),
    "a page downwards": (
        lambda store, chat: store.log.page(chat.chat_id, BOB, before=99, limit=9),
        "Query",
        "messages",
    ),
    "receipts with a page": (
        lambda store, chat: store.log.page(chat.chat_id, BOB, after=0, limit=9),
        "BatchGetItem",
        "delivery_state",
    ),
    "reactions": (
        lambda store, chat: store.log.reactions(chat.chat_id, BOB, 2, 9), "Query", "reactions"
    ),
    "members": (
        lambda store, chat: store.chats.members(chat.chat_id, BOB), "Query", "chat_memberships"
    ),
    "receipts": (
        lambda store, chat: store.receipts.of_chat(chat.chat_id, BOB),
        "BatchGetItem",
        "delivery_state",
    ),
    "a row": (
        lambda store, chat: store.chats.row(BOB, chat.chat_id, NOW), "BatchGetItem", "messages"
    ),
    "the chat list": (
        lambda store, chat: store.chats.listing(BOB, below=None, limit=9, now=NOW),
        "BatchGetItem",
        "messages",
    ),
}  # fmt: skip


@pytest.fixture
async def proxy(dynamodb_endpoint: str) -> AsyncIterator[DynamoProxy]:
    async with dynamo_proxy(dynamodb_endpoint) as opened:
        yield opened


@pytest.mark.parametrize("what", READS)
async def test_the_removed_get_nothing_that_was_read_for_them(
    dynamodb_endpoint: str,
    module_tables: str,
    proxy: DynamoProxy,
    what: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(heads, "WRITE_SECONDS_MIN", 600.0)  # a list shows what is in the log
    read, operation, table = READS[what]
    async with (
        open_tables(proxy.address, module_tables) as store,
        open_tables(dynamodb_endpoint, module_tables) as other,
    ):
        state = await a_chat(store, ANN, BOB, CAT)
        await append(store, state, message(ANN))
        await append(store, state, reacted(2, "x"))
        assert await read(store, state)
        kicked = []

        async def kick() -> None:
            await append(other, state, removed(BOB), message(ANN, "not for Bob"))
            kicked.append(BOB)

        proxy.before(operation, module_tables + table, kick)
        assert not await read(store, state)
        assert kicked

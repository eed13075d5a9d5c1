# SPDX-License-Identifier: Apache-2.0
"""Chats from before own ones were counted apart: who wrote in one, or made it, has it as own."""

import apsw
import pytest

from tests.contract.builders import a_chat, added, append, message, removed
from tests.contract.engines import DynamoEngine, Engine, SqliteEngine, Store
from tests.support.users import ANN, BOB, CAT, DAN
from tidings.model.chats import ChatState
from tidings.model.ids import UserKey
from tidings.ports.log import Kept
from tidings.stores.dynamodb.chat.chats import DynamoChats
from tidings.stores.dynamodb.chat.items import receipt_key
from tidings.stores.dynamodb.patterns import MAKE_OWN, READ_RECEIPT
from tidings.stores.sqlite.engine.connections import DATABASE
from tidings.stores.sqlite.engine.schema import MIGRATIONS
from tidings.stores.sqlite.engine.schema_steps import OWN_CHATS, OWN_CHATS_BEFORE


async def say(store: Store, state: ChatState, *users: UserKey) -> None:
    """Write in a chat, as long ago: the store was told nothing of whose chat it is."""
    for user in users:
        assert await append(store, state, message(user)) == Kept()


async def make_old(engine: Engine, *chats: ChatState) -> None:
    """Take away what the chats say about being somebody's own, and upgrade."""
    if isinstance(engine, SqliteEngine):
        assert MIGRATIONS.index(OWN_CHATS) < MIGRATIONS.index(OWN_CHATS_BEFORE)
        db = apsw.Connection(str(engine.folder / DATABASE))
        db.execute("UPDATE delivery_state SET is_own = 0")
        db.execute(OWN_CHATS_BEFORE)
        db.close()
        return
    assert isinstance(engine, DynamoEngine)
    async with engine.open() as store:
        assert isinstance(store.chats, DynamoChats)
        for chat in chats:
            for user in chat.members:
                key = receipt_key(user, chat.chat_id)
                await store.chats._dynamo.update(MAKE_OWN, key, "REMOVE #own")


@pytest.mark.attack("S07")
async def test_old_contacts_are_no_strangers(engine: Engine) -> None:
    async with engine.open() as store:
        answered = await a_chat(store, ANN, BOB, kind="direct")
        await say(store, answered, ANN, BOB)
        unanswered = await a_chat(store, ANN, CAT, kind="direct")
        await say(store, unanswered, ANN, ANN)
        made = await a_chat(store, DAN, ANN, kind="direct")
    await make_old(engine, answered, unanswered, made)

    async with engine.open() as store:
        for _ in range(2):
            assert await store.chats.acquainted(ANN, [BOB, CAT, DAN]) == {BOB, DAN}
        assert await store.chats.acquainted(BOB, [ANN]) == {ANN}
        assert await store.chats.acquainted(DAN, [ANN]) == set()


async def test_on_dynamodb_it_is_looked_up_once(engine: Engine) -> None:
    if not isinstance(engine, DynamoEngine):
        return
    async with engine.open() as store:
        chat = await a_chat(store, ANN, BOB, kind="direct")
    await make_old(engine, chat)

    async with engine.open() as store:
        assert isinstance(store.chats, DynamoChats)
        await store.chats.acquainted(ANN, [BOB])
        await store.chats.acquainted(BOB, [ANN])
        for user, is_own in ((BOB, False), (ANN, True)):
            key = receipt_key(user, chat.chat_id)
            item = await store.chats._dynamo.get(READ_RECEIPT, key)
            assert item is not None and item["own"] is is_own


async def test_on_sqlite_groups_count_too_since_one_joined_last(engine: Engine) -> None:
    if not isinstance(engine, SqliteEngine):
        return
    async with engine.open() as store:
        state = await a_chat(store, ANN, BOB, CAT)
        await say(store, state, BOB, CAT)
        assert await append(store, state, removed(CAT)) == Kept()
        assert await append(store, state, added(CAT)) == Kept()
    await make_old(engine)

    db = apsw.Connection(str(engine.folder / DATABASE))
    found = db.execute("SELECT user_id FROM delivery_state WHERE is_own ORDER BY 1").fetchall()
    db.close()
    assert found == [(ANN,), (BOB,)]

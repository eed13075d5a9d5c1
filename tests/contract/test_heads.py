# SPDX-License-Identifier: Apache-2.0
"""Comparing: which chats a user is in, and how far their logs reach."""

from tests.contract.builders import a_chat, added, append, message, new_chat_id, removed
from tests.contract.engines import Store
from tests.support.users import ANN, BOB, CAT


async def test_heads_are_those_of_the_logs(store: Store) -> None:
    one = await a_chat(store, ANN, BOB)
    other = await a_chat(store, ANN, CAT)
    await append(store, one, message(ANN))
    await append(store, one, message(ANN))

    heads = await store.chats.heads([one.chat_id, other.chat_id])

    assert heads == {one.chat_id: one.head, other.chat_id: other.head}
    assert one.head == other.head + 2


async def test_a_chat_that_does_not_exist_has_no_head(store: Store) -> None:
    chat = await a_chat(store, ANN, BOB)

    assert await store.chats.heads([new_chat_id()]) == {}
    assert await store.chats.heads([]) == {}
    assert list(await store.chats.heads([new_chat_id(), chat.chat_id])) == [chat.chat_id]


async def test_heads_of_more_chats_than_one_request_takes(store: Store) -> None:
    chats = [await a_chat(store, ANN, BOB) for _ in range(101)]

    heads = await store.chats.heads([chat.chat_id for chat in chats])

    assert heads == {chat.chat_id: chat.head for chat in chats}


async def test_ids_are_the_chats_a_user_is_in(store: Store) -> None:
    one = await a_chat(store, ANN, BOB)
    other = await a_chat(store, ANN, CAT)
    assert await store.chats.ids(BOB) == [one.chat_id]

    await append(store, other, added(BOB))
    assert set(await store.chats.ids(BOB)) == {one.chat_id, other.chat_id}

    await append(store, one, removed(BOB))
    assert await store.chats.ids(BOB) == [other.chat_id]
    assert await store.chats.ids(CAT) == [other.chat_id]

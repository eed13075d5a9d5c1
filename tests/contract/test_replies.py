# SPDX-License-Identifier: Apache-2.0
"""Messages that answer others: counted at their target, listed in order, and declined."""

import pytest

from tests.contract.builders import (
    a_chat,
    append,
    deleted,
    edited,
    entry_at,
    key,
    message,
    redacted,
    renamed,
    reply,
)
from tests.contract.engines import Store
from tests.support.clock import NOW
from tests.support.dynamo_tables import open_tables
from tests.support.spare_tables import spare_tables
from tests.support.users import ANN, BOB, CAT
from tidings.model import limits
from tidings.model.chats import ChatState
from tidings.model.entries import Entry
from tidings.model.ids import ChatId, UserKey
from tidings.ports.log import Declined, Kept
from tidings.stores.dynamodb.chat import targets
from tidings.stores.dynamodb.chat.members import SLOT_TAKEN
from tidings.stores.dynamodb.chat.pages import item_at
from tidings.stores.dynamodb.client.dynamo import Dynamo
from tidings.stores.dynamodb.client.retrying import Item


async def replies(
    store: Store, state: ChatState, target: int, *, after: int = 0, limit: int = 100
) -> tuple[list[Entry], int | None]:
    """The replies to a message, for a member, and where the next page begins."""
    found = await store.log.replies(state.chat_id, ANN, target, after=after, limit=limit)
    assert found is not None
    return found.entries, found.next


async def test_replies_are_counted_and_listed_in_order(store: Store) -> None:
    state = await a_chat(store)
    await append(store, state, message(BOB, "lunch?"))
    await append(store, state, message(BOB, "or dinner?"))
    for target in (2, 3, 2, 2):
        assert await append(store, state, reply(ANN, target)) == Kept()

    found, following = await replies(store, state, 2)
    assert [(one.sequence, one.reply_to) for one in found] == [(4, 2), (6, 2), (7, 2)]
    assert following is None
    assert (await entry_at(store, state, 2)).reply_count == 3
    assert (await entry_at(store, state, 3)).reply_count == 1
    assert (await entry_at(store, state, 4)).reply_count == 0


@pytest.mark.parametrize("earlier", [0, 1])
async def test_a_reply_that_read_its_target_before_another_reply_is_not_written(
    dynamodb_endpoint: str, monkeypatch: pytest.MonkeyPatch, earlier: int
) -> None:
    """The read may be from before the other transaction, although its entry was seen."""
    async with (
        spare_tables(dynamodb_endpoint) as prefix,
        open_tables(dynamodb_endpoint, prefix) as store,
    ):
        state = await a_chat(store)
        for entry in (message(BOB), *(reply(ANN, 2) for _ in range(earlier))):
            await append(store, state, entry)
        seen: list[Item | None] = []

        async def outdated(dynamo: Dynamo, chat: ChatId, sequence: int) -> Item | None:
            seen.append(await item_at(dynamo, chat, sequence))
            return seen[0]

        with monkeypatch.context() as patch:
            patch.setattr(targets, "item_at", outdated)
            assert await append(store, state, reply(ANN, 2)) == Kept()
            assert await append(store, state, reply(ANN, 2)) == SLOT_TAKEN
        assert await append(store, state, reply(ANN, 2)) == Kept()
        assert (await entry_at(store, state, 2)).reply_count == earlier + 2
        assert len((await replies(store, state, 2))[0]) == earlier + 2


async def test_replies_come_in_pages(store: Store) -> None:
    state = await a_chat(store)
    await append(store, state, message(BOB))
    for _ in range(3):
        await append(store, state, reply(ANN, 2))

    first, following = await replies(store, state, 2, limit=2)
    assert ([one.sequence for one in first], following) == ([3, 4], 4)
    rest, following = await replies(store, state, 2, after=4, limit=2)
    assert ([one.sequence for one in rest], following) == ([5], None)


async def test_a_message_that_was_written_with_others_counts_its_replies(store: Store) -> None:
    state = await a_chat(store)
    await append(store, state, message(BOB, "one"), message(BOB, "two"), message(BOB, "three"))
    await append(store, state, reply(ANN, 3))
    await append(store, state, edited(3, "two!", by=BOB))
    await append(store, state, reply(ANN, 3))

    answered = await entry_at(store, state, 3)
    assert (answered.reply_count, answered.box) == (2, b"two!")
    assert [one.sequence for one in (await replies(store, state, 3))[0]] == [5, 7]


async def test_a_reply_and_other_messages_may_be_one_run(store: Store) -> None:
    state = await a_chat(store)
    await append(store, state, message(BOB))
    assert await append(store, state, message(ANN), reply(ANN, 2), message(ANN)) == Kept()

    assert (await entry_at(store, state, 4)).reply_to == 2
    assert (await entry_at(store, state, 2)).reply_count == 1


async def test_tombstones_keep_their_replies_and_their_count(store: Store) -> None:
    state = await a_chat(store)
    await append(store, state, message(BOB))
    await append(store, state, reply(ANN, 2))
    await append(store, state, reply(ANN, 2))
    await append(store, state, redacted(3))
    await append(store, state, redacted(2, by=BOB))

    assert (await entry_at(store, state, 2)).reply_count == 2
    found, _ = await replies(store, state, 2)
    assert [(one.sequence, one.redacted, one.reply_to) for one in found] == [
        (3, True, 2),
        (4, False, 2),
    ]


async def test_an_expiring_message_is_answered_and_answers(store: Store) -> None:
    state = await a_chat(store)
    await append(store, state, message(BOB, expires_at=NOW + 10))
    assert await append(store, state, reply(ANN, 2, expires_at=NOW + 10), now=NOW + 9) == Kept()

    found, _ = await replies(store, state, 2)
    assert [(one.sequence, one.box) for one in found] == [(3, b"hi")]
    declined = await append(store, state, reply(ANN, 2), now=NOW + 10)
    assert declined == Declined(0, "target_gone")


@pytest.mark.parametrize("target", [1, 3, 4, 5, 99], ids=str)
async def test_only_messages_with_content_are_answered(store: Store, target: int) -> None:
    """At 1 the chat began, 3 was redacted by 4, 5 is the place of the reply itself."""
    state = await a_chat(store)
    await append(store, state, message(BOB))
    await append(store, state, message(BOB))
    await append(store, state, redacted(3, by=BOB))

    assert await append(store, state, reply(ANN, target)) == Declined(0, "target_gone")
    assert await store.log.entry(state.chat_id, 5) is None
    assert await replies(store, state, target) == ([], None)
    assert await append(store, state, renamed("The slot is free")) == Kept()


async def test_a_declined_reply_gives_its_key_back(store: Store) -> None:
    state = await a_chat(store)
    await append(store, state, message(BOB))
    await append(store, state, redacted(2, by=BOB))
    first, second = reply(ANN, 2), message(ANN)
    second.client_message_id = first.client_message_id

    declined = await append(store, state, first, keys=[key(first)])
    assert declined == Declined(0, "target_gone")
    assert await store.log.find_sent(state.chat_id, key(first), NOW) is None
    assert await append(store, state, second, keys=[key(second, b"another")]) == Kept()


async def test_the_count_stops_but_the_list_does_not(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "REPLY_COUNT_MAX", 2)
    state = await a_chat(store)
    await append(store, state, message(BOB))
    for _ in range(3):
        assert await append(store, state, reply(ANN, 2)) == Kept()

    assert (await entry_at(store, state, 2)).reply_count == 2
    assert len((await replies(store, state, 2))[0]) == 3


@pytest.mark.parametrize("stranger", [CAT, UserKey("other:ann")])
async def test_only_members_see_replies(store: Store, stranger: UserKey) -> None:
    state = await a_chat(store)
    await append(store, state, message(BOB))
    await append(store, state, reply(ANN, 2))

    assert await store.log.replies(state.chat_id, stranger, 2, after=0, limit=10) is None


async def test_a_writer_reads_one_entry_as_it_is_now(store: Store) -> None:
    state = await a_chat(store)
    await append(store, state, message(BOB, "one"), message(BOB, "two"))
    await append(store, state, message(BOB, "later", expires_at=NOW + 10))
    await append(store, state, redacted(2, by=BOB))

    found = [await store.log.entry(state.chat_id, sequence) for sequence in range(1, 7)]
    assert [one and (one.kind, one.box, one.redacted) for one in found] == [
        ("created", None, False),
        ("message", None, True),
        ("message", b"two", False),
        ("message", b"later", False),
        ("redacted", None, False),
        None,
    ]


async def test_a_deleted_chat_forgets_who_answered_what(store: Store) -> None:
    state = await a_chat(store)
    await append(store, state, message(BOB))
    await append(store, state, reply(ANN, 2))
    await append(store, state, deleted())
    job = await store.deletions.lease(state.chat_id, "test", NOW)
    while job is not None and job.phase != "done":
        job = await store.deletions.step(job, "test", NOW)

    entries = await store.log.tail(state.chat_id, 0)
    assert [(one.reply_to, one.reply_count) for one in entries] == [(None, 0)] * 4

# SPDX-License-Identifier: Apache-2.0
"""Reading the log: pages up and down, for members only."""

import pytest

from tests.contract.builders import (
    NOWHERE,
    a_chat,
    added,
    append,
    append_many,
    message,
    page,
    reacted,
    removed,
    renamed,
)
from tests.contract.engines import Store
from tests.support.clock import NOW
from tests.support.users import ANN, BOB, DAN, some_users
from tidings.model import limits
from tidings.model.chats import ChatState
from tidings.model.entries import Entry, Head
from tidings.ports.log import Page
from tidings.stores.dynamodb.chat import pages as dynamodb_pages
from tidings.stores.sqlite.chat import log as sqlite_log


async def walk(
    store: Store, state: ChatState, *, up: bool, limit: int, only_messages: bool = False
) -> list[Page]:
    """Every page, until there is no next one."""
    pages: list[Page] = []
    place: int | None = 0 if up else limits.WINDOW_ENTRIES * 1_000
    while place is not None:
        found = await store.log.page(
            state.chat_id,
            ANN,
            after=place if up else None,
            before=None if up else place,
            limit=limit,
            only_messages=only_messages,
        )
        assert found is not None
        assert len(found.entries) <= limit
        assert found.next is None or (found.next > place if up else found.next < place)
        pages.append(found)
        place = found.next
    return pages


def entries_of(pages: list[Page]) -> list[Entry]:
    return [entry for one in pages for entry in one.entries]


@pytest.mark.attack("E18")
@pytest.mark.parametrize("limit", [1, 2, 3, 7, 8, 9, 100])
async def test_pages_together_are_the_whole_log(store: Store, limit: int) -> None:
    state = await a_chat(store)
    await append(store, state, *[message(ANN) for _ in range(7)])
    whole = (await page(store, state)).entries
    assert [entry.sequence for entry in whole] == list(range(1, 9))

    up = await walk(store, state, up=True, limit=limit)
    down = await walk(store, state, up=False, limit=limit)
    assert entries_of(up) == whole
    assert entries_of(down) == whole[::-1]
    assert len(up) == len(down) == -(-len(whole) // limit), "the last page says that it is"


async def test_a_page_says_where_the_log_ends(store: Store) -> None:
    state = await a_chat(store)
    await append(store, state, message(ANN), message(BOB), now=NOW + 3)
    await append(store, state, renamed("Other"), now=NOW + 5)

    read = await store.log.page(state.chat_id, ANN, after=0, limit=1)

    assert read is not None
    assert (read.head, read.next) == (Head(4, 2, 3, NOW + 3), 1)
    assert (read.role, read.member_count) == ("owner", 2)


async def test_only_messages_passes_over_the_rest(store: Store) -> None:
    state = await a_chat(store)
    for index in range(4):
        await append(store, state, message(ANN), message(BOB))
        await append(store, state, renamed(f"Name {index}"))
    messages = [entry for entry in (await page(store, state)).entries if entry.box]
    assert len(messages) == 8

    for limit in (1, 3, 100):
        up = await walk(store, state, up=True, limit=limit, only_messages=True)
        down = await walk(store, state, up=False, limit=limit, only_messages=True)
        assert entries_of(up) == messages
        assert entries_of(down) == messages[::-1]


@pytest.mark.attack("E18")
async def test_an_empty_page_of_messages_is_not_the_last(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (sqlite_log, dynamodb_pages):
        monkeypatch.setattr(module, "SCAN_ENTRIES_MAX", 100)
    state = await a_chat(store)
    await append(store, state, message(ANN, "far below"))
    await append_many(store, state, [renamed("Again") for _ in range(250)])
    await append(store, state, message(ANN, "far above"))

    up = await walk(store, state, up=True, limit=10, only_messages=True)
    down = await walk(store, state, up=False, limit=10, only_messages=True)

    assert [entry.box for entry in entries_of(up)] == [b"far below", b"far above"]
    assert [entry.box for entry in entries_of(down)] == [b"far above", b"far below"]
    for pages in (up, down):
        assert any(not one.entries and one.next is not None for one in pages)


@pytest.mark.parametrize("only_messages", [False, True])
async def test_no_page_for_those_who_are_not_members(store: Store, only_messages: bool) -> None:
    state = await a_chat(store, ANN, BOB)
    await append(store, state, message(ANN))
    await append(store, state, removed(BOB))

    for chat, reader in ((state.chat_id, DAN), (state.chat_id, BOB), (NOWHERE, ANN)):
        up = await store.log.page(chat, reader, after=0, limit=9, only_messages=only_messages)
        down = await store.log.page(chat, reader, before=9, limit=9, only_messages=only_messages)
        assert (up, down) == (None, None)


async def test_members_see_what_was_written_before_they_joined(store: Store) -> None:
    state = await a_chat(store, ANN)
    await append(store, state, message(ANN, "before"))
    await append(store, state, added(DAN))

    assert [entry.box for entry in (await page(store, state, DAN)).entries if entry.box] == [
        b"before"
    ]


async def test_receipts_come_with_a_page_of_a_small_chat_only(store: Store) -> None:
    users = some_users(limits.SMALL_CHAT_MEMBERS_MAX + 1)
    state = await a_chat(store, *users[:-1])
    small = await page(store, state, users[0])
    by_standing = sorted(users[:-1], key=lambda user: (state.members[user].joined, user))
    assert [receipt.user for receipt in small.receipts] == by_standing

    await append(store, state, added(users[-1]))
    large = await page(store, state, users[0])
    assert (large.receipts, large.member_count) == ((), len(users))


async def test_own_reactions_are_those_of_the_reader(store: Store) -> None:
    state = await a_chat(store, ANN, BOB)
    await append(store, state, message(ANN), message(ANN))
    await append(store, state, reacted(3, "🎉", by=BOB))

    mine = {user: (await page(store, state, user, after=1)).entries for user in (ANN, BOB)}

    assert [entry.mine for entry in mine[ANN]] == [(), (), ()]
    assert [entry.mine for entry in mine[BOB]] == [(), ("🎉",), ()]


async def test_settled_messages_are_those_of_a_page(store: Store) -> None:
    state = await a_chat(store, ANN, BOB)
    for index in range(3):
        await append_many(store, state, [message(ANN), message(BOB)])
        await append(store, state, renamed(f"Name {index}"), reacted(2, "🎉", by=BOB))
    read = await page(store, state, BOB)
    messages = [entry for entry in read.entries if entry.kind == "message"]
    assert len(messages) == 6

    for first in range(1, state.head + 1):
        for last in range(first, state.head + 1):
            found = await store.log.settled_messages(state.chat_id, BOB, first, last)
            within = [entry for entry in messages if first <= entry.sequence <= last]
            assert found == within[::-1], (first, last)


async def test_the_state_is_what_folding_the_log_gives(store: Store) -> None:
    state = await a_chat(store, ANN, BOB)
    await append(store, state, message(ANN), now=NOW + 1)
    await append(store, state, added(DAN), now=NOW + 2)
    await append(store, state, removed(BOB), now=NOW + 3)
    await append(store, state, renamed("Other"), now=NOW + 4)

    assert await store.log.state(state.chat_id) == state
    assert await store.log.state(NOWHERE) is None


async def test_the_tail_is_what_a_writer_missed(store: Store) -> None:
    state = await a_chat(store)
    await append_many(store, state, [message(ANN) for _ in range(400)])

    first = await store.log.tail(state.chat_id, 1)
    second = await store.log.tail(state.chat_id, first[-1].sequence)

    assert len(first) == 256
    assert [entry.sequence for entry in first + second] == list(range(2, 402))
    assert await store.log.tail(state.chat_id, state.head) == []

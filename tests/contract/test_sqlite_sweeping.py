# SPDX-License-Identifier: Apache-2.0
"""Sweeping the embedded store: which contents and keys go, and in what steps."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.contract.builders import (
    a_chat,
    append,
    draft,
    edited,
    entry_at,
    key,
    message,
    page,
    redacted,
    request,
)
from tests.contract.engines import SqliteEngine, Store
from tests.support.clock import NOW
from tests.support.users import ANN, BOB, CAT
from tidings.model.chats import ChatState
from tidings.model.entries import Entry
from tidings.model.limits import DAY_MS
from tidings.ports.log import Kept


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    """The embedded store, open, with nothing in it."""
    async with SqliteEngine(tmp_path / "data").open() as opened:
        yield opened


async def test_expired_contents_go_and_entries_stay(store: Store) -> None:
    state = await a_chat(store)
    sent = [message(ANN, expires_at=NOW + 10), message(ANN), message(BOB, expires_at=NOW + 11)]
    await append(store, state, *sent)

    assert await store.sweeping.empty_expired(NOW + 9, 10) == []
    assert await store.sweeping.empty_expired(NOW + 10, 10) == [(state.chat_id, 2)]
    assert await store.sweeping.empty_expired(NOW + 10, 10) == []

    first, second, third = (await page(store, state, after=1)).entries
    assert (first.box, first.box_key, first.redacted) == (None, 0, False)
    assert (first.sender, first.expires_at) == (ANN, NOW + 10)
    assert (second.box, third.box) == (b"hi", b"hi")


async def test_an_edit_does_not_keep_a_message_alive(store: Store) -> None:
    state = await a_chat(store)
    await append(store, state, message(ANN, expires_at=NOW + 10))
    await append(store, state, edited(2, "other"))

    assert await store.sweeping.empty_expired(NOW + 10, 10) == [(state.chat_id, 2)]
    assert (await entry_at(store, state, 2)).box is None


async def test_what_is_redacted_needs_no_sweeping(store: Store) -> None:
    state = await a_chat(store)
    await append(store, state, message(ANN, expires_at=NOW + 10))
    await append(store, state, redacted(2))

    assert await store.sweeping.empty_expired(NOW + 10, 10) == []


async def test_contents_go_in_steps(store: Store) -> None:
    states = [await a_chat(store), await a_chat(store)]
    for state in states:
        await append(store, state, *[message(ANN, expires_at=NOW + 10) for _ in range(5)])

    steps = [await store.sweeping.empty_expired(NOW + 10, 4) for _ in range(4)]

    assert [len(step) for step in steps] == [4, 4, 2, 0]
    emptied = {place for step in steps for place in step}
    assert emptied == {(state.chat_id, n) for state in states for n in range(2, 7)}


# Keys. An earlier moment shows whether a key is still kept.


async def is_kept(store: Store, state: ChatState, entry: Entry) -> bool:
    return await store.log.find_sent(state.chat_id, key(entry), NOW - 10) is not None


async def forget_all(store: Store, now: int, limit: int) -> list[int]:
    """As many steps as surely see every key."""
    return [await store.sweeping.forget_keys(now, limit) for _ in range(60)]


async def test_keys_go_when_they_no_longer_count(store: Store) -> None:
    state = await a_chat(store)
    early, late = message(ANN), message(ANN)
    keys = [key(early, expires_at=NOW + 10), key(late, expires_at=NOW + 11)]
    await append(store, state, early, late, keys=keys)

    assert sum(await forget_all(store, NOW + 9, 10)) == 0
    assert sum(await forget_all(store, NOW + 10, 10)) == 1

    assert not await is_kept(store, state, early)
    assert await is_kept(store, state, late)
    assert (await page(store, state)).head.sequence == 3


async def test_all_stale_keys_go_in_small_steps(store: Store) -> None:
    states = [await a_chat(store) for _ in range(5)]
    sent = []
    for number, state in enumerate(states):
        entries = [message(ANN if n % 2 else BOB) for n in range(100)]
        keys = [
            key(entry, expires_at=NOW + (10 if (n + number) % 4 == 0 else 11))
            for n, entry in enumerate(entries)
        ]
        await append(store, state, *entries, keys=keys)
        sent += list(zip([state] * 100, entries, keys, strict=True))

    steps = await forget_all(store, NOW + 10, 3)

    assert max(steps) <= 3
    assert sum(steps) == 125
    for state, entry, claim in sent:
        assert await is_kept(store, state, entry) == (claim.expires_at > NOW + 10)


async def test_keys_claimed_after_the_walk_went_by_are_met_the_next_time(store: Store) -> None:
    state = await a_chat(store)
    for _ in range(3):
        entries = [message(ANN) for _ in range(20)]
        keys = [key(entry, expires_at=NOW + 10) for entry in entries]
        await append(store, state, *entries, keys=keys)
        assert sum(await forget_all(store, NOW + 10, 2)) == 20


async def test_a_key_claimed_again_counts_again(store: Store) -> None:
    state = await a_chat(store)
    first = message(ANN, cmid="m-1")
    await append(store, state, first, keys=[key(first, expires_at=NOW + 10)])
    again = message(ANN, cmid="m-1")
    renewed = key(again, expires_at=NOW + 100)
    assert await append(store, state, again, keys=[renewed], now=NOW + 10) == Kept()

    assert sum(await forget_all(store, NOW + 10, 5)) == 0
    assert await store.log.find_sent(state.chat_id, renewed, NOW + 10) is not None


async def test_request_keys_go_as_well(store: Store) -> None:
    for number in range(3):
        await store.chats.create(*draft(ANN, CAT), request(f"k{number}"), NOW)
    await store.chats.create(*draft(ANN, CAT), request("late", expires_at=NOW + 2 * DAY_MS), NOW)

    steps = await forget_all(store, NOW + DAY_MS, 2)

    assert (max(steps), sum(steps)) == (2, 3)
    kept = await store.chats.create(*draft(ANN), request("late"), NOW)
    gone = await store.chats.create(*draft(ANN), request("k0", digest=b"other"), NOW)
    assert (kept.is_new, gone.is_new) == (False, True)

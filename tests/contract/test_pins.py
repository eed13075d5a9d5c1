# SPDX-License-Identifier: Apache-2.0
"""Pinned messages: in the order of pinning, few of them, and still there as tombstones."""

import pytest

from tests.contract.builders import (
    a_chat,
    append,
    append_many,
    deleted,
    edited,
    message,
    pinned,
    redacted,
    unpinned,
)
from tests.contract.engines import Store
from tests.support.clock import NOW
from tests.support.users import ANN, BOB, CAT
from tidings.model import limits
from tidings.model.chats import ChatState
from tidings.model.ids import UserKey
from tidings.ports.log import Declined, Kept

NO_CHANGE = Declined(0, "no_change")
GONE = Declined(0, "target_gone")


async def pins(store: Store, state: ChatState) -> list[tuple[int, UserKey, int]]:
    """The pinned messages: which, by whom, with which entry."""
    found = await store.log.pins(state.chat_id, BOB)
    assert found is not None
    page, entries = found
    assert [one.pinned for one in page.entries] == [one.sequence for one in entries]
    assert {one.kind for one in entries} <= {"pinned"}
    together = zip(page.entries, entries, strict=True)
    return [(one.sequence, pin.sender, pin.sequence) for one, pin in together]


async def test_messages_are_pinned_and_unpinned(store: Store) -> None:
    """At 3 and 4 are messages that were written together."""
    state = await a_chat(store)
    await append(store, state, message(ANN))
    await append(store, state, message(BOB), message(ANN))
    assert await append(store, state, pinned(4)) == Kept()
    assert await append(store, state, pinned(2, by=BOB)) == Kept()
    assert await append(store, state, pinned(3)) == Kept()
    assert await pins(store, state) == [(4, ANN, 5), (2, BOB, 6), (3, ANN, 7)]

    assert await append(store, state, unpinned(2)) == Kept()
    assert await append(store, state, unpinned(4, by=BOB)) == Kept()
    assert await append(store, state, pinned(2)) == Kept()
    assert await pins(store, state) == [(3, ANN, 7), (2, ANN, 10)]


async def test_pinning_again_changes_nothing(store: Store) -> None:
    state = await a_chat(store)
    await append(store, state, message(ANN))
    assert await append(store, state, unpinned(2)) == NO_CHANGE
    await append(store, state, pinned(2))
    assert await append(store, state, pinned(2)) == NO_CHANGE
    assert await append(store, state, unpinned(9)) == NO_CHANGE

    assert (await pins(store, state), state.head) == ([(2, ANN, 3)], 3)


async def test_only_messages_with_content_are_pinned(store: Store) -> None:
    state = await a_chat(store)
    await append(store, state, message(ANN))
    await append(store, state, message(ANN, expires_at=NOW + 10))
    await append(store, state, redacted(2))

    for target in (1, 2, 4, 5, 99):
        assert await append(store, state, pinned(target)) == GONE, target
    assert await append(store, state, pinned(3), now=NOW + 10) == GONE
    assert await pins(store, state) == []


async def test_a_tombstone_stays_pinned_until_it_is_unpinned(store: Store) -> None:
    state = await a_chat(store)
    await append(store, state, message(ANN))
    await append(store, state, message(ANN), message(ANN))
    for target in (2, 3):
        await append(store, state, pinned(target))
        await append(store, state, edited(target, "better"))
        await append(store, state, redacted(target))

    assert [target for target, _, _ in await pins(store, state)] == [2, 3]
    for target in (2, 3):
        assert await append(store, state, unpinned(target)) == Kept()
    assert await pins(store, state) == []


async def test_there_are_few_pins(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PINS_MAX", 2)
    state = await a_chat(store)
    await append_many(store, state, [message(ANN) for _ in range(3)])
    for target in (2, 3):
        await append(store, state, pinned(target))

    assert await append(store, state, pinned(4)) == Declined(0, "too_many_pins")
    await append(store, state, unpinned(2))
    assert await append(store, state, pinned(4)) == Kept()
    assert [target for target, _, _ in await pins(store, state)] == [3, 4]


async def test_only_members_see_pins(store: Store) -> None:
    state = await a_chat(store)
    await append(store, state, message(ANN))
    await append(store, state, pinned(2))

    assert await store.log.pins(state.chat_id, CAT) is None


async def test_a_deleted_chat_has_no_pins(store: Store) -> None:
    state = await a_chat(store)
    await append(store, state, message(ANN))
    await append(store, state, pinned(2))
    await append(store, state, deleted())
    job = await store.deletions.lease(state.chat_id, "test", NOW)
    while job is not None and job.phase != "done":
        job = await store.deletions.step(job, "test", NOW)

    assert [one.pinned for one in await store.log.tail(state.chat_id, 0)] == [0] * 4

# SPDX-License-Identifier: Apache-2.0
"""Unread: always what a recount in the model's words gives."""

from typing import Literal

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.contract.builders import (
    a_chat,
    added,
    append,
    append_many,
    message,
    page,
    reacted,
    redacted,
    renamed,
)
from tests.contract.engines import Store
from tests.support.clock import NOW
from tests.support.users import ANN, BOB, CAT
from tidings.model import limits
from tidings.model.chats import ChatState, Move, Unread
from tidings.model.entries import Entry
from tidings.model.ids import UserKey
from tidings.model.unread_counts import counts_as_unread

USERS = (ANN, BOB, CAT)
LATER = NOW + 10


class Step(msgspec.Struct, frozen=True):
    """Something that happens in a chat. `place` is taken modulo what there is."""

    what: Literal["message", "redact", "react", "rename", "read"]
    user: UserKey
    place: int
    expires_at: int | None


steps = st.lists(
    st.builds(
        Step,
        what=st.sampled_from(
            ["message", "message", "message", "redact", "react", "rename", "read"]
        ),
        user=st.sampled_from(USERS),
        place=st.integers(0, 30),
        expires_at=st.sampled_from([None, None, LATER - 1, LATER, LATER + 1]),
    ),
    max_size=25,
)


def entry_for(step: Step, place: int) -> Entry:
    match step.what:
        case "message":
            return message(step.user, expires_at=step.expires_at)
        case "redact":
            return redacted(place, by=step.user)
        case "react":
            return reacted(place, "👍", by=step.user)
        case _:
            return renamed("Other", by=step.user)


async def take(store: Store, state: ChatState, step: Step) -> None:
    place = 1 + step.place % state.head
    if step.what == "read":
        await store.receipts.move([Move(step.user, state.chat_id, read=place)])
    else:
        await append(store, state, entry_for(step, place))  # declined is fine as well


async def unread_of(store: Store, state: ChatState, user: UserKey, now: int = NOW) -> Unread:
    found = await store.receipts.unread(user, state.chat_id, now)
    assert found is not None
    return found.unread


async def recount(store: Store, state: ChatState, user: UserKey) -> int:
    log = await page(store, state, user)
    (read,) = [receipt.read for receipt in log.receipts if receipt.user == user]
    left = [entry for entry in log.entries if entry.sequence > read]
    return sum(counts_as_unread(entry, user, LATER) for entry in left)


FEW = settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@given(steps)
@settings(FEW)
async def test_unread_is_what_a_recount_gives(store: Store, happened: list[Step]) -> None:
    await check_unread(store, happened)


@pytest.mark.soak
@given(steps)
@settings(FEW, max_examples=500)
async def test_unread_is_what_a_recount_gives_for_long(store: Store, happened: list[Step]) -> None:
    await check_unread(store, happened)


async def check_unread(store: Store, happened: list[Step]) -> None:
    """Let these steps happen in a new chat, and compare what is unread with a recount."""
    state = await a_chat(store, *USERS)
    for step in happened:
        await take(store, state, step)

    for user in USERS:
        expected = Unread(await recount(store, state, user))
        assert await unread_of(store, state, user, LATER) == expected
        row = await store.chats.row(user, state.chat_id, LATER)
        assert row is not None
        assert row.unread == expected


async def test_nothing_is_unread_to_those_who_have_just_joined(store: Store) -> None:
    state = await a_chat(store, ANN)
    await append(store, state, message(ANN), message(ANN))
    await append(store, state, added(BOB))
    assert await unread_of(store, state, BOB) == Unread(0)

    await append(store, state, message(ANN))
    assert await unread_of(store, state, BOB) == Unread(1)


@pytest.mark.parametrize("own_every", [2, 10])
async def test_unread_is_exact_up_to_a_bound(
    store: Store, own_every: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = 100
    monkeypatch.setattr(limits, "UNREAD_ENTRIES_MAX", left)
    state = await a_chat(store, ANN, BOB)
    entries = [message(BOB if n % own_every == 0 else ANN) for n in range(left)]
    await append_many(store, state, entries)

    exact = left - left // own_every
    assert await unread_of(store, state, BOB) == Unread(exact)

    await append(store, state, message(BOB))
    bound = await unread_of(store, state, BOB)
    assert bound == Unread(left + 1, exact=False)


@pytest.mark.attack("S03", "F04", "E17")
async def test_a_page_of_a_list_looks_through_so_many_entries_and_says_where_it_did_not(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LISTED_UNREAD_ENTRIES_MIN", 2)
    monkeypatch.setattr(limits, "LIST_UNREAD_ENTRIES_MAX", 7)
    for number, count in enumerate((2, 4, 4, 3, 1)):
        state = await a_chat(store, ANN, BOB, now=NOW - number)
        await append_many(store, state, [message(BOB) for _ in range(count - 1)])
        await append(store, state, message(ANN), now=NOW - number)

    rows = await store.chats.listing(ANN, below=None, limit=9, now=LATER)

    counted = [Unread(1), Unread(3), Unread(4, exact=False), Unread(2), Unread(0)]
    assert sorted((row.unread.count, row.unread.exact) for row in rows) == sorted(
        (one.count, one.exact) for one in counted
    )
    rough = next(row for row in rows if not row.unread.exact)
    alone = await store.chats.row(ANN, rough.chat_id, LATER)
    assert alone is not None
    assert alone.unread == Unread(3), "a chat by itself is counted"

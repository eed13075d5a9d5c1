# SPDX-License-Identifier: Apache-2.0
"""The chat list: latest activity first, each row with all that a list shows."""

import msgspec
import pytest

from tests.contract.builders import (
    NOWHERE,
    a_chat,
    added,
    append,
    edited,
    message,
    reacted,
    redacted,
    removed,
    renamed,
    role,
    row_of,
    settings,
)
from tests.contract.engines import Store
from tests.support.clock import NOW
from tests.support.users import ANN, BOB, CAT, DAN, some_users
from tidings.model.chats import ChatRow, Receipt, Unread
from tidings.model.entries import Entry, Head
from tidings.model.ids import ChatId, UserKey


async def test_a_row_has_all_that_a_list_shows(store: Store) -> None:
    state = await a_chat(store, ANN, BOB, CAT, name="Lunch", now=NOW)
    await append(store, state, message(BOB, "one"), message(BOB, "two"), now=NOW + 5)
    await append(store, state, role(ANN, "admin"), now=NOW + 6)
    await store.chats.mute(state.chat_id, ANN, NOW + 99)

    row = await row_of(store, ANN, state.chat_id)

    assert row.last is not None
    assert (row.last.sequence, row.last.box) == (3, b"two")
    assert row == ChatRow(
        chat_id=state.chat_id,
        type="group",
        name="Lunch",
        creator=ANN,
        created_at=NOW,
        updated_at=NOW,
        others=(BOB, CAT),
        member_count=3,
        role="admin",
        muted_until=NOW + 99,
        head=Head(4, 2, 3, NOW + 6),
        receipt=Receipt(ANN, 1, 1, 0),
        last=row.last,
        unread=Unread(2),
        unread_by_key={(BOB, 1): 2},
    )

    (listed,) = await store.chats.listing(ANN, below=None, limit=9, now=NOW)

    # The message may come from a copy, which lacks what no list shows.
    assert listed.last is not None
    assert (listed.last.sequence, listed.last.box) == (3, b"two")
    assert msgspec.structs.replace(listed, last=row.last) == row


async def test_there_is_no_row_for_those_who_are_not_members(store: Store) -> None:
    state = await a_chat(store, ANN, BOB)
    await append(store, state, removed(BOB))

    assert await store.chats.row(DAN, state.chat_id, NOW) is None
    assert await store.chats.row(BOB, state.chat_id, NOW) is None
    assert await store.chats.row(ANN, NOWHERE, NOW) is None
    assert await store.chats.listing(BOB, below=None, limit=9, now=NOW) == []
    assert await store.chats.list_heads(BOB) == []


async def ids_of_listing(store: Store, user: UserKey, limit: int) -> list[ChatId]:
    """The whole list, page by page."""
    ids: list[ChatId] = []
    below: tuple[int, ChatId] | None = None
    while True:
        rows = await store.chats.listing(user, below=below, limit=limit, now=NOW)
        assert len(rows) <= limit
        if not rows:
            return ids
        ids += [row.chat_id for row in rows]
        below = (rows[-1].head.active_at, rows[-1].chat_id)


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
async def test_the_list_is_ordered_by_activity_then_id(store: Store, limit: int) -> None:
    # Three at one time, so that the id has to decide, among two at other times.
    states = [await a_chat(store, now=NOW + later) for later in (5, 3, 3, 3, 1)]
    in_order = sorted(states, key=lambda s: (s.active_at, s.chat_id), reverse=True)

    assert await ids_of_listing(store, ANN, limit) == [state.chat_id for state in in_order]
    held = await store.chats.list_heads(ANN)
    assert [h.chat_id for h in held] == [state.chat_id for state in in_order]


@pytest.mark.parametrize(
    ("entry", "changes"),
    [
        (message(ANN), False),
        (added(DAN), True),
        (removed(CAT), True),
        (renamed("Other"), True),
        (settings(slow_mode_seconds=5), True),
        (role(BOB, "admin"), False),
        (redacted(2), False),
        (reacted(2, "👍"), False),
    ],
    ids=lambda value: value.kind if isinstance(value, Entry) else "",
)
async def test_only_the_name_and_the_members_are_a_change_of_the_chat(
    store: Store, entry: Entry, changes: bool
) -> None:
    state = await a_chat(store, ANN, BOB, CAT, now=NOW)
    await append(store, state, message(ANN), now=NOW + 1)
    await append(store, state, entry, now=NOW + 2)

    row = await row_of(store, ANN, state.chat_id)

    assert (row.created_at, row.updated_at) == (NOW, NOW + 2 if changes else NOW)
    assert row.head.number == (2 if entry.kind == "message" else 1), "a redacted message counts"


@pytest.mark.parametrize(
    ("entry", "moves"),
    [
        (message(BOB), True),
        (added(DAN), True),
        (removed(CAT), True),
        (role(BOB, "admin"), True),
        (renamed("Other"), False),
        (edited(2, "other"), False),
        (redacted(2), False),
        (reacted(2, "👍"), False),
    ],
    ids=lambda value: value.kind if isinstance(value, Entry) else "",
)
async def test_only_activity_moves_a_chat_up(store: Store, entry: Entry, moves: bool) -> None:
    lower = await a_chat(store, ANN, BOB, CAT, now=NOW)
    await append(store, lower, message(ANN), now=NOW + 1)
    upper = await a_chat(store, ANN, BOB, now=NOW + 2)
    await append(store, lower, entry, now=NOW + 3)

    first, _ = await ids_of_listing(store, ANN, 9)

    assert first == (lower if moves else upper).chat_id


async def test_the_others_are_ten_and_the_longest_standing(store: Store) -> None:
    early, late = some_users(24)[:12], some_users(24)[12:]
    state = await a_chat(store, *reversed(late[:3]))
    await append(store, state, added(*early, by=late[0]))

    row = await row_of(store, early[0], state.chat_id)
    assert row.others == (*sorted(late[:3]), *sorted(early[1:])[:7])
    assert row.member_count == 15


async def test_the_last_message_is_shown_whatever_became_of_it(store: Store) -> None:
    state = await a_chat(store)
    assert (await row_of(store, ANN, state.chat_id)).last is None

    await append(store, state, message(BOB), message(BOB))
    await append(store, state, redacted(3))

    last = (await row_of(store, ANN, state.chat_id)).last
    assert last is not None
    assert (last.sequence, last.redacted, last.box) == (3, True, None)


async def test_what_is_held_says_heads_and_receipts(store: Store) -> None:
    one = await a_chat(store, ANN, BOB, CAT, now=NOW)
    two = await a_chat(store, ANN, BOB, now=NOW + 1)
    await append(store, one, message(BOB), now=NOW + 2)
    await append(store, one, removed(CAT), now=NOW + 3)

    first, second = await store.chats.list_heads(ANN)

    assert (first.chat_id, first.head) == (one.chat_id, Head(3, 1, 2, NOW + 3))
    assert (first.receipt, first.member_count) == (Receipt(ANN, 1, 1, 0), 2)
    assert (second.chat_id, second.head) == (two.chat_id, Head(1, 0, 0, NOW + 1))
    assert (second.receipt, second.member_count) == (Receipt(ANN, 1, 1, 0), 2)

# SPDX-License-Identifier: Apache-2.0
"""Replicas of DynamoDB lag: what is promised from an answer on comes from strong reads."""

from collections.abc import AsyncIterator

import pytest

from tests.contract.builders import append, edited, message, redacted, row_of
from tests.contract.fleets import KINDS, Fleet, a_fleet, shown
from tests.contract.identity_builders import a_session, make_user
from tests.contract.lagging_tables import Replica, lagging_tables
from tests.support.clock import NOW
from tests.support.users import ANN, BOB, CAT
from tidings.model.chats import ChatHead, ChatState, ChatType, Move, Unread
from tidings.model.entries import Entry, head_of
from tidings.model.refusals import UserDeleted
from tidings.stores.dynamodb.chat import heads


@pytest.fixture
async def replica(dynamodb_endpoint: str) -> AsyncIterator[Replica]:
    async with lagging_tables(dynamodb_endpoint) as made:
        yield made


@pytest.fixture
async def fleet(replica: Replica, dynamodb_endpoint: str) -> AsyncIterator[Fleet]:
    """Processes whose relaxed reads are answered by the replica."""
    async with a_fleet(dynamodb_endpoint) as made:
        yield made


each_kind = pytest.mark.parametrize("kind", KINDS)
each_change = pytest.mark.parametrize(
    ("change", "left"),
    [("edited", b"changed"), ("redacted", None)],
    ids=["edited", "redacted"],
)


def changed(change: str) -> Entry:
    """The second entry of a chat is changed."""
    return edited(2, "changed", by=BOB) if change == "edited" else redacted(2, by=BOB)


# What is gone is not shown.


@each_kind
@each_change
@pytest.mark.parametrize("is_single", [False, True], ids=["list", "single"])
async def test_no_row_shows_anything_from_before_a_change(
    fleet: Fleet,
    replica: Replica,
    kind: ChatType,
    change: str,
    left: bytes | None,
    is_single: bool,
) -> None:
    state = await fleet.chat(kind, message(BOB, "secret"))
    async with replica.held():
        await append(fleet.writer, state, changed(change))
        if is_single:
            row = await row_of(fleet.writer, ANN, state.chat_id)
        else:
            (row,) = await fleet.writer.chats.listing(ANN, below=None, limit=9, now=NOW)
        assert shown(row) == (2, left)


@each_change
async def test_another_process_lists_no_direct_chat_with_content_from_before_a_change(
    fleet: Fleet, replica: Replica, change: str, left: bytes | None
) -> None:
    """For a group this would cost twice as much, so it may take as long as the replica lags."""
    state = await fleet.chat("direct", message(BOB, "secret"))
    async with replica.held():
        await append(fleet.writer, state, changed(change))
        assert shown(await fleet.listed(ANN)) == (2, left)


async def test_a_group_costs_a_strong_read_only_for_a_moment(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = await fleet.chat("group", message(BOB, "secret"))
    await append(fleet.writer, state, changed("redacted"))
    assert fleet.writer.heads.may_lag(state.chat_id)
    monkeypatch.setattr(heads, "LAG_SECONDS_MAX", 0.0)
    assert not fleet.writer.heads.may_lag(state.chat_id)


# Counts are exact.


async def counts(fleet: Fleet, state: ChatState, read: int) -> list[Unread]:
    """What Ann has not read, in every way in which it is counted."""
    async with fleet.another() as store:
        moved = await store.receipts.advance(Move(ANN, state.chat_id, read=read))
        assert moved is not None
        receipt, head = moved
        (after,) = await store.receipts.count([ChatHead(state.chat_id, head, receipt, 2)], NOW)
        found = await store.receipts.unread(ANN, state.chat_id, NOW)
        assert found is not None
        assert after.up_to == found.up_to == state.head
        row = await row_of(store, ANN, state.chat_id)
        (listed,) = await store.chats.listing(ANN, below=None, limit=9, now=NOW)
    return [after.unread, found.unread, row.unread, listed.unread]


@each_kind
async def test_a_count_has_every_message_that_was_answered(
    fleet: Fleet, replica: Replica, kind: ChatType
) -> None:
    state = await fleet.chat(kind, message(BOB), message(BOB))
    async with replica.held():
        await append(fleet.writer, state, message(BOB))
        assert await counts(fleet, state, read=2) == [Unread(2)] * 4


@each_kind
async def test_a_count_has_no_message_that_was_redacted(
    fleet: Fleet, replica: Replica, kind: ChatType
) -> None:
    gone = redacted(3, by=BOB)
    state = await fleet.chat(kind, message(BOB), message(BOB), message(BOB))
    async with replica.held():
        await append(fleet.writer, state, gone)
        await fleet.writer.deliveries.advance(state.chat_id, head_of(gone), None)
        assert await counts(fleet, state, read=2) == [Unread(1)] * 4


# Who is deleted is refused.


async def test_a_deleted_user_is_refused_at_once(fleet: Fleet, replica: Replica) -> None:
    await make_user(fleet.writer, ANN)
    await make_user(fleet.writer, BOB)
    async with replica.held():
        assert await fleet.writer.users.missing([ANN, BOB, CAT]) == [CAT]
        await fleet.writer.personal_data.mark_deleted(BOB, NOW)
        with pytest.raises(UserDeleted):
            await fleet.writer.users.missing([ANN, BOB])


# What is removed is counted once.


async def test_a_removed_session_is_not_found_again(fleet: Fleet, replica: Replica) -> None:
    store, session, later = fleet.writer, a_session(ANN), a_session(ANN)
    await store.sessions.open(session)
    await store.sessions.open(later)
    async with replica.held():
        assert len(await store.personal_data.sessions(ANN, 9)) == 2
        await store.personal_data.forget_sessions([session.session_id])
        assert await store.personal_data.sessions(ANN, 9) == [later.session_id]
        assert await store.personal_data.sessions(ANN, 1) == [later.session_id]
        await store.personal_data.forget_sessions([later.session_id])
        assert await store.personal_data.sessions(ANN, 9) == []

# SPDX-License-Identifier: Apache-2.0
"""Deleting a chat: it ends with an entry, and what is left goes in steps that may be repeated."""

from collections.abc import Sequence

import pytest

from tests.contract.builders import (
    a_chat,
    append,
    append_many,
    deleted,
    draft,
    key,
    message,
    reacted,
)
from tests.contract.engines import Engine, SqliteEngine, Store
from tests.support.clock import NOW
from tests.support.users import ANN, BOB, CAT, some_users
from tidings.model import limits
from tidings.model.chats import ChatState
from tidings.model.entries import Deletion, Entry, Phase, chat_of
from tidings.model.ids import ChatId, UserKey, tenant_itself
from tidings.ports.log import Kept, SlotTaken
from tidings.stores.sqlite.chat import deletions

LATER = NOW + 5
NOBODY = tenant_itself("acme")


async def a_full_chat(store: Store, *members: UserKey) -> ChatState:
    """A chat with messages, one that expires, a reaction and a claimed key."""
    state = await a_chat(store, *(members or (ANN, BOB, CAT)))
    sent = message(BOB, "secret")
    assert await append(store, state, sent, keys=[key(sent)]) == Kept()
    assert await append(store, state, message(BOB, expires_at=NOW + limits.DAY_MS)) == Kept()
    assert await append(store, state, reacted(sent.sequence, "+1", by=ANN)) == Kept()
    return state


async def stepped(store: Store, chat: ChatId, until: Phase = "done") -> Deletion:
    """Work on a chat until it has come so far."""
    job = await store.deletions.lease(chat, "me", LATER)
    for _ in range(100):
        assert job is not None
        if job.phase == until:
            return job
        job = await store.deletions.step(job, "me", LATER)
    raise AssertionError("it does not end")


async def log_of(store: Store, chat: ChatId) -> Sequence[Entry]:
    """All entries, whoever may read them."""
    return await store.log.tail(chat, 0)


async def test_the_job_begins_with_the_entry(engine: Engine) -> None:
    async with engine.open() as store:
        state = await a_full_chat(store)
        other = await a_chat(store)
        assert await store.deletions.get(state.chat_id) is None
        assert await append(store, state, deleted()) == Kept()

    async with engine.open() as store:
        job = await store.deletions.get(state.chat_id)
        assert job == Deletion(
            chat_id=state.chat_id,
            tenant="acme",
            deleted_by=ANN,
            entries=state.head,
            created_at=NOW,
            updated_at=NOW,
        )
        assert chat_of(job.job_id) == state.chat_id
        assert await store.deletions.unfinished(before=NOW, limit=9) == [state.chat_id]
        assert await store.deletions.unfinished(before=NOW - 1, limit=9) == []
        assert await store.deletions.get(other.chat_id) is None


async def test_who_loads_the_chat_sees_that_it_is_over(store: Store) -> None:
    state = await a_full_chat(store)
    assert await append(store, state, deleted()) == Kept()

    loaded = await store.log.state(state.chat_id)
    assert loaded is not None and loaded.is_deleted and loaded.head == state.head
    await stepped(store, state.chat_id)
    loaded = await store.log.state(state.chat_id)
    assert loaded is not None and loaded.is_deleted and loaded.head == state.head


@pytest.mark.attack("D09")
async def test_a_writer_that_knows_nothing_of_it_finds_no_place(store: Store) -> None:
    state = await a_full_chat(store)
    stale = [state.copy() for _ in range(2)]
    stale[1].head = 2  # as of long ago
    assert await append(store, state, deleted()) == Kept()
    for each in stale:
        assert isinstance(await append(store, each, message(BOB)), SlotTaken)

    await stepped(store, state.chat_id)
    for each in stale:
        assert isinstance(await append(store, each, message(BOB)), SlotTaken)
    assert (await log_of(store, state.chat_id))[-1].kind == "deleted"


async def test_a_chat_is_deleted_once(store: Store) -> None:
    state = await a_full_chat(store)
    late = state.copy()
    assert await append(store, state, deleted()) == Kept()

    assert isinstance(await append(store, late, deleted(by=BOB)), SlotTaken)

    job = await store.deletions.get(state.chat_id)
    assert job is not None and job.deleted_by == ANN


@pytest.mark.attack("D02")
async def test_members_go_first_and_nobody_reads_it_then(store: Store) -> None:
    users = [ANN, *some_users(60)]
    state = await a_full_chat(store, *users[:2], BOB, *users[2:])
    await append(store, state, deleted())
    assert await store.log.page(state.chat_id, ANN, after=0, limit=9) is not None

    job = await stepped(store, state.chat_id, "members_removed")

    assert job.updated_at == LATER
    for user in (ANN, BOB, users[-1]):
        assert await store.log.page(state.chat_id, user, after=0, limit=9) is None
        assert await store.chats.row(user, state.chat_id, NOW) is None
        assert await store.chats.list_heads(user) == []
        assert await store.chats.members(state.chat_id, user) is None
        assert await store.receipts.of_chat(state.chat_id, user) is None
        assert not await store.chats.mute(state.chat_id, user, None)


async def test_chats_with_members_come_before_those_with_only_content(store: Store) -> None:
    first, second = await a_full_chat(store), await a_full_chat(store)
    assert await append(store, first, deleted()) == Kept()
    await stepped(store, first.chat_id, "members_removed")
    assert await append(store, second, deleted()) == Kept()

    unfinished = await store.deletions.unfinished(before=LATER, limit=1)
    assert unfinished == [second.chat_id], "its members can still read"
    assert len(await store.deletions.unfinished(before=LATER, limit=9)) == 2


async def test_nothing_but_places_is_left(store: Store) -> None:
    state = await a_full_chat(store)
    await append(store, state, deleted())
    before = await log_of(store, state.chat_id)
    sent = next(entry for entry in before if entry.box == b"secret")

    job = await stepped(store, state.chat_id)

    assert job.emptied == job.entries == state.head
    assert await store.deletions.unfinished(before=LATER, limit=9) == []
    after = await log_of(store, state.chat_id)
    assert [(one.sequence, one.kind) for one in after] == [
        (one.sequence, one.kind) for one in before
    ]
    assert {one.sender for one in after[:-1]} == {NOBODY}
    for entry in after:
        assert entry.box is None and entry.name is None and entry.client_message_id is None
        assert not entry.people and not entry.reactions and entry.emoji is None
    assert await store.log.find_sent(state.chat_id, key(sent), NOW) is None


async def test_others_keep_theirs(store: Store) -> None:
    state, other = await a_full_chat(store), await a_full_chat(store)
    await append(store, state, deleted())
    before = await log_of(store, other.chat_id)

    await stepped(store, state.chat_id)

    assert await log_of(store, other.chat_id) == before
    assert [one.chat_id for one in await store.chats.list_heads(ANN)] == [other.chat_id]
    found = await store.log.reactions(other.chat_id, ANN, 2, 9)
    assert found is not None and len(found) == 1


@pytest.mark.parametrize("phase", ["started", "members_removed", "keys_removed"])
async def test_every_step_may_be_done_again(engine: Engine, phase: Phase) -> None:
    """As after a crash that came between a step and the note of it."""
    async with engine.open() as store:
        state = await a_full_chat(store)
        await append_many(store, state, [message(BOB) for _ in range(120)])
        await append(store, state, deleted())
        at = await stepped(store, state.chat_id, phase)
        assert await store.deletions.step(at, "me", LATER) is not None

    async with engine.open() as store:
        assert await store.deletions.step(at, "me", LATER) is not None
        job = await stepped(store, state.chat_id)
        assert job.emptied == state.head
        assert all(one.box is None for one in await log_of(store, state.chat_id))


async def test_many_reactions_go_in_steps(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deletions, "DELETE_STEP_ROWS", 10)
    users = some_users(15)
    state = await a_chat(store, *users)
    await append(store, state, message(users[0]))
    reactions = [reacted(state.head, emoji, by=user) for user in users for emoji in "ab"]
    for one in reactions:
        assert await append(store, state, one) == Kept()
    await append(store, state, deleted(by=users[0]))

    await stepped(store, state.chat_id)

    assert all(not one.reactions for one in await log_of(store, state.chat_id))


async def test_a_pair_may_make_a_new_chat_at_once(store: Store) -> None:
    state = await a_chat(store, ANN, BOB, kind="direct")
    await append(store, state, deleted(by=NOBODY))

    chat, entries = draft(ANN, BOB, kind="direct")
    made = await store.chats.create(chat, entries, None, NOW)

    assert made.is_new and made.chat_id == chat.chat_id
    await stepped(store, state.chat_id)
    again, entries = draft(BOB, ANN, kind="direct")
    assert (await store.chats.create(again, entries, None, NOW)).chat_id == chat.chat_id


async def test_a_group_of_two_leaves_their_direct_chat_alone(store: Store) -> None:
    direct = await a_chat(store, ANN, BOB, kind="direct")
    group = await a_chat(store, ANN, BOB)
    await append(store, group, deleted())

    chat, entries = draft(ANN, BOB, kind="direct")

    assert (await store.chats.create(chat, entries, None, NOW)).chat_id == direct.chat_id


async def test_one_process_works_on_it_until_its_lease_is_over(engine: Engine) -> None:
    async with engine.open() as store:
        state = await a_full_chat(store)
        await append(store, state, deleted())
        mine = await store.deletions.lease(state.chat_id, "me", LATER)
        assert mine is not None
        if isinstance(engine, SqliteEngine):
            return  # no other process can have the store
        over = LATER + limits.DELETION_LEASE_MS
        assert await store.deletions.lease(state.chat_id, "you", over - 1) is None
        assert await store.deletions.lease(state.chat_id, "you", over) is not None
        assert await store.deletions.step(mine, "me", over) is None
        assert await store.deletions.step(mine, "you", over) is not None

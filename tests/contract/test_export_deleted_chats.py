# SPDX-License-Identifier: Apache-2.0
"""A deleted chat travels as what is left of one, however far its job has come."""

import pytest

from tests.contract.builders import a_chat, append, deleted, key, message, new_chat_id, reacted
from tests.contract.engines import Store
from tests.contract.moving_ground import Place, export_from, export_of, import_into, lines_of
from tests.contract.moving_places import OTHER, Places
from tests.support.clock import NOW
from tests.support.users import ANN, BOB
from tidings.actions.export.importing import Damaged, check
from tidings.model.chats import ChatState, ChatType
from tidings.model.entries import Entry, Kind, Person, Phase
from tidings.model.ids import tenant_itself
from tidings.ports.erasing import LedgerEntry
from tidings.ports.export_facts import ChatFact, EntryFact
from tidings.ports.log import Kept

NOBODY = tenant_itself("acme")


async def a_deleted_chat(store: Store, kind: ChatType) -> ChatState:
    state = await a_chat(store, ANN, BOB, kind=kind)
    sent = message(BOB, "secret")
    assert await append(store, state, sent, keys=[key(sent, expires_at=NOW * 2)]) == Kept()
    assert await append(store, state, reacted(sent.sequence, "+1", by=ANN)) == Kept()
    assert await append(store, state, deleted(by=NOBODY)) == Kept()
    return state


async def bring_to(store: Store, state: ChatState, phase: Phase) -> None:
    job = await store.deletions.lease(state.chat_id, "me", NOW)
    while job is not None and job.phase != phase:
        job = await store.deletions.step(job, "me", NOW)


async def test_however_far_it_is_the_same_travels(place: Place) -> None:
    exports = []
    async with place.open() as store:
        direct = await a_deleted_chat(store, "direct")
        group = await a_deleted_chat(store, "group")
    for phase in ("started", "members_removed", "keys_removed", "done"):
        async with place.open() as store:
            await bring_to(store, direct, phase)
            await bring_to(store, group, phase)
        exports.append(await export_from(place))
    assert exports == exports[:1] * 4
    counts = check(lines_of(exports[0])).counts
    assert counts == {**counts, "chat": 2, "entry": 8}
    assert not counts.keys() & {"member", "reaction", "send_key"}
    assert b"bob" not in exports[0] and b"A chat" not in exports[0]


@pytest.mark.usefixtures("dynamodb_endpoint")
async def test_it_arrives_as_deleted(place: Place, places: Places) -> None:
    async with place.open() as store:
        state = await a_deleted_chat(store, "direct")
    there = await export_from(place)
    async with places.new(OTHER[type(place).__name__]) as other:
        await import_into(other, there)
        assert await export_from(other) == there
        async with other.open() as store:
            loaded = await store.log.state(state.chat_id)
            assert loaded is not None and loaded.is_deleted and not loaded.members
            job = await store.deletions.get(state.chat_id)
            assert job is not None and (job.phase, job.deleted_by) == ("done", NOBODY)
            assert await store.deletions.unfinished(before=NOW * 2, limit=9) == []
            again = await a_chat(store, ANN, BOB, kind="direct")
            assert await store.log.page(again.chat_id, ANN, after=0, limit=9) is not None


@pytest.mark.attack("D09")
async def test_nothing_follows_the_end_of_a_chat() -> None:
    chat = ChatFact(chat_id=new_chat_id(), tenant="acme", type="group", creator=ANN, created_at=NOW)
    kinds: tuple[Kind, ...] = ("deleted", "renamed")
    ends = [
        EntryFact(
            chat_id=chat.chat_id, sequence=place, kind=kind, sender=ANN, created_at=NOW, number=0,
            last_message=0, active_at=NOW, mark="m",
        )
        for place, kind in enumerate(kinds, 1)
    ]  # fmt: skip
    check(lines_of(export_of(chat, ends[0])))
    with pytest.raises(Damaged, match="may follow"):
        check(lines_of(export_of(chat, *ends)))


@pytest.mark.usefixtures("dynamodb_endpoint")
async def test_what_is_left_of_a_deleted_user_travels(place: Place, places: Places) -> None:
    async with place.open() as store:
        await store.users.put(BOB, display_name="Bob", phone_number=None, now=NOW)
        state = await a_chat(store, ANN, BOB, kind="direct")
        erasure = LedgerEntry("user", BOB, NOW)
        await store.ledger.append(erasure)
        await store.ledger.finish(erasure)
        mark = await store.personal_data.mark_deleted(BOB, NOW)
        gone = Entry(
            chat_id=state.chat_id, kind="removed", sender=NOBODY, people=(Person(BOB, "member"),)
        )
        assert await append(store, state, gone) == Kept()
    there = await export_from(place)
    async with places.new(OTHER[type(place).__name__]) as other:
        await import_into(other, there)
        assert await export_from(other) == there
        async with other.open() as store:
            assert await store.users.get(BOB) == mark
            assert await store.ledger.unknown() == []
            loaded = await store.log.state(state.chat_id)
            assert loaded is not None and loaded.has_deleted_user

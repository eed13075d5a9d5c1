# SPDX-License-Identifier: Apache-2.0
"""Moving between engines: nothing is lost, nothing is doubled."""

from collections.abc import Iterator
from typing import Final

import pytest

from tests.contract.builders import added, append, draft, key, message, request, row_of
from tests.contract.engines import Store
from tests.contract.filled_places import FilledPlace, filled_place
from tests.contract.moving_ground import (
    LATER,
    DiesWriting,
    Killed,
    Place,
    TablesPlace,
    export_from,
    export_of,
    fill,
    import_into,
    lines_of,
)
from tests.contract.moving_places import Places, small_export
from tests.support.dynamo_tables import open_tables
from tests.support.engine import ENGINES
from tests.support.spare_tables import spare_tables
from tests.support.users import ANN, BOB, CAT, some_users
from tidings.actions.export import importing
from tidings.actions.export.importing import OtherImport, check, import_all
from tidings.model.ids import ChatId
from tidings.model.setup_error import SetupError
from tidings.ports.export_facts import RequestKeyFact
from tidings.ports.log import Kept
from tidings.stores.dynamodb.export.exporting import CHATS_AT_ONCE

COUNTS: Final = {
    "secret": 2,
    "tenant": 2,
    "tenant_key": 4,
    "signing_key": 2,
    "user": 19,
    "invite": 3,
    "block": 2,
    "push_settings": 1,
    "push_device": 2,
    "webhook": 1,
    "report": 2,
    "chat": 3 + CHATS_AT_ONCE,
    "member": 53,
    "entry": 257,
    "reaction": 6,
    "request_key": 1,
    "send_key": 10,  # the one that has expired stays behind
    "data_key": 4,  # a destroyed one leaves its generation
    # Four tell of destroyed keys, four of blocks, one of a ban, three of push, one of a webhook.
    "revocation": 15,
}

Filled = FilledPlace[list[ChatId]]

# There and back.


@pytest.fixture(scope="module", params=ENGINES)
def filled(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Filled]:
    yield from filled_place(request, tmp_path_factory, fill)


@pytest.mark.usefixtures("dynamodb_endpoint")
async def test_there_and_back_is_the_same_to_the_byte(filled: Filled, places: Places) -> None:
    there = await export_from(filled.arrived)
    assert there == filled.export
    async with places.new("sqlite") as home:
        await import_into(home, there)
        assert await export_from(home) == there


@pytest.mark.usefixtures("dynamodb_endpoint")
def test_both_engines_write_the_same_of_the_same(filled: Filled) -> None:
    assert check(lines_of(filled.export)).counts == COUNTS


@pytest.mark.usefixtures("dynamodb_endpoint")
async def test_what_is_asked_afterwards_is_answered_as_before(filled: Filled) -> None:
    async with filled.place.open() as before, filled.arrived.open() as after:
        chats = filled.content
        assert await _answers(after, chats) == await _answers(before, chats)
        assert after.deployment.epoch == before.deployment.epoch


async def _answers(store: Store, chats: list[ChatId]) -> list[object]:
    rows = await store.chats.listing(ANN, below=None, limit=50, now=LATER)
    for last in [row.last for row in rows if row.last is not None]:
        last.mark, last.content_type, last.reactions = "", None, None  # a list does not show them
    answers: list[object] = [
        rows,
        await store.chats.list_heads(BOB),
        await store.users.get(ANN),
        await store.users.get(BOB),
        await store.tenants.get("acme-2"),
        await store.tenants.find_key("acme-9"),
        await store.tenants.signing_keys("acme"),
        await store.data_keys.current(ANN),
        await store.data_keys.current(CAT),
        {key.author: key for key in await store.data_keys.wrapped_by_others("master2", 10)},
        await store.data_keys.wrapped_by_others("master1", 10),
        await store.deployment.sealed("digest_key"),
        await store.revocations.after(0),
    ]
    for chat in chats[:3]:
        found = await store.log.page(chat, ANN, after=0, limit=100)
        assert found is not None
        for entry in [one for one in found.entries if one.expired(LATER)]:
            entry.box, entry.box_key = None, 0  # nobody is shown it, swept or not
        answers += [found, await store.chats.members(chat, ANN)]
        answers += [await store.receipts.of_chat(chat, ANN)]
        answers += [await store.log.reactions(chat, ANN, 2, 100)]
    return answers


@pytest.mark.usefixtures("dynamodb_endpoint")
@pytest.mark.parametrize("filled", ["sqlite"], indirect=True)
async def test_where_many_deliver_the_head_copies_reach_the_ends(
    filled: Filled, places: Places
) -> None:
    """Hello compares copies there, and looks at no log."""
    async with filled.place.open() as store:
        heads = {held.chat_id: held.head.sequence for held in await store.chats.list_heads(ANN)}
    async with filled.moved(places) as moved:
        assert isinstance(moved, TablesPlace)
        async with open_tables(moved.endpoint, moved.prefix, writes_heads=False) as tables:
            assert await tables.deliveries.reached(filled.content) == heads
            held = await tables.chats.list_heads(ANN)
            assert {one.chat_id: one.head.sequence for one in held} == heads
            assert {one.member_count for one in held} == {2, 3, 16}


@pytest.mark.usefixtures("dynamodb_endpoint")
async def test_life_goes_on_after_a_move(filled: Filled, places: Places) -> None:
    chats = filled.content
    async with filled.place.open() as store:
        found = await store.log.page(chats[0], ANN, after=1, limit=1)
        assert found is not None
    async with filled.moved(places) as moved, moved.open() as store:
        for chat in chats[:3]:
            state = await store.log.state(chat)
            assert state is not None
            assert await append(store, state, message(ANN, "after the move")) == Kept()
            row = await row_of(store, ANN, chat)
            assert row.head.sequence == state.head
            assert row.last is not None and row.last.box == b"after the move"
        group = await store.log.state(chats[0])
        assert group is not None
        assert await append(store, group, added(*some_users(1))) == Kept()
        assert (await row_of(store, ANN, chats[0])).member_count == 4
        sent = await store.log.find_sent(chats[0], key(found.entries[0]), LATER)
        assert sent is not None and sent.entry is not None and sent.entry.sequence == 2
        again, entries = draft(ANN, BOB, name="Garden")
        wish = request("made", expires_at=LATER + 1)
        assert (await store.chats.create(again, entries, wish, LATER)).chat_id == chats[0]
        pair, entries = draft(ANN, BOB, kind="direct")
        assert (await store.chats.create(pair, entries, None, LATER)).chat_id == chats[1]


# Stopped and begun again.


@pytest.mark.parametrize("write", range(1, 7))
async def test_a_kill_at_any_point_loses_and_doubles_nothing(
    place: Place, places: Places, write: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    export = await small_export(places)
    monkeypatch.setattr(importing, "STEP_FACTS", 12)
    async with place.target() as target:
        with pytest.raises(Killed):
            await import_all(DiesWriting(target, write), lines_of(export), lambda _: None)
    with pytest.raises(SetupError, match="not finished"):
        async with place.open():
            pass
    with pytest.raises(SetupError, match="not finished"):
        await export_from(place)
    await import_into(place, export)
    assert await export_from(place) == export


async def test_going_on_leaves_no_item_twice(
    places: Places, dynamodb_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even one that no export would show."""
    export = await small_export(places)
    monkeypatch.setattr(importing, "STEP_FACTS", 12)
    async with spare_tables(dynamodb_endpoint) as one, spare_tables(dynamodb_endpoint) as other:
        stopped, straight = (TablesPlace(dynamodb_endpoint, prefix) for prefix in (one, other))
        async with stopped.target() as target:
            with pytest.raises(Killed):
                await import_all(DiesWriting(target, 3), lines_of(export), lambda _: None)
        for place in (stopped, straight):
            await import_into(place, export)
        assert await stopped.counted() == await straight.counted()


async def test_another_export_does_not_go_on_with_what_was_begun(
    place: Place, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    export, other = await small_export(places), await small_export(places, "other")
    monkeypatch.setattr(importing, "STEP_FACTS", 12)
    async with place.target() as target:
        with pytest.raises(Killed):
            await import_all(DiesWriting(target, 3), lines_of(export), lambda _: None)
    with pytest.raises(OtherImport):
        await import_into(place, other)
    await import_into(place, export)


async def test_only_an_empty_store_is_imported_into(place: Place, places: Places) -> None:
    export = await small_export(places)
    await import_into(place, export)
    with pytest.raises(SetupError, match="not empty"):
        await import_into(place, export)


async def test_what_was_opened_once_and_left_empty_still_counts_as_empty(
    place: Place, places: Places
) -> None:
    async with place.open():
        pass
    export = await small_export(places)
    await import_into(place, export)
    assert await export_from(place) == export


@pytest.mark.parametrize("kind", ["sqlite", "dynamodb"])
async def test_a_request_that_is_not_finished_is_kept_where_it_can_be(
    places: Places, kind: str
) -> None:
    """The embedded store makes chats in one piece and knows no such thing: a repeat makes one."""
    unfinished = RequestKeyFact(
        user_id=ANN, key="k", digest=b"d", chat_id=ChatId("0" * 26), expires_at=LATER + 1,
        is_finished=False,
    )  # fmt: skip
    export = export_of(unfinished)
    async with places.new(kind) as place:
        await import_into(place, export)
        kept = await export_from(place)
        if kind == "dynamodb":
            assert kept == export
        else:
            assert check(lines_of(kept)).counts == {}

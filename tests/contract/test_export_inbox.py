# SPDX-License-Identifier: Apache-2.0
"""Moving inboxes between engines: nothing that counts is lost, nothing is doubled."""

import json
from collections.abc import Coroutine, Iterator
from typing import Any, Final

import pytest

from tests.contract.engines import Store
from tests.contract.filled_places import FilledPlace, export_of_filled, filled_place
from tests.contract.inbox_builders import (
    INBOX,
    TENANT,
    a_broadcast,
    a_copy,
    a_notification,
    a_scheduled,
    in_order,
    new_id,
    some_jobs,
    take_so_many,
)
from tests.contract.moving_ground import (
    LATER,
    DiesWriting,
    Killed,
    Place,
    TablesPlace,
    export_from,
    export_of,
    import_into,
    lines_of,
)
from tests.contract.moving_inbox import EXPIRED, OVER, fill_inbox, inbox_answers
from tests.contract.moving_places import Places
from tests.support.clock import NOW
from tests.support.engine import ENGINES
from tests.support.users import ANN, some_users
from tidings.actions.export import importing
from tidings.actions.export.exporting import ChangedDuringExport, export_all
from tidings.actions.export.importing import check, import_all
from tidings.model import limits
from tidings.model.ids import ChatId, UserKey
from tidings.model.setup_error import SetupError
from tidings.ports.bus import Job
from tidings.ports.export_engines import Source
from tidings.ports.export_facts import Fact
from tidings.ports.export_inbox_facts import CopyFact, converted
from tidings.stores.dynamodb.export import exporting_inbox
from tidings.stores.dynamodb.export.scanning import whole_table
from tidings.stores.dynamodb.inbox.inbox_patterns import SCAN_INBOX
from tidings.stores.dynamodb.tables import TTL

COUNTS: Final = {
    "tenant_settings": 2,
    "inbox": 4,
    "notification": 9,
    "held_job": 2,
    "escalation": 1,
    "announcement": 6,
    "broadcast_states": 3,
    "post_key": 3,
    "copy": 10,
    "read_state": 4,
    "job": 5,
    "job_set_aside": 2,
    "scheduled": 5,
}


Filled = FilledPlace[None]


async def _fill(store: Store) -> None:
    await store.deployment.keep_first_sealed("digest_key", "master1", b"\xff")
    await fill_inbox(store)


@pytest.fixture(scope="module", params=ENGINES)
def filled(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Filled]:
    yield from filled_place(request, tmp_path_factory, _fill)


@pytest.mark.usefixtures("dynamodb_endpoint")
async def test_there_and_back_is_the_same_to_the_byte(filled: Filled, places: Places) -> None:
    assert check(lines_of(filled.export)).counts == {"secret": 1, **COUNTS}
    there = await export_from(filled.arrived)
    assert there == filled.export
    async with places.new("sqlite") as home:
        await import_into(home, there)
        assert await export_from(home) == there


@pytest.mark.usefixtures("dynamodb_endpoint")
@pytest.mark.parametrize("filled", ["dynamodb"], indirect=True)
async def test_pages_make_no_difference(filled: Filled, monkeypatch: pytest.MonkeyPatch) -> None:
    for size in ("PAGE_CONTENTS", "PAGE_ITEMS", "USER_ITEMS", "AT_ONCE"):
        monkeypatch.setattr(exporting_inbox, size, 2)
    assert await export_from(filled.place) == filled.export


@pytest.mark.usefixtures("dynamodb_endpoint")
async def test_what_is_asked_afterwards_is_answered_as_before(filled: Filled) -> None:
    async with filled.place.open() as store:
        before, jobs = await inbox_answers(store), await take_so_many(store, 5)
    async with filled.arrived.open() as store:
        assert await inbox_answers(store) == before
        assert _jobs(await take_so_many(store, 5)) == _jobs(jobs)
        assert await store.notifications.get(TENANT, INBOX, [EXPIRED]) == []


def _jobs(taken: Any) -> list[Job]:
    return in_order([one.job for one in taken])


@pytest.mark.usefixtures("dynamodb_endpoint")
async def test_logs_go_on_after_a_move(filled: Filled, places: Places) -> None:
    """Even one of which all has expired: no place is given out twice."""
    async with filled.moved(places) as moved, moved.open() as store:
        for inbox, last in ((INBOX, 6), (OVER, 2)):
            for place, is_free in ((last, False), (last + 1, True)):
                entry = a_broadcast(place, inbox=inbox)
                assert await store.notifications.append_broadcast(entry) == is_free


@pytest.mark.usefixtures("dynamodb_endpoint")
def test_content_that_has_expired_stays_behind(filled: Filled) -> None:
    lines = [json.loads(line) for line in lines_of(filled.export)]
    (last,) = (line for line in lines if line.get("inbox") == OVER)
    assert (last["sequence"], last["is_last"], last.get("box")) == (2, True, None)
    assert EXPIRED not in str(lines)
    (read,) = (line for line in lines if line["fact"] == "read_state" and line["user_id"] == ANN)
    assert list(read["singly"]) == ["8", "9", "11", "12", "100"]


async def test_only_as_many_copies_travel_as_count(place: Place) -> None:
    copies = [a_copy(new_id(NOW + number)) for number in range(limits.USER_COPIES_MAX + 20)]
    over = [a_copy(new_id(NOW - number), expires_at=LATER) for number in range(5)]
    top = a_copy(new_id(NOW * 2), expires_at=LATER)
    facts = [converted(CopyFact, copy, user_id=ANN, inbox=INBOX) for copy in (*over, *copies, top)]
    await import_into(place, export_of(*facts))
    kept = [
        json.loads(line)["notification_id"] for line in lines_of(await export_from(place))[1:-1]
    ]
    assert kept == [copy.notification_id for copy in copies[20:]]


# The tables.


@pytest.mark.usefixtures("dynamodb_endpoint")
async def test_an_import_leaves_what_the_store_itself_would(places: Places) -> None:
    """Item by item, with the times at which the engine may delete them."""
    async with places.new("dynamodb") as made, places.new("dynamodb") as moved:
        assert isinstance(made, TablesPlace)
        assert isinstance(moved, TablesPlace)
        async with made.open() as store:
            for user in (ANN, *some_users(3)):
                await store.users.put(user, display_name=None, phone_number=None, now=NOW)
            await _fill(store)
        await import_into(moved, await export_from(made))
        there, items = await _items(made), await _items(moved)
        travelling = {
            key: item
            for key, item in there.items()
            if item.get("expires_at", LATER + 1) > LATER and f"p#{EXPIRED}" not in key[1]
        }
        last = next(key for key in items if key[0].endswith(f"{OVER}#all"))
        emptied = {name: one for name, one in there[last].items() if not name.startswith("box")}
        counts = {key: item for key, item in items.items() if key[1] == " counted"}
        pending = {("s#acme:ann", (1, 5)), ("s#acme-2:ann", (9,))}
        for owner, numbers in pending:
            short = {a_scheduled(number).scheduled_id[:16] for number in numbers}
            assert set(counts[owner, " counted"]["counted"]) == short
        assert items == {**travelling, last: emptied, **counts}
        assert TTL not in emptied


async def _items(place: TablesPlace) -> dict[tuple[str, str], dict[str, Any]]:
    async with place.client() as dynamo:
        pages = [page async for page in whole_table(dynamo, SCAN_INBOX)]
    # What says nothing more may be among the read marks, and does not travel.
    return {
        (item["pk"], item["sk"]): {name: one for name, one in item.items() if name != "singly"}
        for page in pages
        for item in page
    }


async def test_users_are_counted_after_a_move(
    place: Place, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when it was stopped in the middle of them."""
    users = [*some_users(30), *(UserKey(f"acme-2:u{number}") for number in range(7))]
    async with places.new("sqlite") as source:
        async with source.open() as store:
            for user in users:
                await store.users.put(user, display_name=None, phone_number=None, now=NOW)
        export = await export_from(source)
    monkeypatch.setattr(importing, "STEP_FACTS", 12)
    for write in (2, 3):
        async with place.target() as target:
            with pytest.raises(Killed):
                await import_all(DiesWriting(target, write), lines_of(export), lambda _: None)
    await import_into(place, export)
    async with place.open() as store:
        counts = [await store.users.about_how_many(tenant) for tenant in (TENANT, "acme-2", "no")]
    assert counts == [30, 7, 0]


# Stopped, disturbed, refused.


@pytest.fixture(scope="module")
def export(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return export_of_filled(tmp_path_factory.mktemp("export") / "data", _fill)


@pytest.mark.parametrize("write", [1, 2, 4, 5])
async def test_a_kill_at_any_point_loses_and_doubles_nothing(
    place: Place, export: bytes, write: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "STEP_FACTS", 10)
    async with place.target() as target:
        with pytest.raises(Killed):
            await import_all(DiesWriting(target, write), lines_of(export), lambda _: None)
    await import_into(place, export)
    assert await export_from(place) == export


@pytest.mark.usefixtures("dynamodb_endpoint")
async def test_an_export_names_the_inbox_that_was_posted_to(places: Places, export: bytes) -> None:
    async with places.new("dynamodb") as place:
        await import_into(place, export)
        async with place.open() as store:
            await _named_after(place, store.notifications.append_broadcast(a_broadcast(7)))
            await _named_after(place, store.notifications.put(a_notification(new_id(LATER))))


async def _named_after(place: Place, post: Coroutine[Any, Any, object]) -> None:
    """Read everything, post, and see that the export names the inbox."""
    async with place.source() as source:
        async for _ in source.facts(LATER):
            pass
        assert await source.changed() == []
        assert await post is not False
        with pytest.raises(ChangedDuringExport) as changed:
            await export_all(_AlreadyRead(source), LATER, len, lambda _: None)
        assert changed.value.names == [f"{TENANT}/{INBOX}"]


class _AlreadyRead:
    """A source of which all was read before."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.epoch = source.epoch

    async def facts(self, now: int, after: ChatId | None = None) -> Any:
        no_facts: tuple[Fact, ...] = ()
        yield no_facts

    async def changed(self) -> list[str]:
        return await self._source.changed()


async def test_jobs_that_are_in_no_queue_of_the_store_are_told_of(place: Place) -> None:
    """Of three portions one is done and one travels; that of another one is missing as well."""
    (job,) = some_jobs(1)
    posted = a_notification(job.notification_id, recipients=201)
    async with place.open() as store:
        for notification in (posted, a_notification()):
            await store.notifications.put(notification)
        await store.notifications.finish_job(TENANT, INBOX, posted.notification_id, 1)
        await store.jobs.put([job])
    async with place.source() as source:
        exported = await export_all(source, LATER, len, lambda _: None)
        assert exported.jobs_elsewhere == 2
    async with place.open() as store:
        await store.notifications.empty(TENANT, INBOX, posted.notification_id)
    async with place.source() as source:
        exported = await export_all(source, LATER, len, lambda _: None)
        assert exported.jobs_elsewhere == 0


async def test_a_store_with_only_an_inbox_is_not_empty(place: Place) -> None:
    async with place.open() as store:
        await store.inbox_settings.put_settings(TENANT, {})
    with pytest.raises(SetupError, match="not empty"):
        await import_into(place, export_of())


async def test_an_export_from_before_the_inbox_is_still_imported(place: Place) -> None:
    export = export_of(version=1)
    assert b'"version":1' in export
    await import_into(place, export)
    assert await export_from(place) == export_of()

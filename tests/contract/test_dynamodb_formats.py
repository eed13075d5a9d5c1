# SPDX-License-Identifier: Apache-2.0
"""New formats are written only when every process can read them."""

from collections.abc import AsyncIterator

import pytest

from tests.contract.lossy_tables import Place, a_place
from tests.support.clock import NOW, ManualClock
from tests.support.dynamo_tables import open_tables
from tests.support.spare_tables import spare_tables
from tidings.model import formats as known
from tidings.model.formats import NEWEST, OLDEST
from tidings.model.setup_error import SetupError
from tidings.stores.dynamodb import formats
from tidings.stores.dynamodb.formats import EPOCH, GONE_MS, PROCESS, Formats, allow_newest
from tidings.stores.dynamodb.patterns import KEEP_VALUE, LIST_PROCESSES, READ_VALUE


@pytest.fixture
async def place(dynamodb_endpoint: str) -> AsyncIterator[Place]:
    async with a_place(dynamodb_endpoint) as place:
        yield place


async def registered(place: Place) -> list[int]:
    """The newest formats that the running processes know."""
    values = {":pk": EPOCH["pk"], ":process": PROCESS}
    where = "#pk = :pk AND begins_with(#sk, :process)"
    return [item["knows"] for item in await place.dynamo.query(LIST_PROCESSES, where, values)]


async def test_a_process_is_registered_until_some_minutes_after_its_end(place: Place) -> None:
    await place.dynamo.put(KEEP_VALUE, {**EPOCH, "value": "e"})
    running = Formats(place.dynamo, ManualClock(), NEWEST)
    await running.start()
    await running.close()
    assert await registered(place) == [NEWEST]
    await allow_newest(place.dynamo, NOW + GONE_MS)
    assert await registered(place) == []


async def test_a_process_learns_that_a_new_format_is_allowed(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    await place.dynamo.put(KEEP_VALUE, {**EPOCH, "value": "e"})
    running = Formats(place.dynamo, ManualClock(), 0)
    await allow_newest(place.dynamo, NOW)
    monkeypatch.setattr(formats, "REFRESH_SECONDS", 0)

    await running._refresh()

    assert running.written == NEWEST
    assert await place.dynamo.get(READ_VALUE, EPOCH) == {**EPOCH, "value": "e", "writes": NEWEST}


async def test_a_new_format_waits_for_the_last_process_of_an_older_version(place: Place) -> None:
    await place.dynamo.put(KEEP_VALUE, {**EPOCH, "value": "e"})
    older = {"pk": EPOCH["pk"], "sk": f"{PROCESS}older", "knows": NEWEST - 1, "seen_at": NOW}
    await place.dynamo.put(KEEP_VALUE, older)

    with pytest.raises(SetupError, match="1 processes of an older version"):
        await allow_newest(place.dynamo, NOW)
    assert await place.dynamo.get(READ_VALUE, EPOCH) == {**EPOCH, "value": "e"}

    await allow_newest(place.dynamo, NOW + GONE_MS)


async def test_a_new_deployment_begins_with_the_newest_format(dynamodb_endpoint: str) -> None:
    async with spare_tables(dynamodb_endpoint) as prefix:
        async with open_tables(dynamodb_endpoint, prefix) as store:
            assert store.deployment.writes == NEWEST


async def test_an_older_version_refuses_what_it_cannot_read(
    dynamodb_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with spare_tables(dynamodb_endpoint) as prefix:
        async with open_tables(dynamodb_endpoint, prefix):
            pass
        monkeypatch.setattr(known, "NEWEST", NEWEST - 1)
        with pytest.raises(SetupError, match="install a newer version"):
            async with open_tables(dynamodb_endpoint, prefix):
                pass


@pytest.mark.parametrize("writes", [{}, {"writes": OLDEST - 1}], ids=["released", "registered"])
async def test_tables_of_an_older_version_are_opened_after_its_last_process(
    place: Place, dynamodb_endpoint: str, writes: dict[str, int]
) -> None:
    await place.dynamo.put(KEEP_VALUE, {**EPOCH, "value": "e", **writes})

    with pytest.raises(SetupError, match="stop all its processes, run `tidings schema fill`"):
        async with open_tables(dynamodb_endpoint, place.dynamo.prefix):
            pass
    assert await registered(place) == []

    await allow_newest(place.dynamo, NOW)
    async with open_tables(dynamodb_endpoint, place.dynamo.prefix) as store:
        assert store.deployment.epoch == "e"


async def test_where_no_process_has_run_there_is_nothing_to_allow(
    place: Place, dynamodb_endpoint: str
) -> None:
    await allow_newest(place.dynamo, NOW)
    async with open_tables(dynamodb_endpoint, place.dynamo.prefix) as store:
        assert store.deployment.writes == NEWEST

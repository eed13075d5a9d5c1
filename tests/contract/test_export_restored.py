# SPDX-License-Identifier: Apache-2.0
"""A store that was restored is exported only when its erasures were carried out again."""

import pytest

from tests.contract.moving_ground import FolderPlace, TablesPlace, export_from
from tests.contract.moving_places import Places
from tests.support.clock import NOW
from tests.support.users import ANN
from tidings.model.setup_error import SetupError
from tidings.ports.erasing import LedgerEntry
from tidings.stores.dynamodb.identity.erasing import record
from tidings.stores.sqlite.identity.erasing import LEDGER, append_lines

ERASED = LedgerEntry("content", ANN, NOW)


@pytest.mark.usefixtures("dynamodb_endpoint")
@pytest.mark.parametrize("kind", ["sqlite", "dynamodb"])
async def test_an_export_waits_for_the_erasures_of_the_ledger(places: Places, kind: str) -> None:
    """Otherwise it brings back what was erased, and the new store does not know that it must not
    be there."""
    async with places.new(kind) as place:
        async with place.open() as store:
            await store.users.put(ANN, display_name="Ann", phone_number=None, now=NOW)
        if isinstance(place, FolderPlace):
            append_lines(place.folder / LEDGER, [ERASED])
        else:
            assert isinstance(place, TablesPlace)
            async with place.client() as dynamo:
                await record(dynamo, ERASED)
        with pytest.raises(SetupError, match="1 erasures are not carried out"):
            await export_from(place)
        async with place.open() as store:
            assert await store.ledger.unknown() == [ERASED]
            await store.ledger.note(ERASED)
        assert b'"subject":"acme:ann"' in await export_from(place)

# SPDX-License-Identifier: Apache-2.0
"""Empty places of both engines to move between."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.contract.builders import a_chat, append, key, message
from tests.contract.moving_ground import (
    LATER,
    FolderPlace,
    Place,
    TablesPlace,
    export_from,
)
from tests.support.clock import NOW
from tests.support.spare_tables import spare_tables
from tests.support.users import ANN, BOB
from tidings.ports.log import Kept


class Places:
    """As many empty places of each kind as a test wants."""

    def __init__(self, folder: Path, request: pytest.FixtureRequest) -> None:
        self._folder = folder
        self._request = request
        self._count = 0

    @asynccontextmanager
    async def new(self, kind: str) -> AsyncIterator[Place]:
        self._count += 1
        if kind == "sqlite":
            yield FolderPlace(self._folder / f"place{self._count}")
            return
        endpoint: str = self._request.getfixturevalue("dynamodb_endpoint")
        async with spare_tables(endpoint) as prefix:
            yield TablesPlace(endpoint, prefix)


OTHER = {"FolderPlace": "dynamodb", "TablesPlace": "sqlite"}


_small: dict[str, bytes] = {}


async def small_export(places: Places, text: str = "hello") -> bytes:
    """A user and a few chats with this text, exported once for all tests."""
    if text not in _small:
        _small[text] = await new_small_export(places, text)
    return _small[text]


async def new_small_export(places: Places, text: str) -> bytes:
    """The same from a new store, whose epoch and chats nobody else has."""
    async with places.new("sqlite") as source:
        async with source.open() as store:
            await store.users.put(ANN, display_name=text, phone_number=None, now=NOW)
            for _ in range(5):
                state = await a_chat(store, ANN, BOB)
                for number in range(5):
                    entry = message(ANN, f"{text} {number}", expires_at=LATER + 1)
                    assert await append(store, state, entry, keys=[key(entry)]) == Kept()
        return await export_from(source)

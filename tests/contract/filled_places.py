# SPDX-License-Identifier: Apache-2.0
"""For the suites about moving: a place that is filled once for all tests of a module."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import pytest

from tests.contract.engines import Store
from tests.contract.moving_ground import FolderPlace, Place, export_from, import_into
from tests.contract.moving_places import OTHER, Places
from tests.support.held_open import held_open

A = TypeVar("A")

Fill = Callable[[Store], Awaitable[A]]


@dataclass(frozen=True)
class FilledPlace(Generic[A]):
    """A place with its export, and a place of the other engine into which that was imported.

    Tests only read them: one that writes imports the export into a place of its own.
    """

    place: Place
    arrived: Place
    export: bytes
    content: A
    """What filling returned."""

    @asynccontextmanager
    async def moved(self, places: Places) -> AsyncIterator[Place]:
        """Another place of the other engine into which it was imported, for a test that writes."""
        async with places.new(OTHER[type(self.place).__name__]) as other:
            await import_into(other, self.export)
            yield other


def filled_place(
    request: pytest.FixtureRequest, folders: pytest.TempPathFactory, fill: Fill[A]
) -> Iterator[FilledPlace[A]]:
    """Fill a place of the kind that a fixture of a module asks for, and import it into another."""
    places = Places(folders.mktemp("filled"), request)
    with held_open(_filled(places, request.param, fill)) as filled:
        yield filled


@asynccontextmanager
async def _filled(places: Places, kind: str, fill: Fill[A]) -> AsyncIterator[FilledPlace[A]]:
    async with places.new(kind) as place:
        export, content = await _exported(place, fill)
        async with places.new(OTHER[type(place).__name__]) as arrived:
            await import_into(arrived, export)
            yield FilledPlace(place, arrived, export, content)


async def _exported(place: Place, fill: Fill[A]) -> tuple[bytes, A]:
    async with place.open() as store:
        content = await fill(store)
    return await export_from(place), content


def export_of_filled(folder: Path, fill: Fill[A]) -> bytes:
    """Return the export of an embedded store that was filled so."""
    return asyncio.run(_exported(FolderPlace(folder), fill))[0]

# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the contract suites: an engine, and a store opened on it for real."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.contract.engines import DynamoEngine, Engine, SqliteEngine, Store
from tests.contract.moving_ground import Place
from tests.contract.moving_places import Places
from tests.support.patient_requests import patient_requests
from tests.support.spare_tables import spare_tables

__all__ = ["patient_requests"]

pytest.register_assert_rewrite("tests.contract.cost_checks")


@pytest.fixture(params=["sqlite", "dynamodb"])
async def engine(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Engine]:
    """Where data is kept between one opening and the next; empty at first."""
    if request.param == "sqlite":
        yield SqliteEngine(tmp_path / "data")
        return
    endpoint: str = request.getfixturevalue("dynamodb_endpoint")
    async with spare_tables(endpoint) as prefix:
        yield DynamoEngine(endpoint, prefix)


@pytest.fixture
async def store(engine: Engine) -> AsyncIterator[Store]:
    """The engine, open, with nothing in it."""
    async with engine.open() as opened:
        yield opened


@pytest.fixture
def places(tmp_path: Path, request: pytest.FixtureRequest) -> Places:
    """As many places to move between as a test wants."""
    return Places(tmp_path, request)


@pytest.fixture(params=["sqlite", "dynamodb"])
async def place(request: pytest.FixtureRequest, places: Places) -> AsyncIterator[Place]:
    """An empty one of each kind."""
    async with places.new(request.param) as made:
        yield made

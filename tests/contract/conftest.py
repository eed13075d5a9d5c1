# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the contract suites: an engine, and a store opened on it for real."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.contract.engines import DynamoEngine, Engine, SqliteEngine, Store
from tests.harness.dynamo_tables import some_tables


@pytest.fixture(params=["sqlite", "dynamodb"])
async def engine(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Engine]:
    """Where data is kept between one opening and the next; empty at first."""
    if request.param == "sqlite":
        yield SqliteEngine(tmp_path / "data")
        return
    endpoint: str = request.getfixturevalue("dynamodb_endpoint")
    async with some_tables(endpoint) as prefix:
        yield DynamoEngine(endpoint, prefix)


@pytest.fixture
async def store(engine: Engine) -> AsyncIterator[Store]:
    """The engine, open, with nothing in it."""
    async with engine.open() as opened:
        yield opened

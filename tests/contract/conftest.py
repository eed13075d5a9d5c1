# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the contract suites: an engine, and a store opened on it for real."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.contract.engines import ENGINES, Engine, Store


@pytest.fixture(params=["sqlite"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Engine:
    """Where data is kept between one opening and the next."""
    return ENGINES[request.param](tmp_path / "data")


@pytest.fixture
async def store(engine: Engine) -> AsyncIterator[Store]:
    """The engine, open, with nothing in it."""
    async with engine.open() as opened:
        yield opened

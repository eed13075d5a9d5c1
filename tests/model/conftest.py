# SPDX-License-Identifier: Apache-2.0
"""Engines for state machines; has pytest explain failed assertions of what they are made of."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from tests.support.engine import Settings, on_tables
from tests.support.spare_tables import spare_tables

if TYPE_CHECKING:
    from tests.model.product import Engine

pytest.register_assert_rewrite(
    "tests.model.ground",
    "tests.model.member_rules",
    "tests.model.message_rules",
    "tests.model.product",
    "tests.model.reading_rules",
    "tests.model.time_rules",
)


@pytest.fixture
def engine_of(request: pytest.FixtureRequest) -> Callable[[str], "Engine"]:
    """What makes an engine of a kind."""

    @asynccontextmanager
    async def empty(kind: str) -> AsyncIterator[Settings]:
        if kind == "sqlite":
            yield {}
            return
        endpoint: str = request.getfixturevalue("dynamodb_endpoint")
        async with spare_tables(endpoint) as prefix:
            yield on_tables(endpoint, prefix)

    return lambda kind: lambda: empty(kind)

# SPDX-License-Identifier: Apache-2.0
"""Engines for state machines; has pytest explain failed assertions of what they are made of."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from tests.support.engine import Settings, on_tables
from tests.support.patient_requests import patient_requests
from tests.support.spare_tables import spare_tables
from tidings.model.limits import DAY_MS
from tidings.stores.dynamodb.inbox import due

if TYPE_CHECKING:
    from tests.model.product import Engine

__all__ = ["patient_requests"]

pytest.register_assert_rewrite(
    "tests.model.file_rules",
    "tests.model.ground",
    "tests.model.inbox_escalation",
    "tests.model.inbox_later",
    "tests.model.inbox_tenant",
    "tests.model.member_rules",
    "tests.model.message_rules",
    "tests.model.moderation_rules",
    "tests.model.product",
    "tests.model.reading_rules",
    "tests.model.scheduled_rules",
    "tests.model.search_rules",
    "tests.model.time_rules",
)


@pytest.fixture(autouse=True)
def few_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    """What becomes due is in few places: a run that skips a week has to look into all of them."""
    monkeypatch.setattr(due, "BUCKET_MS", DAY_MS)
    monkeypatch.setattr(due, "SHARDS", 2)


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

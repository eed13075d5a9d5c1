# SPDX-License-Identifier: Apache-2.0
"""Engines for state machines; has pytest explain failed assertions of what they are made of."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from tests.support.engine import some_engine

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

    def endpoint() -> str:
        return str(request.getfixturevalue("dynamodb_endpoint"))

    return lambda kind: lambda: some_engine(kind, endpoint)

# SPDX-License-Identifier: Apache-2.0
"""What holds for every unit test, and tables for those that need them."""

from collections.abc import Iterator

import pytest

from tests.support.asyncio_errors import no_lost_errors
from tests.support.held_open import held_open
from tests.support.spare_tables import spare_tables

__all__ = ["no_lost_errors"]


@pytest.fixture(scope="module")
def module_tables(dynamodb_endpoint: str) -> Iterator[str]:
    """Yield empty tables for all tests of a file, each of which makes chats of its own."""
    with held_open(spare_tables(dynamodb_endpoint)) as prefix:
        yield prefix

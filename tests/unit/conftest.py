# SPDX-License-Identifier: Apache-2.0
"""What holds for every unit test, and tables for those that need them."""

import asyncio
from collections.abc import Iterator

import pytest

from tests.support.asyncio_errors import no_lost_errors
from tests.support.dynamo_tables import drop_tables, make_tables, new_prefix

__all__ = ["no_lost_errors"]


@pytest.fixture(scope="module")
def module_tables(dynamodb_endpoint: str) -> Iterator[str]:
    """Create tables for all tests of a file, each of which makes chats of its own."""
    prefix = new_prefix()
    asyncio.run(make_tables(dynamodb_endpoint, prefix, streams=False))
    yield prefix
    asyncio.run(drop_tables(dynamodb_endpoint, prefix))

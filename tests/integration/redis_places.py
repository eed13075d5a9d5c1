# SPDX-License-Identifier: Apache-2.0
"""Links to a Redis under keys of their own, closed when their test ends."""

import itertools
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.support.message_cipher import a_cipher
from tests.support.waiting import WAIT_SECONDS
from tidings.cluster.redis_link import RedisLink
from tidings.cluster.redis_servers import RedisServers

_numbers = itertools.count(1)


def new_prefix() -> str:
    """A prefix that no other test uses, in this run or in another one beside it."""
    return f"test-{os.getpid()}-{next(_numbers)}:"


@asynccontextmanager
async def a_link(url: str | RedisServers, prefix: str | None = None) -> AsyncIterator[RedisLink]:
    """A link, as one process has it."""
    # Generous: a busy machine is not a broken Redis.
    servers = RedisServers(url) if isinstance(url, str) else url
    link = RedisLink(servers, prefix or new_prefix(), a_cipher(), answer_seconds_max=WAIT_SECONDS)
    try:
        yield link
    finally:
        await link.close()

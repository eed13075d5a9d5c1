# SPDX-License-Identifier: Apache-2.0
"""Sweeping, on DynamoDB: the engine does it.

Contents that expire and claimed keys are items with a TTL. DynamoDB deletes them by itself, some
time later and free of charge, and tells of it in the stream of their table. A sweeper of our own
would have to find them first, which here means to look through everything.
"""

from tidings.model.ids import ChatId
from tidings.ports.sweeping import Sweeping


class DynamoSweeping:
    """There is never anything left to do."""

    async def empty_expired(self, now: int, limit: int) -> list[tuple[ChatId, int]]:
        return []

    async def forget_keys(self, now: int, limit: int) -> int:
        return 0

    async def forget_notifications(self, now: int, limit: int) -> int:
        return 0


_conforms: type[Sweeping] = DynamoSweeping

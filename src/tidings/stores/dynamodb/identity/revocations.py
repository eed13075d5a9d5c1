# SPDX-License-Identifier: Apache-2.0
"""The feed of revocations on DynamoDB: its positions are claimed in order, like a chat's log.

Times cannot serve as positions: readers that have already read further would miss a revocation
that a slow process writes late.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from tidings.model import limits
from tidings.model.refusals import StoreUnavailable
from tidings.ports.sessions import Revocation, Revocations
from tidings.stores.dynamodb import patterns
from tidings.stores.dynamodb.client.dynamo import Dynamo
from tidings.stores.dynamodb.client.retrying import DEADLINE_SECONDS, Canceled, Item
from tidings.stores.dynamodb.client.writes import Put, Write

READ_MAX: Final = 1_000

_PARTITION: Final = "revocations"
_IS_FREE: Final = "attribute_not_exists(#pk)"


class DynamoRevocations:
    """The feed of revocations: one partition of the tenants' table that only grows."""

    def __init__(self, dynamo: Dynamo) -> None:
        self._dynamo = dynamo
        self._turn = asyncio.Lock()
        """Lock for appends of this process: two at once would claim the same position."""

    async def append(self, revocation: Revocation) -> None:
        await self.append_with([revocation], [])

    async def append_with(
        self, revocations: Sequence[Revocation], changes: Sequence[Write]
    ) -> bool:
        """Append revocations and carry out their changes, in one transaction.

        Returns False if the condition of one of the changes failed.

        Raises:
            StoreUnavailable: Unknown outcome, or too many callers at once.
        """
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                await self._turn.acquire()
        except TimeoutError:
            raise StoreUnavailable from None
        try:
            return await self._append(revocations, changes)
        finally:
            self._turn.release()

    async def _append(self, revocations: Sequence[Revocation], changes: Sequence[Write]) -> bool:
        async for _ in self._dynamo.retrying.attempts(limits.SLOT_ATTEMPTS_MAX):
            first = await self.head() + 1
            slots = [
                Put("tenants", _item(place, revocation), _IS_FREE)
                for place, revocation in enumerate(revocations, first)
            ]
            try:
                await self._dynamo.transact(patterns.REVOKE, [*slots, *changes])
            except Canceled as canceled:
                if any(reason.is_condition for reason in canceled.reasons[len(slots) :]):
                    return False
            else:
                return True
        raise StoreUnavailable

    async def head(self) -> int:
        items = await self._dynamo.query(
            patterns.READ_REVOCATIONS, "#pk = :pk", {":pk": _PARTITION}, limit=1, backwards=True
        )
        return int(items[0]["sk"]) if items else 0

    async def after(self, place: int) -> list[Revocation]:
        items = await self._dynamo.query(
            patterns.READ_REVOCATIONS,
            "#pk = :pk AND #sk > :place",
            {":pk": _PARTITION, ":place": _sort_key(place)},
            limit=READ_MAX,
        )
        return [
            Revocation(kind=item["kind"], subject=item["subject"], at=item["at"]) for item in items
        ]


def _sort_key(place: int) -> str:
    return f"{place:012d}"


def _item(place: int, revocation: Revocation) -> Item:
    return {
        "pk": _PARTITION,
        "sk": _sort_key(place),
        "kind": revocation.kind,
        "subject": revocation.subject,
        "at": revocation.at,
    }


_conforms: type[Revocations] = DynamoRevocations

# SPDX-License-Identifier: Apache-2.0
"""The feed of revocations on DynamoDB: places claimed one after the other, like those of a chat.

Times would not do for places: one that a slow process writes late would be passed over by all who
have read further.
"""

from typing import Final

from tidings.model import limits
from tidings.model.refusals import StoreUnavailable
from tidings.ports.revocations import Revocation, Revocations
from tidings.stores.dynamodb import patterns
from tidings.stores.dynamodb.client import Dynamo
from tidings.stores.dynamodb.trouble import Canceled, Item
from tidings.stores.dynamodb.writes import Put, Update, Write

READ_MAX: Final = 1_000

_PARTITION: Final = "revocations"
_IS_FREE: Final = "attribute_not_exists(#pk)"


class DynamoRevocations:
    """One partition of the tenants' table that only grows."""

    def __init__(self, dynamo: Dynamo) -> None:
        self._dynamo = dynamo

    async def append(self, revocation: Revocation) -> None:
        await self.append_with(revocation, None)

    async def append_with(self, revocation: Revocation, change: Update | None) -> bool:
        """Put it at the end together with what it is about; False if that could not be changed.

        Raises:
            StoreUnavailable: Unknown outcome, or too many at once.
        """
        for _ in range(limits.SLOT_ATTEMPTS_MAX):
            place = await self.head() + 1
            slot = Put("tenants", _item(place, revocation), _IS_FREE)
            writes: list[Write] = [slot] if change is None else [slot, change]
            try:
                await self._dynamo.transact(patterns.REVOKE, writes)
            except Canceled as canceled:
                if any(reason.is_condition for reason in canceled.reasons[1:]):
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

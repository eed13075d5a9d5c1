# SPDX-License-Identifier: Apache-2.0
"""The ledger of erasures on DynamoDB, in the table of data keys.

That table is never restored to an earlier point in time, because destroyed keys would return with
it. The table of tenants, which is restored with the others, has an item for each erasure that the
store knows.
"""

from contextlib import suppress
from typing import Final

from tidings.ports.ledger import Ledger, LedgerEntry
from tidings.stores.dynamodb.client.dynamo import Dynamo
from tidings.stores.dynamodb.client.retrying import ConditionFailed, Item
from tidings.stores.dynamodb.export.scanning import whole_table
from tidings.stores.dynamodb.identity import job_patterns as patterns

IN_LEDGER: Final = "erasure#"
KNOWN: Final = "known_erasures"
IS_ERASURE: Final = "begins_with(#author, :erasure)"
IS_DATA_KEY: Final = "attribute_exists(#generation)"
_IS_LATER: Final = "attribute_not_exists(#at) OR #at < :at"


class DynamoLedger:
    """Records erasures in the ledger, and compares it with the erasures that the store knows."""

    def __init__(self, dynamo: Dynamo) -> None:
        self._dynamo = dynamo

    async def append(self, erasure: LedgerEntry) -> None:
        await record(self._dynamo, erasure)
        await self.note(erasure)

    async def note(self, erasure: LedgerEntry) -> None:
        # If a subject is erased twice at once, the earlier erasure may be noted last. It must not
        # make the later one look unknown.
        with suppress(ConditionFailed):
            await self._dynamo.put(
                patterns.NOTE_ERASURE, known_item(erasure), _IS_LATER, {":at": erasure.at}
            )

    async def unknown(self) -> list[LedgerEntry]:
        # Read the ledger first, so that an erasure which is recorded meanwhile is not returned.
        recorded = [
            to_erasure(item)
            async for page in whole_table(
                self._dynamo, patterns.SCAN_ERASURES, IS_ERASURE, {":erasure": IN_LEDGER}
            )
            for item in page
        ]
        known = await self._dynamo.query(patterns.LIST_ERASURES, "#pk = :known", {":known": KNOWN})
        times = {item["sk"]: item["at"] for item in known}
        missing = [e for e in recorded if times.get(_name(e), -1) < e.at]
        return sorted(missing, key=lambda erasure: erasure.at)


async def record(dynamo: Dynamo, erasure: LedgerEntry) -> None:
    """Write an erasure to the ledger."""
    # This is an update, because no process has the right to put items into this table.
    await dynamo.update(
        patterns.RECORD_ERASURE,
        {"author": IN_LEDGER + _name(erasure)},
        "SET #kind = :kind, #subject = :subject, #at = :at",
        values={":kind": erasure.kind, ":subject": erasure.subject, ":at": erasure.at},
    )


def known_item(erasure: LedgerEntry) -> Item:
    """Build the item in the table of tenants that says that the store knows an erasure."""
    return {"pk": KNOWN, "sk": _name(erasure), "at": erasure.at}


def to_erasure(item: Item) -> LedgerEntry:
    """Convert an item of the ledger to an erasure."""
    return LedgerEntry(item["kind"], item["subject"], item["at"])


def _name(erasure: LedgerEntry) -> str:
    return f"{erasure.kind}#{erasure.subject}"


_conforms: type[Ledger] = DynamoLedger

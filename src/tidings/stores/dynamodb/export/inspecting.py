# SPDX-License-Identifier: Apache-2.0
"""Opens the tables to verify them, and compares the data that they derive from facts.

The tables have no common snapshot. The rows of members are read before the log, so that marks are
never found ahead of a log that grows meanwhile.
"""

from collections.abc import AsyncIterator, Sequence

from tidings.model.attachments import Upload
from tidings.model.ids import ChatId, UserKey
from tidings.model.scheduled import Scheduled
from tidings.ports.due import due_of
from tidings.ports.export_engines import Inspection, Violation
from tidings.ports.export_facts import (
    ChatFact,
    Fact,
    MemberFact,
    TenantFact,
    TenantKeyFact,
    UserFact,
)
from tidings.ports.export_inbox_facts import ScheduledFact, converted
from tidings.ports.people import Tenant, TenantKey
from tidings.stores.dynamodb.chat.heads import EPOCH_CHARS
from tidings.stores.dynamodb.chat.items import member_key
from tidings.stores.dynamodb.chat.scheduled import DynamoScheduled
from tidings.stores.dynamodb.chat.uploads import DynamoUploads
from tidings.stores.dynamodb.client.dynamo import BATCH_GET_MAX, Dynamo
from tidings.stores.dynamodb.client.retrying import Item
from tidings.stores.dynamodb.export.exporting import DynamoSource, epoch_of
from tidings.stores.dynamodb.export.items import to_member_fact
from tidings.stores.dynamodb.export.repair_patterns import SCAN_LISTINGS, SCAN_RECEIPTS
from tidings.stores.dynamodb.export.scanning import whole_table
from tidings.stores.dynamodb.inbox.due import has_due
from tidings.stores.dynamodb.listings import (
    chat_listing,
    key_listing,
    tenant_listing,
    user_listing,
)
from tidings.stores.dynamodb.patterns import READ_ROLES


class DynamoInspection(DynamoSource):
    """Reads all facts from tables that servers may be using."""

    _found: list[Violation]
    _copies: dict[ChatId, int]
    """The furthest head copy of each chat whose log is not read yet."""
    _unlisted: set[tuple[str, str]]
    """Keys of the list items that must exist."""

    async def facts(self, now: int, after: ChatId | None = None) -> AsyncIterator[Sequence[Fact]]:
        self._found, self._copies, self._unlisted = [], {}, set()
        async for facts in super().facts(now, after):
            self._unlisted |= {key for fact in facts if (key := self._listing(fact)) is not None}
            yield facts
            self._found += [
                Violation(f"{each.user_id} {each.scheduled_id}", "is pending and never due")
                for each in facts
                if isinstance(each, ScheduledFact) and await self._is_lost(each)
            ]

    async def _is_lost(self, fact: ScheduledFact) -> bool:
        """Return True if a message waits, but there is no due item for its time."""
        message = converted(Scheduled, fact)
        if not message.is_open or await has_due(self._dynamo, due_of(message)):
            return False
        # It may have been sent, changed or cancelled since it was read.
        return message == await DynamoScheduled(self._dynamo).get(fact.user_id, fact.scheduled_id)

    async def disagreements(self) -> AsyncIterator[Violation]:
        """Yield where derived data disagrees with the facts that were read."""
        for violation in self._found:
            yield violation
        async for page in whole_table(self._dynamo, SCAN_LISTINGS):
            self._unlisted -= {(item["pk"], item["sk"]) for item in page}
        for partition, name in sorted(self._unlisted):
            yield Violation(partition, f"{name} is not listed")
        async for page in whole_table(self._dynamo, SCAN_RECEIPTS):
            for chat, user in await without_member(self._dynamo, page):
                yield Violation(f"{chat} {user}", "a receipt without a member")

    async def upload(self, owner: UserKey, attachment_id: str) -> Upload | None:
        """Return an upload as it is now, not as it was when the facts were read."""
        return await DynamoUploads(self._dynamo).get(owner, attachment_id)

    def _listing(self, fact: Fact) -> tuple[str, str] | None:
        """Return the key of the item that lists the object of a fact, if it must be listed."""
        match fact:
            case TenantFact() if fact.deleted_at is None:
                item = tenant_listing(
                    Tenant(tenant=fact.tenant, name=fact.name, created_at=fact.created_at)
                )
            case TenantKeyFact():
                item = key_listing(converted(TenantKey, fact))
            case UserFact() if fact.deleted_at is None:
                item = user_listing(fact.user_id)
            case ChatFact() if fact.chat_id not in self._deleted:
                item = chat_listing(fact.tenant, fact.chat_id)
            case _:
                return None
        return item["pk"], item["sk"]

    def _joined(self, chat: Item, rows: list[Item], receipts: dict[str, Item]) -> list[MemberFact]:
        chat_id = ChatId(chat["chat_id"])
        lost = [row["user_id"] for row in rows if row["user_id"] not in receipts]
        self._found += [
            Violation(f"{chat_id} {user}", "a member without a receipt") for user in lost
        ]
        if chat["member_count"] != len(rows):
            self._found.append(Violation(chat_id, "the member count differs"))
        epoch = self.epoch[:EPOCH_CHARS]
        copies = [
            item["sequence"] for item in (chat, *receipts.values()) if item.get("epoch") == epoch
        ]
        self._copies[chat_id] = max(copies, default=0)
        return [
            to_member_fact(row, receipts[row["user_id"]])
            for row in rows
            if row["user_id"] in receipts
        ]

    async def _rest(self, chat: ChatId, last: int, now: int) -> AsyncIterator[list[Fact]]:
        async for facts in super()._rest(chat, last, now):
            yield facts
        head, copy = self._heads[-1], self._copies.pop(chat, 0)
        if copy > head:
            what = f"a head copy says {copy}, the log ends at {head}"
            self._found.append(Violation(chat, what))


async def without_member(dynamo: Dynamo, receipts: list[Item]) -> list[tuple[ChatId, UserKey]]:
    """Return the chats and users of receipts whose users are not members of the chat."""
    found = {(ChatId(item["chat_id"]), UserKey(item["user_id"])) for item in receipts}
    keys = [member_key(chat, user) for chat, user in sorted(found)]
    for start in range(0, len(keys), BATCH_GET_MAX):
        rows = await dynamo.batch_get(READ_ROLES, keys[start : start + BATCH_GET_MAX])
        found -= {(ChatId(row["chat_id"]), UserKey(row["user_id"])) for row in rows}
    return sorted(found)


async def open_inspection(dynamo: Dynamo) -> DynamoInspection:
    """Open the tables to verify them; servers may use them meanwhile.

    Raises:
        SetupError: The tables do not exist or are empty, or an import into them is unfinished.
        StoreUnavailable: The tables cannot be reached.
    """
    return DynamoInspection(dynamo, await epoch_of(dynamo))


_conforms: type[Inspection] = DynamoInspection

# SPDX-License-Identifier: Apache-2.0
"""The deletion of users and tenants on DynamoDB: their data, and the ledger of erasures.

The ledger is in the table of data keys. That table is never restored to an earlier point in time,
because destroyed keys would return with it. The table of tenants is restored with the others. It
has an item for each erasure that was applied to the data. After a restore, an entry of the ledger
without such an item must be applied again.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import msgspec

from tidings.model.ids import ChatId, UserKey, tenant_of
from tidings.model.refusals import StoreUnavailable
from tidings.ports.erasing import Ledger, LedgerEntry, PersonalData, TenantData
from tidings.ports.people import Tenant, User
from tidings.ports.sessions import Revocation
from tidings.stores.dynamodb import listings
from tidings.stores.dynamodb import patterns as all_patterns
from tidings.stores.dynamodb.client.dynamo import Dynamo
from tidings.stores.dynamodb.client.retrying import ConditionFailed, Item
from tidings.stores.dynamodb.client.writes import Delete, Put, Update, Write
from tidings.stores.dynamodb.export.scanning import whole_table
from tidings.stores.dynamodb.identity import identity_patterns as patterns
from tidings.stores.dynamodb.identity.identity_patterns import LIST_SESSIONS
from tidings.stores.dynamodb.identity.items import (
    api_key_key,
    partition,
    tenant_key,
    to_tenant,
)
from tidings.stores.dynamodb.identity.logins import code_key
from tidings.stores.dynamodb.identity.phone_claims import (
    IS_NOT_DELETED,
    claim_key,
    key_of,
    lower_count,
    revocation_of,
    to_user,
)
from tidings.stores.dynamodb.identity.sessions import DynamoRevocations
from tidings.stores.dynamodb.inbox.copies import ReadMarks
from tidings.stores.dynamodb.inbox.items import config_key, copy_key, settings_key
from tidings.stores.dynamodb.listings import user_listing
from tidings.stores.dynamodb.tables import invites_of, mentions_of, request_keys_of

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

    async def finish(self, erasure: LedgerEntry) -> None:
        """Do nothing, because `append` has recorded it.

        No copy is made in between: the tables are restored to a time that the operator chooses.
        """

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
    fields = msgspec.to_builtins(erasure)
    # This is an update, because no process has the right to put items into this table.
    await dynamo.update(
        patterns.RECORD_ERASURE,
        {"author": IN_LEDGER + _name(erasure)},
        "SET " + ", ".join(f"#{name} = :{name}" for name in fields),
        values={f":{name}": value for name, value in fields.items()},
    )


def known_item(erasure: LedgerEntry) -> Item:
    """Build the item in the table of tenants that says that the store knows an erasure."""
    return {"pk": KNOWN, "sk": _name(erasure), "at": erasure.at}


def to_erasure(item: Item) -> LedgerEntry:
    """Convert an item of the ledger to an erasure."""
    return LedgerEntry(item["kind"], item["subject"], item["at"], item.get("by", ""))


def _name(erasure: LedgerEntry) -> str:
    return f"{erasure.kind}#{erasure.subject}"


class DynamoPersonalData:
    """Finds and removes the items of a user in all tables."""

    def __init__(self, dynamo: Dynamo, revocations: DynamoRevocations) -> None:
        self._dynamo = dynamo
        self._revocations = revocations

    async def mark_deleted(self, user: UserKey, now: int) -> User:
        async for _ in self._dynamo.retrying.attempts():
            found = await self._dynamo.get(all_patterns.FIND_USER, key_of(user))
            if found is not None and "deleted_at" in found:
                return to_user(found)
            if (mark := await self._mark(user, found or {}, now)) is not None:
                return to_user(mark)
        raise StoreUnavailable

    async def _mark(self, user: UserKey, before: Item, now: int) -> Item | None:
        """Replace the user's item by one that only says that the user is deleted.

        Returns None if the user was changed since `before` was read.
        """
        ending = revocation_of(user, before, now)
        mark: Item = {
            **key_of(user),
            "created_at": before.get("created_at", now),
            "updated_at": now,
            "deactivated_at": now,
            "revoked_at": ending.at,
            "deleted_at": now,
        }
        writes: list[Write] = [Delete("listings", user_listing(user))]
        number = before.get("phone_number")
        if number is None:
            condition, values = "attribute_not_exists(#phone_number)", {}
        else:
            condition, values = "#phone_number = :number", {":number": number}
            claim = claim_key(tenant_of(user), number)
            is_own = "attribute_not_exists(#user_id) OR #owner = :user"
            writes.append(Delete("users", claim, is_own, {":user": user}))
        writes.append(Put("users", mark, f"{IS_NOT_DELETED} AND {condition}", values))
        if not await self._revocations.append_with([ending], writes):
            return None
        if before:
            await lower_count(self._dynamo, tenant_of(user))
        return mark

    async def sessions(self, user: UserKey, limit: int) -> list[str]:
        # The index may still name removed sessions. They must not be counted again, and must not
        # hide others: if it names only such sessions, more names are read.
        named_max = limit
        while True:
            items = await self._dynamo.query(
                LIST_SESSIONS, "#user_id = :user", {":user": user}, limit=named_max
            )
            keys = [{"session_id": item["session_id"]} for item in items]
            left = await self._dynamo.batch_get(patterns.CHECK_SESSIONS, keys)
            if left or len(items) < named_max:
                return [item["session_id"] for item in left[:limit]]
            named_max *= 2

    async def forget_sessions(self, session_ids: Sequence[str]) -> None:
        keys = [{"session_id": name} for name in session_ids]
        await self._dynamo.batch_write(patterns.FORGET_SESSIONS, deletes=keys)

    async def forget_code(self, tenant: str, phone_number: str) -> None:
        key = code_key(tenant, phone_number)
        await self._dynamo.batch_write(patterns.FORGET_SESSIONS, deletes=[key])

    async def invites(self, user: UserKey, limit: int) -> list[ChatId]:
        return [ChatId(chat) for chat in await self._claims(invites_of(user), limit)]

    async def forget_invites(self, user: UserKey, chats: Sequence[ChatId]) -> None:
        await self._forget_claims(invites_of(user), chats)

    async def mentions(self, user: UserKey, limit: int) -> list[str]:
        return await self._claims(mentions_of(user), limit)

    async def forget_mentions(self, user: UserKey, positions: Sequence[str]) -> None:
        await self._forget_claims(mentions_of(user), positions)

    async def requests(self, user: UserKey, limit: int) -> list[str]:
        return await self._claims(request_keys_of(user), limit)

    async def forget_requests(self, user: UserKey, keys: Sequence[str]) -> None:
        await self._forget_claims(request_keys_of(user), keys)

    async def forget_copies(
        self, user: UserKey, inbox: str, notification_ids: Sequence[str]
    ) -> None:
        keys = [copy_key(user, inbox, name) for name in notification_ids]
        await self._dynamo.batch_write(patterns.FORGET_COPIES, deletes=keys)

    async def forget_marks(self, user: UserKey, inbox: str) -> None:
        items = await ReadMarks(self._dynamo).mark_items(user, inbox)
        await self._dynamo.batch_write(patterns.FORGET_COPIES, deletes=map(_key, items))

    async def _claims(self, partition: str, limit: int) -> list[str]:
        items = await self._dynamo.query(
            patterns.LIST_PERSONAL_CLAIMS, "#chat_id = :user", {":user": partition}, limit=limit
        )
        return [item["claim"] for item in items]

    async def _forget_claims(self, partition: str, claims: Sequence[str]) -> None:
        keys = [{"chat_id": partition, "claim": claim} for claim in claims]
        await self._dynamo.batch_write(patterns.FORGET_PERSONAL_CLAIMS, deletes=keys)


_MARK: Final = (
    "SET #deleted_at = :now, #suspended_at = if_not_exists(#suspended_at, :now),"
    " #created_at = if_not_exists(#created_at, :now)"
)


class DynamoTenantData:
    """Removes the items of a tenant from all tables."""

    def __init__(self, dynamo: Dynamo, revocations: DynamoRevocations) -> None:
        self._dynamo = dynamo
        self._revocations = revocations

    async def mark_deleted(self, tenant: str, now: int) -> Tenant:
        mark = Update(
            "tenants", tenant_key(tenant), _MARK, "attribute_not_exists(#deleted_at)", {":now": now}
        )
        item = await self._find(tenant)
        if item is None or "deleted_at" not in item:
            ending = Revocation(kind="tenant", subject=tenant, at=now)
            # If the condition fails, another caller has stored the mark.
            await self._revocations.append_with([ending], [mark])
            item = await self._find(tenant)
        if item is None:
            raise StoreUnavailable
        return to_tenant(item)

    async def _find(self, tenant: str) -> Item | None:
        return await self._dynamo.get(all_patterns.FIND_TENANT, tenant_key(tenant))

    async def forget_inbox(self, tenant: str, inbox: str) -> None:
        await self._dynamo.batch_write(patterns.FORGET_INBOX, deletes=[config_key(tenant, inbox)])

    async def forget(self, tenant: str) -> None:
        await self._forget_keys(tenant)
        own = tenant_key(tenant)
        items = await self._dynamo.query(
            patterns.LIST_TENANT_ITEMS, "#pk = :pk", {":pk": partition(tenant)}
        )
        for item in items:
            if item["sk"] != own["sk"]:
                await self._dynamo.delete(patterns.FORGET_TENANT_ITEM, _key(item))
        await self._dynamo.batch_write(patterns.FORGET_INBOX, deletes=[settings_key(tenant)])
        found = await self._find(tenant)
        assert found is not None, "the mark of a deleted tenant stays"
        await self._dynamo.delete(patterns.UNLIST, listings.tenant_listing(to_tenant(found)))
        kept = {name: found[name] for name in ("created_at", "suspended_at", "deleted_at")}
        await self._dynamo.put(patterns.KEEP_MARK, {**own, **kept})

    async def _forget_keys(self, tenant: str) -> None:
        """Remove each tenant key and then its listing, through which a repeated step finds the
        key."""
        listed = await self._dynamo.query(
            patterns.LIST_TENANT_KEYS, "#pk = :pk", {":pk": listings.keys_of(tenant)}
        )
        for item in listed:
            key_id = item["sk"].partition("#")[2]
            await self._dynamo.delete(patterns.FORGET_TENANT_ITEM, api_key_key(key_id))
            await self._dynamo.delete(patterns.UNLIST, _key(item))


def _key(item: Item) -> Item:
    return {"pk": item["pk"], "sk": item["sk"]}


_conforms: tuple[type[Ledger], type[PersonalData], type[TenantData]] = (
    DynamoLedger,
    DynamoPersonalData,
    DynamoTenantData,
)

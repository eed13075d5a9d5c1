# SPDX-License-Identifier: Apache-2.0
"""The data of a user that the user's deletion removes, on DynamoDB."""

from collections.abc import Sequence

from tidings.model.ids import ChatId, UserKey, tenant_of
from tidings.model.refusals import StoreUnavailable
from tidings.ports.people import User
from tidings.ports.personal_data import PersonalData
from tidings.stores.dynamodb import patterns as all_patterns
from tidings.stores.dynamodb.client.dynamo import Dynamo
from tidings.stores.dynamodb.client.retrying import Item
from tidings.stores.dynamodb.client.writes import Delete, Put, Write
from tidings.stores.dynamodb.identity import job_patterns as patterns
from tidings.stores.dynamodb.identity.identity_patterns import LIST_SESSIONS
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
from tidings.stores.dynamodb.inbox.items import copy_key, marks_key
from tidings.stores.dynamodb.listings import user_listing
from tidings.stores.dynamodb.tables import invites_of, request_keys_of


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
        """Store the mark; return None if the user was changed since `before` was read."""
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
        items = await self._dynamo.query(
            LIST_SESSIONS, "#user_id = :user", {":user": user}, limit=limit
        )
        return [item["session_id"] for item in items]

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
        key = marks_key(user, inbox)
        await self._dynamo.batch_write(patterns.FORGET_COPIES, deletes=[key])

    async def _claims(self, partition: str, limit: int) -> list[str]:
        items = await self._dynamo.query(
            patterns.LIST_PERSONAL_CLAIMS, "#chat_id = :user", {":user": partition}, limit=limit
        )
        return [item["claim"] for item in items]

    async def _forget_claims(self, partition: str, claims: Sequence[str]) -> None:
        keys = [{"chat_id": partition, "claim": claim} for claim in claims]
        await self._dynamo.batch_write(patterns.FORGET_PERSONAL_CLAIMS, deletes=keys)


_conforms: type[PersonalData] = DynamoPersonalData

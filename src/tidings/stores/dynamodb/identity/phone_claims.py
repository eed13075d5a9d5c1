# SPDX-License-Identifier: Apache-2.0
"""Items of users, claims on phone numbers, and user counts.

A claim is a separate item, written in the same transaction as the profile. An index on the number
would not be enough, because reads from an index are eventually consistent: two simultaneous logins
with a new number would both find no owner and create two users.

User counts are estimates, because an exact count would have to scan the whole table. A process adds
new users to the stored count every few seconds. If it dies before that, the count is too low. If
the answer to an addition is lost, the addition may be counted twice.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from tidings.model.ids import UserKey, revoked_up_to, tenant_of
from tidings.model.refusals import PhoneTaken, StoreUnavailable
from tidings.ports.people import User
from tidings.ports.sessions import Revocation
from tidings.stores.dynamodb.client.dynamo import Dynamo
from tidings.stores.dynamodb.client.retrying import Canceled, Item, gather_bounded
from tidings.stores.dynamodb.client.writes import Delete, Put, Update, Write
from tidings.stores.dynamodb.identity.identity_patterns import (
    CLAIM_NUMBER,
    FIND_NUMBER,
    FIND_NUMBERS,
)
from tidings.stores.dynamodb.identity.sessions import DynamoRevocations
from tidings.stores.dynamodb.inbox.inbox_patterns import COUNT_USERS, SHOW_USER_COUNT
from tidings.stores.dynamodb.inbox.items import of_tenant
from tidings.stores.dynamodb.listings import user_listing
from tidings.tasks import Tasks

ADD_SECONDS: Final = 5.0

CLAIMS: Final = "p#"
IS_USER: Final = "attribute_exists(#created_at)"
"""Condition that the item is a user, not a claim."""
REVOKES: Final = "(attribute_not_exists(#revoked_at) OR #revoked_at < :revoked_at)"
"""Condition that `revoked_at` moves forward, so that revoked tokens never become valid again."""
IS_NOT_DELETED: Final = "attribute_not_exists(#deleted_at)"
_IS_FREE: Final = "attribute_not_exists(#user_id)"


class UserCounts:
    """Counts the users of each tenant."""

    def __init__(self, dynamo: Dynamo) -> None:
        self._dynamo = dynamo
        self._new: Counter[str] = Counter()
        self._closing = asyncio.Event()
        self._is_adding = False
        self._tasks = Tasks("user_counts")

    def made(self, tenant: str) -> None:
        """Count one more user of the tenant."""
        self._new[tenant] += 1
        if not self._is_adding:
            self._is_adding = True
            self._tasks.start(self._add_all())

    async def about(self, tenant: str) -> int:
        """Return about how many users a tenant has: the stored count, plus the new users that this
        process has not added to it yet."""
        item = await self._dynamo.get(SHOW_USER_COUNT, _key(tenant)) or {}
        return int(item.get("users", 0)) + self._new[tenant]

    async def _add_all(self) -> None:
        try:
            while self._new:
                with suppress(TimeoutError):
                    async with asyncio.timeout(ADD_SECONDS):
                        await self._closing.wait()
                tenants = list(self._new)
                await gather_bounded(partial(self._add, tenant) for tenant in tenants)
        finally:
            self._is_adding = False

    async def _add(self, tenant: str) -> None:
        count = self._new[tenant]
        try:
            await self._dynamo.update(
                COUNT_USERS, _key(tenant), "ADD #users :count", values={":count": count}
            )
        except StoreUnavailable:
            if not self._closing.is_set():
                return  # the next round adds it
        self._new[tenant] -= count
        if not self._new[tenant]:
            del self._new[tenant]

    async def close(self) -> None:
        """Add the remaining users to the counts; give up if the store does not answer."""
        self._closing.set()
        await self._tasks.finish()


async def lower_count(dynamo: Dynamo, tenant: str) -> None:
    """Lower the tenant's number of users by one; give up if the store does not answer."""
    with suppress(StoreUnavailable):
        await dynamo.update(COUNT_USERS, _key(tenant), "ADD #users :count", values={":count": -1})


def count_item(tenant: str, users: int) -> Item:
    """Build the item that stores a tenant's user count."""
    return {**_key(tenant), "users": users}


def _key(tenant: str) -> Item:
    return of_tenant(tenant, "uc")


def key_of(user: UserKey) -> Item:
    """Return the key of a user's item."""
    return {"user_id": user}


def user_item(user: UserKey, fields: Item, now: int) -> Item:
    """Build the item of a new user."""
    given = {name: value for name, value in fields.items() if value is not None}
    return {**key_of(user), **given, "created_at": now, "updated_at": now}


def to_user(item: Item) -> User:
    """Convert a stored item to a `User`."""
    return User(
        user=item["user_id"],
        display_name=item.get("display_name"),
        phone_number=item.get("phone_number"),
        created_at=item["created_at"],
        updated_at=item["updated_at"],
        last_seen_at=item.get("last_seen_at"),
        deactivated_at=item.get("deactivated_at"),
        revoked_at=item.get("revoked_at"),
        avatar_url=item.get("avatar_url"),
        metadata=item.get("metadata"),
        email=item.get("email"),
        phone_verified_at=item.get("phone_verified_at"),
        hidden_at=item.get("hidden_at"),
        deleted_at=item.get("deleted_at"),
        banned_until=item.get("banned_until"),
    )


def revocation_of(user: UserKey, found: Item, now: int) -> Revocation:
    """Build the revocation of all credentials that were issued to the user so far."""
    return Revocation(kind="user", subject=user, at=revoked_up_to(now, found.get("revoked_at")))


def claim_key(tenant: str, phone_number: str) -> Item:
    """Return the key of the item that claims a phone number."""
    return {"user_id": f"{CLAIMS}{tenant}#{phone_number}"}


def claim_item(tenant: str, phone_number: str, owner: UserKey) -> Item:
    """Build the item that claims a phone number for its owner."""
    return {**claim_key(tenant, phone_number), "owner": owner}


class PhoneClaims:
    """Stores claims on phone numbers; each claim assigns one number to one user."""

    def __init__(self, dynamo: Dynamo, revocations: DynamoRevocations) -> None:
        self._dynamo = dynamo
        self._revocations = revocations

    async def owner(self, tenant: str, number: str) -> UserKey | None:
        """Return the owner of a number, from a strong read."""
        item = await self._dynamo.get(FIND_NUMBER, claim_key(tenant, number))
        return item["owner"] if item else None

    async def owners(self, tenant: str, numbers: Sequence[str]) -> dict[str, UserKey]:
        """Return the owner of each number that has one, from a strong read."""
        keys = {claim_key(tenant, number)["user_id"]: number for number in numbers}
        found = await self._dynamo.batch_get(FIND_NUMBERS, [{"user_id": key} for key in keys])
        return {keys[item["user_id"]]: item["owner"] for item in found}

    async def claim(
        self, user: UserKey, before: Item | None, fields: Item, now: int
    ) -> Item | None:
        """Create or change a user with these fields, which include the phone number.

        `before` is the user's item as the caller read it, or None if the user does not exist yet.
        Returns the new item. Returns None if the user was changed concurrently; the caller must
        then read the user again. If the user had another number, that number is released and all of
        the user's credentials are revoked.

        Raises:
            PhoneTaken: The number belongs to another user; nothing was changed.
        """
        changes = {**fields, "updated_at": now}
        claim = Put("users", claim_item(tenant_of(user), fields["phone_number"], user), _IS_FREE)
        if before is not None and "phone_number" in before:
            return await self._move(user, before, claim, changes)
        made = user_item(user, fields, now)
        writes: list[Write] = [claim]
        if before is None:
            writes += [Put("users", made, _IS_FREE), Put("listings", user_listing(user))]
        else:
            writes.append(_first(user, changes))
        try:
            await self._dynamo.transact(CLAIM_NUMBER, writes)
        except Canceled as canceled:
            stored = canceled.reasons[0].item
            if canceled.reasons[0].is_condition and stored is not None and stored["owner"] != user:
                raise PhoneTaken from None
            return None
        return made if before is None else {**before, **changes}

    async def _move(self, user: UserKey, before: Item, claim: Put, changes: Item) -> Item | None:
        ending = revocation_of(user, before, changes["updated_at"])
        changed = {**changes, "phone_verified_at": None, "revoked_at": ending.at}
        writes = [claim, *_leaving(user, before["phone_number"], changed)]
        if await self._revocations.append_with([ending], writes):
            return {**before, **changed}
        if await self.owner(tenant_of(user), changes["phone_number"]) not in (None, user):
            raise PhoneTaken
        return None

    async def release(self, user: UserKey, before: Item, now: int) -> Item | None:
        """Release the phone number in `before`, and revoke all credentials of the user.

        Returns the user's new item, or None if the user was changed concurrently.
        """
        ending = revocation_of(user, before, now)
        changed = {
            "phone_number": None,
            "phone_verified_at": None,
            "updated_at": now,
            "revoked_at": ending.at,
        }
        writes = list(_leaving(user, before["phone_number"], changed))
        is_released = await self._revocations.append_with([ending], writes)
        return {**before, **changed} if is_released else None


def _first(user: UserKey, changes: Item) -> Update:
    """Build the profile change, with the condition that the user still has no phone number."""
    condition = (
        f"attribute_exists(#user_id) AND attribute_not_exists(#phone_number) AND {IS_NOT_DELETED}"
    )
    return Update("users", key_of(user), setting(changes), condition, values_of(changes))


def _leaving(user: UserKey, number: str, changed: Item) -> Iterator[Write]:
    """Build the writes that change the profile and release its number.

    They fail if the user has another number by now.
    """
    values = {**values_of(changed), ":number": number}
    condition = f"#phone_number = :number AND {REVOKES}"
    yield Update("users", key_of(user), setting(changed), condition, values)
    old = claim_key(tenant_of(user), number)
    yield Delete("users", old, f"{_IS_FREE} OR #owner = :user", {":user": user})


def setting(changes: Item) -> str:
    """Return the update that makes these changes; None removes an attribute."""
    kept = [f"#{name} = :{name}" for name, value in changes.items() if value is not None]
    removed = [f"#{name}" for name, value in changes.items() if value is None]
    update = f"SET {', '.join(kept)}"
    return f"{update} REMOVE {', '.join(removed)}" if removed else update


def values_of(changes: Item) -> Item:
    """Return the values for the update expression that `setting` builds from these changes."""
    return {f":{name}": value for name, value in changes.items() if value is not None}

# SPDX-License-Identifier: Apache-2.0
"""Users and their profiles, on DynamoDB.

Profiles come from eventually consistent reads, because a slightly outdated name does no harm. A
user is reported as missing only after a strong read. Whether a user is deleted, and what a ban has
changed, comes from a strong read, too.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Final
from weakref import WeakValueDictionary

from tidings.model import limits
from tidings.model.ids import UserKey, tenant_of, user_key
from tidings.model.refusals import PhoneTaken, StoreUnavailable, UserDeleted
from tidings.ports.people import NO_FIELDS, Listed, ProfileFields, User, UserStore
from tidings.ports.sessions import Revocation
from tidings.stores.dynamodb import listings, patterns
from tidings.stores.dynamodb.chat.items import chat_of_row
from tidings.stores.dynamodb.client.dynamo import Dynamo
from tidings.stores.dynamodb.client.retrying import (
    DEADLINE_SECONDS,
    ConditionFailed,
    Item,
    gather_bounded,
)
from tidings.stores.dynamodb.client.writes import Update
from tidings.stores.dynamodb.identity.identity_patterns import (
    ADD_LISTING,
    REACTIVATE_USER,
    VERIFY_NUMBER,
)
from tidings.stores.dynamodb.identity.phone_claims import (
    IS_NOT_DELETED,
    IS_USER,
    REVOKES,
    PhoneClaims,
    UserCounts,
    key_of,
    revocation_of,
    setting,
    to_user,
    user_item,
    values_of,
)
from tidings.stores.dynamodb.identity.sessions import DynamoRevocations
from tidings.tasks import Tasks

CHATS_AT_ONCE: Final = 32
"""Number of small chats whose members are read concurrently."""


class DynamoUsers:
    """Stores users and their profiles."""

    def __init__(self, dynamo: Dynamo, revocations: DynamoRevocations) -> None:
        self._dynamo = dynamo
        self._revocations = revocations
        self._claims = PhoneClaims(dynamo, revocations)
        self._number_turns: WeakValueDictionary[UserKey, asyncio.Lock] = WeakValueDictionary()
        self._seen: dict[UserKey, int] = {}
        self._is_keeping = False
        self._background = Tasks("last_seen")
        self._user_counts = UserCounts(dynamo)

    async def put(
        self,
        user: UserKey,
        *,
        display_name: str | None,
        phone_number: str | None,
        now: int,
        fields: ProfileFields = NO_FIELDS,
    ) -> tuple[User, bool]:
        given = {"display_name": display_name, "phone_number": phone_number}
        changes: Item = {name: value for name, value in given.items() if value is not None}
        changes |= fields.changes()
        if phone_number is None:
            return await self._put(user, await self._undeleted(user), changes, now)
        async with self._number_turn(user):
            async for _ in self._dynamo.retrying.attempts():
                found = await self._undeleted(user)
                if phone_number == (found or {}).get("phone_number"):
                    return await self._put(user, found, changes, now)
                changed = await self._claims.claim(user, found, changes, now)
                if changed is not None:
                    return self._result(changed, is_new=found is None)
        raise StoreUnavailable

    @asynccontextmanager
    async def _number_turn(self, user: UserKey) -> AsyncIterator[None]:
        """Wait until no other request of this process changes the user's phone number.

        Of several changes at once, the store carries out one and the others read the user again. If
        they did not take turns, the last ones would use up their attempts.
        """
        turn = self._number_turns.setdefault(user, asyncio.Lock())
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                await turn.acquire()
        except TimeoutError:
            raise StoreUnavailable from None
        try:
            yield
        finally:
            turn.release()

    async def _undeleted(self, user: UserKey) -> Item | None:
        found = await self._dynamo.get(patterns.FIND_USER, key_of(user))
        _refuse_deleted(found)
        return found

    async def _put(
        self, user: UserKey, found: Item | None, fields: Item, now: int
    ) -> tuple[User, bool]:
        """Create or update a user without changing the phone number."""
        if found is None:
            await self._dynamo.put(ADD_LISTING, listings.user_listing(user))
            made = user_item(user, fields, now)
            found = await self._create(made)
            if found is None:
                return self._result(made, is_new=True)
            _refuse_deleted(found)
        # The number is left out, because the user may have another number by now.
        changes = {
            name: value
            for name, value in fields.items()
            if name != "phone_number" and value != found.get(name)
        }
        if not changes:
            return to_user(found), False
        changes["updated_at"] = now
        try:
            changed = await self._dynamo.update(
                patterns.CHANGE_USER, key_of(user), setting(changes), IS_NOT_DELETED,
                values_of(changes),
            )  # fmt: skip
        except ConditionFailed:
            raise UserDeleted from None
        return to_user(changed), False

    def _result(self, item: Item, *, is_new: bool) -> tuple[User, bool]:
        if is_new:
            self._user_counts.made(tenant_of(item["user_id"]))
        return to_user(item), is_new

    async def _create(self, made: Item) -> Item | None:
        """Create the user and return None; if the user exists, return the stored item."""
        try:
            await self._dynamo.put(patterns.CREATE_USER, made, "attribute_not_exists(#user_id)")
        except ConditionFailed as failed:
            is_ours = failed.is_repeat and failed.item == made
            return None if is_ours else failed.item
        return None

    async def by_phone(self, tenant: str, numbers: Sequence[str]) -> Mapping[str, UserKey]:
        return await self._claims.owners(tenant, numbers)

    async def with_phone(self, user: UserKey, phone_number: str, now: int) -> tuple[User, bool]:
        fields = {"phone_number": phone_number, "phone_verified_at": now}
        async for _ in self._dynamo.retrying.attempts():
            owner = await self._claims.owner(tenant_of(user), phone_number)
            if owner is None:
                with suppress(PhoneTaken):
                    if made := await self._claims.claim(user, None, fields, now):
                        return self._result(made, is_new=True)
            else:
                found = await self._dynamo.get(patterns.FIND_USER, key_of(owner))
                if found is not None and found.get("phone_number") == phone_number:
                    return to_user(found), False
        raise StoreUnavailable

    async def verify_phone(self, user: UserKey, phone_number: str, now: int) -> None:
        with suppress(ConditionFailed):  # the user has another number by now
            await self._dynamo.update(
                VERIFY_NUMBER,
                key_of(user),
                "SET #phone_verified_at = :now",
                "#phone_number = :number",
                {":now": now, ":number": phone_number},
            )

    async def set_active(self, user: UserKey, is_active: bool, now: int) -> User | None:
        if is_active:
            return await self._reactivate(user, now)
        return await self._once("deactivated_at", False, user, partial(self._deactivate, now=now))

    async def _deactivate(self, user: UserKey, before: Item, now: int) -> Item | None:
        ending = revocation_of(user, before, now)
        change = Update(
            "users",
            key_of(user),
            "SET #deactivated_at = :now, #updated_at = :now, #revoked_at = :revoked_at",
            f"{IS_USER} AND attribute_not_exists(#deactivated_at) AND {REVOKES}",
            {":now": now, ":revoked_at": ending.at},
        )
        if not await self._revocations.append_with([ending], [change]):
            return None
        return {**before, "deactivated_at": now, "updated_at": now, "revoked_at": ending.at}

    async def ban(self, user: UserKey, until: int | None, now: int) -> User | None:
        values: Item = {":now": now} if until is None else {":now": now, ":until": until}
        change = "REMOVE #banned_until" if until is None else ", #banned_until = :until"
        update = Update(
            "users",
            key_of(user),
            f"SET #updated_at = :now {change}",
            f"{IS_USER} AND {IS_NOT_DELETED}",
            values,
        )
        told = Revocation(kind="ban", subject=user, at=until or 0)
        if not await self._revocations.append_with([told], [update]):
            return None
        item = await self._dynamo.get(patterns.FIND_USER, key_of(user))
        return to_user(item) if item else None

    async def release_phone(self, user: UserKey, now: int) -> User | None:
        return await self._once("phone_number", True, user, partial(self._claims.release, now=now))

    async def _once(
        self,
        field: str,
        is_there: bool,
        user: UserKey,
        change: Callable[[UserKey, Item], Awaitable[Item | None]],
    ) -> User | None:
        """Call `change` if the user has the field or, with `is_there=False`, does not have it.

        `change` returns None if the user was changed concurrently; then the user is read again, and
        everything is repeated. Returns the user, or None if the user does not exist.
        """
        async for _ in self._dynamo.retrying.attempts():
            found = await self._dynamo.get(patterns.FIND_USER, key_of(user))
            if found is None or (field in found) != is_there:
                return to_user(found) if found else None
            if changed := await change(user, found):
                return to_user(changed)
        raise StoreUnavailable

    async def _reactivate(self, user: UserKey, now: int) -> User | None:
        try:
            item = await self._dynamo.update(
                REACTIVATE_USER,
                key_of(user),
                "SET #updated_at = :now REMOVE #deactivated_at",
                f"{IS_USER} AND attribute_exists(#deactivated_at) AND {IS_NOT_DELETED}",
                {":now": now},
            )
        except ConditionFailed as failed:
            return to_user(failed.item) if failed.item else None
        return to_user(item)

    async def revoke_tokens(self, user: UserKey, now: int) -> bool:
        found = await self._dynamo.get(patterns.FIND_USER, key_of(user))
        if found is None:
            return False
        ending = revocation_of(user, found, now)
        change = Update(
            "users",
            key_of(user),
            "SET #revoked_at = :revoked_at",
            f"{IS_USER} AND {REVOKES}",
            {":revoked_at": ending.at},
        )
        # If the condition fails, another caller has already revoked these tokens, and the feed
        # contains that revocation.
        await self._revocations.append_with([ending], [change])
        return True

    async def get(self, user: UserKey) -> User | None:
        item = await self._dynamo.get(patterns.SHOW_USER, key_of(user)) or await self._dynamo.get(
            patterns.FIND_USER, key_of(user)
        )
        return to_user(item) if item else None

    async def get_all(self, users: Sequence[UserKey]) -> Mapping[UserKey, User]:
        found = {user: to_user(item) for user, item in (await self._found(users)).items()}
        return {user: one for user, one in found.items() if one.deleted_at is None}

    async def by_id(
        self, tenant: str, *, prefix: str, after: str | None, limit: int
    ) -> Listed[User]:
        partitions = listings.users_of(tenant)
        names, end = await listings.by_name(self._dynamo, partitions, prefix, after, limit)
        users = [user_key(tenant, name) for name in names]
        items = await self._found(users)
        shown = (items[user] for user in users if user in items)
        return Listed([to_user(item) for item in shown if "deleted_at" not in item], end)

    async def missing(self, users: Sequence[UserKey]) -> list[UserKey]:
        items = await self._dynamo.batch_get(patterns.FIND_USERS, map(key_of, dict.fromkeys(users)))
        for item in items:
            _refuse_deleted(item)
        found = {item["user_id"] for item in items}
        return [user for user in users if user not in found]

    async def _found(self, users: Sequence[UserKey]) -> dict[UserKey, Item]:
        """Return the users that exist; a strong read looks for users that the first read did not
        find."""
        found: dict[UserKey, Item] = {}
        for pattern in (patterns.SHOW_USERS, patterns.FIND_USERS):
            wanted = [user for user in dict.fromkeys(users) if user not in found]
            if not wanted:
                break
            items = await self._dynamo.batch_get(pattern, map(key_of, wanted))
            found |= {item["user_id"]: item for item in items}
        return found

    async def peers(self, user: UserKey) -> Sequence[UserKey]:
        rows = await self._dynamo.query(
            patterns.LIST_SHARED_CHATS, "#user_id = :user", {":user": user}
        )
        direct = [chat_of_row(row) for row in rows if "peer" in row]
        keys = [{"chat_id": row["chat_id"]} for row in rows if "peer" not in row]
        chats = direct + await self._dynamo.batch_get(patterns.SHOW_CHATS, keys)
        small = [chat for chat in chats if chat["member_count"] <= limits.SMALL_CHAT_MEMBERS_MAX]
        small.sort(key=lambda chat: str(chat["chat_id"]))  # the oldest first
        return await self._members_of(small, user)

    async def visible_peers(self, user: UserKey) -> Mapping[UserKey, int | None]:
        peers = await self.peers(user)
        items = await self._dynamo.batch_get(patterns.SHOW_USERS, map(key_of, [user, *peers]))
        found = {item["user_id"]: item for item in items}
        hidden = {name for name, item in found.items() if "hidden_at" in item}
        if user in hidden:
            return {}
        shown = [peer for peer in peers if peer not in hidden]
        return {peer: found.get(peer, {}).get("last_seen_at") for peer in shown}

    async def _members_of(self, chats: list[Item], user: UserKey) -> list[UserKey]:
        """Return the other members of these chats, up to the maximum number of peers."""
        peers: dict[UserKey, None] = {}
        for start in range(0, len(chats), CHATS_AT_ONCE):
            some = chats[start : start + CHATS_AT_ONCE]
            for members in await gather_bounded(partial(self._members, chat) for chat in some):
                peers.update(dict.fromkeys(member for member in members if member != user))
            if len(peers) >= limits.PRESENCE_PEERS_MAX:
                break
        return list(peers)[: limits.PRESENCE_PEERS_MAX]

    async def _members(self, chat: Item) -> list[UserKey]:
        """Return the members of a small chat; often the chat's item already names all of them."""
        if chat["type"] == "direct" or len(chat["first_members"]) == chat["member_count"]:
            named: list[UserKey] = chat["first_members"]
            return named
        rows = await self._dynamo.query(
            patterns.LIST_PEERS, "#chat_id = :chat", {":chat": chat["chat_id"]}
        )
        return [row["user_id"] for row in rows]

    async def about_how_many(self, tenant: str) -> int:
        return await self._user_counts.about(tenant)

    def seen(self, users: Mapping[UserKey, int]) -> None:
        for user, time in users.items():
            self._seen[user] = max(time, self._seen.get(user, 0))
        if self._seen and not self._is_keeping:
            self._is_keeping = True
            self._background.start(self._keep_seen())

    async def _keep_seen(self) -> None:
        try:
            while self._seen:
                some, self._seen = self._seen, {}
                await gather_bounded(partial(self._keep, user, time) for user, time in some.items())
        finally:
            self._is_keeping = False

    async def _keep(self, user: UserKey, time: int) -> None:
        try:
            await self._dynamo.update(
                patterns.KEEP_LAST_SEEN,
                key_of(user),
                "SET #last_seen_at = :time",
                f"attribute_exists(#user_id) AND {IS_NOT_DELETED}"
                " AND (attribute_not_exists(#last_seen_at) OR #last_seen_at < :time)",
                {":time": time},
            )
        except (ConditionFailed, StoreUnavailable):
            return  # a later time is stored, the user does not exist, or the store is overloaded

    async def close(self) -> None:
        """Write pending last-seen times and user counts; give up those that the store refuses."""
        await self._background.finish()
        await self._user_counts.close()


def _refuse_deleted(item: Item | None) -> None:
    if item is not None and "deleted_at" in item:
        raise UserDeleted


_conforms: type[UserStore] = DynamoUsers

# SPDX-License-Identifier: Apache-2.0
"""Users and their profiles, on DynamoDB.

A profile is shown as an eventual read has it: a name that is a moment old harms nobody. That a
user does not exist is only said after a strong read.
"""

from collections.abc import Mapping, Sequence
from functools import partial

from tidings.model import limits
from tidings.model.ids import UserKey, tenant_of
from tidings.model.refusals import StoreUnavailable
from tidings.ports.people import User, Users
from tidings.stores.dynamodb import patterns
from tidings.stores.dynamodb.client import Dynamo
from tidings.stores.dynamodb.side_by_side import together
from tidings.stores.dynamodb.trouble import ConditionFailed, Item
from tidings.stores.dynamodb.user_counts import UserCounts
from tidings.tasks import Tasks


class DynamoUsers:
    """Users and their profiles."""

    def __init__(self, dynamo: Dynamo) -> None:
        self._dynamo = dynamo
        self._seen: dict[UserKey, int] = {}
        self._is_keeping = False
        self._background = Tasks("last_seen")
        self._counts = UserCounts(dynamo)

    async def put(
        self, user: UserKey, *, display_name: str | None, phone_number: str | None, now: int
    ) -> tuple[User, bool]:
        given = {"display_name": display_name, "phone_number": phone_number}
        said = {name: value for name, value in given.items() if value is not None}
        found = await self._dynamo.get(patterns.FIND_USER, _key(user))
        if found is None:
            made: Item = {**_key(user), **said, "created_at": now, "updated_at": now}
            found = await self._create(made)
            if found is None:
                self._counts.made(tenant_of(user))
                return _to_user(made), True
        if not said:
            return _to_user(found), False
        changes = {**said, "updated_at": now}
        changed = await self._dynamo.update(
            patterns.CHANGE_USER,
            _key(user),
            "SET " + ", ".join(f"#{name} = :{name}" for name in changes),
            values={f":{name}": value for name, value in changes.items()},
        )
        return _to_user(changed), False

    async def _create(self, made: Item) -> Item | None:
        """Make the user; returns the one that was there already, if one was."""
        try:
            await self._dynamo.put(patterns.CREATE_USER, made, "attribute_not_exists(#user_id)")
        except ConditionFailed as failed:
            is_ours = failed.is_repeat and failed.item == made
            return None if is_ours else failed.item
        return None

    async def get(self, user: UserKey) -> User | None:
        item = await self._dynamo.get(patterns.SHOW_USER, _key(user)) or await self._dynamo.get(
            patterns.FIND_USER, _key(user)
        )
        return _to_user(item) if item else None

    async def missing(self, users: Sequence[UserKey]) -> list[UserKey]:
        wanted = list(users)
        for pattern in (patterns.SHOW_USERS, patterns.FIND_USERS):
            found = await self._dynamo.batch_get(pattern, map(_key, dict.fromkeys(wanted)))
            present = {item["user_id"] for item in found}
            wanted = [user for user in wanted if user not in present]
            if not wanted:
                break
        return wanted

    async def peers(self, user: UserKey) -> Mapping[UserKey, int | None]:
        rows = await self._dynamo.query(
            patterns.LIST_SHARED_CHATS, "#user_id = :user", {":user": user}
        )
        chats = await self._dynamo.batch_get(
            patterns.SHOW_CHATS, [{"chat_id": row["chat_id"]} for row in rows]
        )
        small = [one for one in chats if one["member_count"] <= limits.SMALL_CHAT_MEMBERS_MAX]
        members = await together(partial(self._members, chat) for chat in small)
        peers = dict.fromkeys(one for some in members for one in some if one != user)
        found = await self._dynamo.batch_get(patterns.SHOW_USERS, map(_key, peers))
        seen = {item["user_id"]: item.get("last_seen_at") for item in found}
        return {peer: seen.get(peer) for peer in peers}

    async def _members(self, chat: Item) -> list[UserKey]:
        """Of a small chat its own item often names everybody."""
        if len(chat["first_members"]) == chat["member_count"]:
            named: list[UserKey] = chat["first_members"]
            return named
        rows = await self._dynamo.query(
            patterns.LIST_PEERS, "#chat_id = :chat", {":chat": chat["chat_id"]}
        )
        return [row["user_id"] for row in rows]

    async def about_how_many(self, tenant: str) -> int:
        return await self._counts.about(tenant)

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
                await together(partial(self._keep, user, time) for user, time in some.items())
        finally:
            self._is_keeping = False

    async def _keep(self, user: UserKey, time: int) -> None:
        try:
            await self._dynamo.update(
                patterns.KEEP_LAST_SEEN,
                _key(user),
                "SET #last_seen_at = :time",
                "attribute_exists(#user_id)"
                " AND (attribute_not_exists(#last_seen_at) OR #last_seen_at < :time)",
                {":time": time},
            )
        except (ConditionFailed, StoreUnavailable):
            return  # seen later than that, no such user, or the store has other worries

    async def close(self) -> None:
        """Wait until what was seen and who was made is kept, or given up."""
        await self._background.finish()
        await self._counts.close()


def _key(user: UserKey) -> Item:
    return {"user_id": user}


def _to_user(item: Item) -> User:
    return User(
        user=item["user_id"],
        display_name=item.get("display_name"),
        phone_number=item.get("phone_number"),
        created_at=item["created_at"],
        updated_at=item["updated_at"],
        last_seen_at=item.get("last_seen_at"),
    )


_conforms: type[Users] = DynamoUsers

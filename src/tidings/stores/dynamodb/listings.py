# SPDX-License-Identifier: Apache-2.0
"""Lists of tenants, tenant keys, users, chats and push devices: a small item for each, in order.

The other tables do not have this order, and a server must not scan them. A list item is written
before the object that it lists, or in the same transaction, so that no list lacks an object. If the
object was never created, readers skip its list item.
"""

from collections.abc import Sequence
from functools import partial
from typing import Final
from zlib import crc32

from tidings.model.ids import ChatId, UserKey, tenant_of, user_id
from tidings.ports.people import Tenant, TenantKey, creation_position
from tidings.stores.dynamodb.client.dynamo import Dynamo
from tidings.stores.dynamodb.client.retrying import Item, gather_bounded
from tidings.stores.dynamodb.identity.identity_patterns import READ_LISTING

SHARDS: Final = 4
"""Partitions of a list that may grow by thousands of items a second."""
TENANTS: Final = "tenants"
_FIRST: Final = " "
_LAST: Final = "~"
"""Characters that sort before (`_FIRST`) and after (`_LAST`) every character of a name."""


def tenant_listing(tenant: Tenant) -> Item:
    """Build the item that lists a tenant."""
    return {"pk": TENANTS, "sk": creation_position(tenant.created_at, tenant.tenant)}


def key_listing(key: TenantKey) -> Item:
    """Build the item that lists a tenant key."""
    return {"pk": keys_of(key.tenant), "sk": creation_position(key.created_at, key.key_id)}


def user_listing(user: UserKey) -> Item:
    """Build the item that lists a user."""
    return {"pk": _shard(_users_of(tenant_of(user)), user_id(user)), "sk": user_id(user)}


def chat_listing(tenant: str, chat: ChatId) -> Item:
    """Build the item that lists a chat; it has no attributes except its key."""
    return {"pk": _shard(_chats_of(tenant), chat), "sk": chat}


def push_listing(user: UserKey, device: str) -> Item:
    """Build the item that lists a device that is registered for push."""
    name = user_id(user)
    return {"pk": _shard(_push_of(tenant_of(user)), name), "sk": f"{name}#{device}"}


def keys_of(tenant: str) -> str:
    """Return the partition that lists a tenant's tenant keys."""
    return f"{tenant}#keys"


def users_of(tenant: str) -> list[str]:
    """Return the partitions that list a tenant's users."""
    return _shards(_users_of(tenant))


def chats_of(tenant: str) -> list[str]:
    """Return the partitions that list a tenant's chats."""
    return _shards(_chats_of(tenant))


def push_of(tenant: str) -> list[str]:
    """Return the partitions that list the devices of a tenant's users for push."""
    return _shards(_push_of(tenant))


async def newest(
    dynamo: Dynamo, partitions: Sequence[str], below: str | None, limit: int
) -> tuple[list[str], str | None]:
    """Return names, newest first, and the position of the last name; None if no name follows."""

    async def read(partition: str) -> list[Item]:
        return await dynamo.query(
            READ_LISTING,
            "#pk = :pk AND #sk < :below",
            {":pk": partition, ":below": below or _LAST},
            limit=limit + 1,
            backwards=True,
        )

    shards = await gather_bounded(partial(read, partition) for partition in partitions)
    found = sorted((item["sk"] for items in shards for item in items), reverse=True)
    page, end = _page(found, limit)
    return [position.rpartition("#")[2] for position in page], end


async def by_name(
    dynamo: Dynamo, partitions: Sequence[str], prefix: str, after: str | None, limit: int
) -> tuple[list[str], str | None]:
    """Return names that begin with the prefix, in order, and the last of them again if more names
    follow; otherwise None."""
    first = (prefix or _FIRST) if after is None else after + _FIRST

    async def read(partition: str) -> list[Item]:
        return await dynamo.query(
            READ_LISTING,
            "#pk = :pk AND #sk BETWEEN :first AND :last",
            {":pk": partition, ":first": first, ":last": prefix + _LAST},
            limit=limit + 1,
        )

    shards = await gather_bounded(partial(read, partition) for partition in partitions)
    return _page(sorted(item["sk"] for items in shards for item in items), limit)


def _page(found: list[str], limit: int) -> tuple[list[str], str | None]:
    page = found[:limit]
    return page, page[-1] if len(found) > limit else None


def _users_of(tenant: str) -> str:
    return f"{tenant}#users"


def _chats_of(tenant: str) -> str:
    return f"{tenant}#chats"


def _push_of(tenant: str) -> str:
    return f"{tenant}#push"


def _shard(listing: str, name: str) -> str:
    return f"{listing}#{crc32(name.encode()) % SHARDS}"


def _shards(listing: str) -> list[str]:
    return [f"{listing}#{shard}" for shard in range(SHARDS)]

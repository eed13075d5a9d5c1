# SPDX-License-Identifier: Apache-2.0
"""Blocks between users on DynamoDB.

Each block has two items in the table of tenants, one in the partition of each user. One query
therefore returns the blocks of a user in both directions.
"""

from collections.abc import Sequence
from typing import Any, Final

from tidings.model.blocks import READ_MAX, Block, BlockList
from tidings.model.ids import ChatId, UserKey
from tidings.ports.moderation import Blocks
from tidings.ports.sessions import Revocation
from tidings.stores.dynamodb.client.dynamo import Dynamo
from tidings.stores.dynamodb.client.retrying import Item
from tidings.stores.dynamodb.client.writes import Delete, Put, Update, Write
from tidings.stores.dynamodb.identity.identity_patterns import FIND_BLOCKERS, READ_BLOCKS
from tidings.stores.dynamodb.identity.sessions import DynamoRevocations

PARTITION: Final = "blocks#"
# In this order: a query returns those whom the user blocks first.
_BLOCKED: Final = "blocked#"
_BY: Final = "by#"


class DynamoBlocks:
    """Stores two items for each block."""

    def __init__(self, dynamo: Dynamo, revocations: DynamoRevocations) -> None:
        self._dynamo = dynamo
        self._revocations = revocations

    async def put(self, block: Block) -> bool:
        is_new = "attribute_not_exists(#pk)"
        changes = [Put("tenants", item, is_new) for item in block_items(block)]
        return await self._append(block.user, block.blocked, block.created_at, changes)

    async def note_chat(self, user: UserKey, blocked: UserKey, chat: ChatId, now: int) -> None:
        update = "SET #chat_id = :chat, #delivered = :zero, #read = :zero"
        values: dict[str, Any] = {":chat": chat, ":zero": 0}
        exists = "attribute_exists(#pk)"
        changes = [Update("tenants", key, update, exists, values) for key in _keys(user, blocked)]
        await self._append(user, blocked, now, changes)

    async def remove(self, user: UserKey, blocked: UserKey, now: int) -> None:
        exists = "attribute_exists(#pk)"
        changes = [Delete("tenants", key, exists) for key in _keys(user, blocked)]
        await self._append(user, blocked, now, changes)

    async def of(self, user: UserKey, most: int = READ_MAX) -> BlockList:
        pk = {":pk": PARTITION + user}
        items = await self._dynamo.query(READ_BLOCKS, "#pk = :pk", pk, limit=most)
        found = [to_block(item) for item in items]
        return BlockList(
            {block.blocked: block for block in found if block.user == user},
            {block.user: block for block in found if block.blocked == user},
            has_more=len(found) == most,
        )

    async def blockers(self, user: UserKey, others: Sequence[UserKey]) -> dict[UserKey, Block]:
        keys = [{"pk": PARTITION + user, "sk": _BY + other} for other in dict.fromkeys(others)]
        items = await self._dynamo.batch_get(FIND_BLOCKERS, keys)
        return {block.user: block for block in map(to_block, items)}

    async def _append(
        self, user: UserKey, blocked: UserKey, now: int, changes: Sequence[Write]
    ) -> bool:
        told = [Revocation(kind="block", subject=one, at=now) for one in (user, blocked)]
        return await self._revocations.append_with(told, changes)


def _keys(user: UserKey, blocked: UserKey) -> tuple[Item, Item]:
    return (
        {"pk": PARTITION + user, "sk": _BLOCKED + blocked},
        {"pk": PARTITION + blocked, "sk": _BY + user},
    )


def block_items(block: Block) -> list[Item]:
    """Return the two items of a block."""
    facts = {name: getattr(block, name) for name in Block.__struct_fields__[2:]}
    values = {name: value for name, value in facts.items() if value is not None}
    return [{**key, **values} for key in _keys(block.user, block.blocked)]


def is_block(item: Item) -> bool:
    """Return True if an item belongs to a block, and is in the partition of the blocker."""
    pk, sk = str(item["pk"]), str(item["sk"])
    return pk.startswith(PARTITION) and sk.startswith(_BLOCKED)


def to_block(item: Item) -> Block:
    """Convert a stored item to a block."""
    owner, (kind, _, other) = UserKey(item["pk"].removeprefix(PARTITION)), item["sk"].partition("#")
    is_own = f"{kind}#" == _BLOCKED
    facts = {name: item[name] for name in Block.__struct_fields__[2:] if name in item}
    user, blocked = (owner, other) if is_own else (other, owner)
    return Block(user=user, blocked=blocked, **facts)


_conforms: type[Blocks] = DynamoBlocks

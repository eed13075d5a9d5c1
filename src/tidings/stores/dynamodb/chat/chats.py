# SPDX-License-Identifier: Apache-2.0
"""Chats and memberships on DynamoDB."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from tidings.model.chats import (
    Chat,
    ChatHead,
    ChatRow,
    TenantChat,
)
from tidings.model.entries import Entry, Head
from tidings.model.ids import ChatId, UserKey
from tidings.model.roles import Member
from tidings.ports.chats import Chats, Created, RequestKey
from tidings.ports.people import Listed
from tidings.stores.dynamodb import listings
from tidings.stores.dynamodb.chat.chat_list import DynamoChatList
from tidings.stores.dynamodb.chat.creating import ChatMaker
from tidings.stores.dynamodb.chat.items import member_key, pair_of, receipt_key
from tidings.stores.dynamodb.chat.pages import (
    members_of,
)
from tidings.stores.dynamodb.client.dynamo import Dynamo
from tidings.stores.dynamodb.client.retrying import ConditionFailed, Item, gather_bounded
from tidings.stores.dynamodb.patterns import (
    FIND_OWN,
    FIND_PAIR,
    LIST_USER_CHATS,
    MAKE_OWN,
    MUTE,
    SHOW_LISTED_CHATS,
    SHOW_PAIRS,
    SHOW_RECEIPTS,
)

_ABOVE_ALL: Final = "~"
"""Sorts after every chat id."""
_MUTE: Final = "SET #muted_until = :until, #except_mentions = :except"
_UNMUTE: Final = "REMOVE #muted_until, #except_mentions"

FIRST_ENTRIES: Final = 200
"""Number of entries that `_is_own` reads from an old direct chat; they cost about ten read
units."""
_WRITING: Final = {":created": "created", ":message": "message"}


def _tenant_chat(item: Item) -> TenantChat:
    fields: Item = {field: item.get(field) for field in TenantChat.__struct_fields__}
    return TenantChat(**fields)


class DynamoChats:
    """Stores chats and memberships."""

    def __init__(self, dynamo: Dynamo, maker: ChatMaker, listed: DynamoChatList) -> None:
        self._dynamo = dynamo
        self._maker = maker
        self._list = listed

    async def create(
        self, chat: Chat, entries: list[Entry], request: RequestKey | None, now: int
    ) -> Created:
        return await self._maker.create(chat, entries, request, now)

    async def find(
        self, chat: Chat, entries: list[Entry], request: RequestKey | None, now: int
    ) -> Created | None:
        return await self._maker.find(chat, entries, request, now)

    async def listing(
        self, user: UserKey, *, below: tuple[int, ChatId] | None, limit: int, now: int
    ) -> list[ChatRow]:
        return await self._list.page(user, below, limit, now)

    async def row(self, user: UserKey, chat: ChatId, now: int) -> ChatRow | None:
        return await self._list.row(user, chat, now)

    async def members(self, chat: ChatId, reader: UserKey) -> dict[UserKey, Member] | None:
        # The query also returns the reader's own row, so no second read is needed.
        members = await members_of(self._dynamo, chat)
        return members if reader in members else None

    async def mute(
        self, chat: ChatId, user: UserKey, until: int | None, *, except_mentions: bool = False
    ) -> bool:
        mute = {":until": until, ":except": except_mentions}
        update, values = (_UNMUTE, None) if until is None else (_MUTE, mute)
        try:
            await self._dynamo.update(
                MUTE, member_key(chat, user), update, "attribute_exists(#chat_id)", values
            )
        except ConditionFailed:
            return False
        return True

    async def list_heads(self, user: UserKey, *, from_log: bool = False) -> list[ChatHead]:
        return await self._list.list_heads(user, from_log=from_log)

    def saw(self, chat: ChatId, head: Head) -> None:
        self._list.saw(chat, head)

    async def look(self, chat: ChatId, sequence: int) -> None:
        await self._list.look(chat, sequence)

    async def ids(self, user: UserKey) -> list[ChatId]:
        return await self._list.ids(user)

    async def of_tenant(self, tenant: str, *, below: str | None, limit: int) -> Listed[TenantChat]:
        partitions = listings.chats_of(tenant)
        names, end = await listings.newest(self._dynamo, partitions, below, limit)
        return Listed(await self._listed(names), end)

    async def of_user(self, user: UserKey, *, below: str | None, limit: int) -> Listed[TenantChat]:
        rows = await self._dynamo.query(
            LIST_USER_CHATS,
            "#user_id = :user AND #chat_id < :below",
            {":user": user, ":below": below or _ABOVE_ALL},
            limit=limit + 1,
            backwards=True,
        )
        names = [row["chat_id"] for row in rows[:limit]]
        return Listed(await self._listed(names), names[-1] if len(rows) > limit else None)

    async def _listed(self, names: Sequence[str]) -> list[TenantChat]:
        """Return the chats with these ids that exist and are not deleted, in the given order."""
        keys = [{"chat_id": name} for name in names]
        items = await self._dynamo.batch_get(SHOW_LISTED_CHATS, keys)
        found = {item["chat_id"]: item for item in items if "deleted_at" not in item}
        return [_tenant_chat(found[name]) for name in names if name in found]

    async def direct(self, user: UserKey, other: UserKey) -> ChatId | None:
        found = await self._dynamo.get(FIND_PAIR, {"chat_id": pair_of(user, other)})
        return ChatId(found["made"]) if found is not None else None

    async def acquainted(self, user: UserKey, others: Sequence[UserKey]) -> set[UserKey]:
        pairs = {pair_of(user, other): other for other in others}
        found = await self._dynamo.batch_get(SHOW_PAIRS, [{"chat_id": pair} for pair in pairs])
        keys = [receipt_key(pairs[item["chat_id"]], item["made"]) for item in found]
        rows = await self._dynamo.batch_get(SHOW_RECEIPTS, keys)
        owns = await gather_bounded(partial(self._is_own, row) for row in rows)
        return {row["user_id"] for row, is_own in zip(rows, owns, strict=True) if is_own}

    async def _is_own(self, receipt: Item) -> bool:
        """Return True if the receipt's user created the direct chat or wrote in it.

        A receipt from an older version does not say this. For such a receipt, the first entries of
        the chat are searched once, and the result is stored.
        """
        if "own" in receipt:
            return bool(receipt["own"])
        user, chat = receipt["user_id"], receipt["chat_id"]
        wrote = await self._dynamo.count(
            FIND_OWN,
            "#chat_id = :chat AND #sequence BETWEEN :first AND :last",
            {":chat": chat, ":first": 1, ":last": FIRST_ENTRIES, ":user": user, **_WRITING},
            only="#sender = :user AND (#kind = :created OR #kind = :message)",
        )
        with suppress(ConditionFailed):  # already stored, or the user has just written
            await self._dynamo.update(
                MAKE_OWN,
                receipt_key(user, chat),
                "SET #own = :own",
                "attribute_exists(#user_id) AND attribute_not_exists(#own)",
                {":own": wrote > 0},
            )
        return wrote > 0

    async def heads(self, chats: Sequence[ChatId]) -> Mapping[ChatId, int]:
        return await self._list.heads(chats)


_conforms: type[Chats] = DynamoChats

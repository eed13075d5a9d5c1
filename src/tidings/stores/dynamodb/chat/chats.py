# SPDX-License-Identifier: Apache-2.0
"""The chats port on DynamoDB: creation, the chat list, members, mutes and acquaintances."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from tidings.model.chats import Chat, ChatRow, HeldChat
from tidings.model.entries import Entry
from tidings.model.ids import ChatId, UserKey
from tidings.model.roles import Member
from tidings.ports.chats import Chats, Created, RequestKey
from tidings.stores.dynamodb.chat.chat_list import DynamoChatList
from tidings.stores.dynamodb.chat.creating import ChatMaker
from tidings.stores.dynamodb.chat.entries import members_of
from tidings.stores.dynamodb.chat.items import member_key, pair_of, receipt_key
from tidings.stores.dynamodb.client.dynamo import Dynamo
from tidings.stores.dynamodb.client.errors import ConditionFailed, Item
from tidings.stores.dynamodb.client.retrying import gather_bounded
from tidings.stores.dynamodb.patterns import (
    FIND_OWN,
    MAKE_OWN,
    MUTE,
    SHOW_PAIRS,
    SHOW_RECEIPTS,
)

_MUTE: Final = "SET #muted_until = :until"
_UNMUTE: Final = "REMOVE #muted_until"

FIRST_ENTRIES: Final = 200
"""Entries of an old direct chat that are searched for an answer: about ten read units at most."""
_WRITING: Final = {":created": "created", ":message": "message"}


class DynamoChats:
    """Chats and memberships."""

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
        # One query of at most a thousand rows includes the reader's own: no second read is needed.
        members = await members_of(self._dynamo, chat)
        return members if reader in members else None

    async def mute(self, chat: ChatId, user: UserKey, until: int | None) -> bool:
        update, values = (_UNMUTE, None) if until is None else (_MUTE, {":until": until})
        try:
            await self._dynamo.update(
                MUTE, member_key(chat, user), update, "attribute_exists(#chat_id)", values
            )
        except ConditionFailed:
            return False
        return True

    async def held(self, user: UserKey) -> list[HeldChat]:
        return await self._list.held(user)

    async def ids(self, user: UserKey) -> list[ChatId]:
        return await self._list.ids(user)

    async def acquainted(self, user: UserKey, others: Sequence[UserKey]) -> set[UserKey]:
        pairs = {pair_of(user, other): other for other in others}
        found = await self._dynamo.batch_get(SHOW_PAIRS, [{"chat_id": pair} for pair in pairs])
        keys = [receipt_key(pairs[item["chat_id"]], item["made"]) for item in found]
        rows = await self._dynamo.batch_get(SHOW_RECEIPTS, keys)
        owns = await gather_bounded(partial(self._is_own, row) for row in rows)
        return {row["user_id"] for row, is_own in zip(rows, owns, strict=True) if is_own}

    async def _is_own(self, receipt: Item) -> bool:
        """Return whether a direct chat is the user's own: created by the user, or written in.

        Receipts from before own chats were counted separately do not say; then the first entries
        are searched, once, and the result is stored.
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

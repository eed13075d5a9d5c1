# SPDX-License-Identifier: Apache-2.0
"""Chats and the chat list on DynamoDB.

The chat list is not stored, but built each time it is read. A user's receipt rows name the chats,
and the head copies give their order. Everything else is read only for the chats on the requested
page.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from tidings.model import limits
from tidings.model.chats import (
    Chat,
    ChatHead,
    ChatRow,
    Receipt,
    TenantChat,
    UnreadFound,
    unread_of_page,
)
from tidings.model.entries import Entry, Head
from tidings.model.ids import ChatId, UserKey
from tidings.model.roles import Member
from tidings.ports.chats import Chats, Created, RequestKey
from tidings.ports.people import Listed
from tidings.stores.dynamodb import listings
from tidings.stores.dynamodb.chat.creating import ChatMaker
from tidings.stores.dynamodb.chat.heads import HeadCopy, Heads, MemberCount
from tidings.stores.dynamodb.chat.items import member_key, pair_of, receipt_key, to_receipt
from tidings.stores.dynamodb.chat.pages import (
    head_of_chat,
    last_messages,
    members_of,
    membership_row,
)
from tidings.stores.dynamodb.chat.receipts import count_unread, unread_of
from tidings.stores.dynamodb.client.dynamo import Dynamo
from tidings.stores.dynamodb.client.retrying import ConditionFailed, Item, gather_bounded
from tidings.stores.dynamodb.patterns import (
    FIND_OWN,
    LIST_CHATS,
    LIST_ROLES,
    LIST_USER_CHATS,
    MAKE_OWN,
    MUTE,
    READ_CHAT,
    READ_RECEIPT,
    READ_ROLES,
    SHOW_CHATS,
    SHOW_LISTED_CHATS,
    SHOW_PAIRS,
    SHOW_RECEIPTS,
)

_ABOVE_ALL: Final = "~"
"""Sorts after every chat id."""
_MUTE: Final = "SET #muted_until = :until"
_UNMUTE: Final = "REMOVE #muted_until"

FIRST_ENTRIES: Final = 200
"""Number of entries that `_is_own` reads from an old direct chat; they cost about ten read
units."""
_WRITING: Final = {":created": "created", ":message": "message"}


class DynamoChatList:
    """A user's chats, as that user sees them."""

    def __init__(self, dynamo: Dynamo, heads: Heads) -> None:
        self._dynamo = dynamo
        self._heads = heads

    async def list_heads(self, user: UserKey) -> list[ChatHead]:
        """Return the heads of all chats of the user, latest activity first, from strong reads."""
        receipts = await self._receipts(user)
        copies = await self._copies(list(receipts), strong=True)
        counts = await gather_bounded(
            partial(self._member_count, chat, copy) for chat, copy in copies.items()
        )
        chats = [
            ChatHead(chat, copy.head, receipts[chat], count.members)
            for (chat, copy), count in zip(copies.items(), counts, strict=True)
        ]
        chats.sort(key=lambda chat: (chat.head.active_at, chat.chat_id), reverse=True)
        return chats

    async def ids(self, user: UserKey) -> list[ChatId]:
        """Return the ids of all chats of the user from a strong read."""
        return list(await self._receipts(user))

    async def heads(self, chats: Sequence[ChatId]) -> dict[ChatId, int]:
        """Return the head sequences of these chats from a strong read."""
        copies = await self._copies(chats, strong=True)
        return {chat: copy.head.sequence for chat, copy in copies.items() if copy.head.sequence}

    async def page(
        self, user: UserKey, below: tuple[int, ChatId] | None, limit: int, now: int
    ) -> list[ChatRow]:
        """Return a page of the list.

        `below` is the (active_at, chat_id) of the last row on the previous page, or None for the
        first page.
        """
        receipts = await self._receipts(user)
        copies = await self._copies(list(receipts), strong=False)
        order = sorted(((copy.head.active_at, chat) for chat, copy in copies.items()), reverse=True)
        chats = [chat for at, chat in order if below is None or (at, chat) < below][:limit]
        if not chats:
            return []
        rows = await self._rows({chat: (copies[chat].head, receipts[chat]) for chat in chats}, now)
        # The rows are complete now. A user who was removed from a chat meanwhile must not see its
        # row.
        still_in = await self._receipts(user)
        return [row for row in rows if row.chat_id in still_in]

    async def row(self, user: UserKey, chat: ChatId, now: int) -> ChatRow | None:
        """Return one row of the list, or None if the user is not a member.

        Membership is checked last, so that a user who was removed meanwhile does not see the row.
        """
        item = await self._dynamo.get(READ_RECEIPT, receipt_key(user, chat))
        if item is None:
            return None
        head, receipt = await head_of_chat(self._dynamo, chat), to_receipt(item)
        last = await last_messages(self._dynamo, [(chat, head.last_message)])
        unread = await unread_of(self._dynamo, chat, head, receipt, now)
        facts = await self._dynamo.get(READ_CHAT, {"chat_id": chat})
        member = await membership_row(self._dynamo, chat, user)
        if facts is None or member is None:
            return None
        return _row(facts, member, head, receipt, last.get((chat, head.last_message)), unread)

    async def _receipts(self, user: UserKey) -> dict[ChatId, Receipt]:
        items = await self._dynamo.query(LIST_CHATS, "#user_id = :user", {":user": user})
        return {ChatId(item["chat_id"]): to_receipt(item) for item in items}

    async def _copies(self, chats: Sequence[ChatId], *, strong: bool) -> dict[ChatId, HeadCopy]:
        """Return the chats' heads; read the log of a chat if its copy is missing or may be old."""
        copies = await self._heads.read(chats, strong=strong)
        unsure = [chat for chat in chats if chat not in copies or self._heads.must_look(chat)]
        heads = await gather_bounded(partial(head_of_chat, self._dynamo, chat) for chat in unsure)
        for chat, head in zip(unsure, heads, strict=True):
            self._heads.looked(chat, HeadCopy(head))
            copies[chat] = HeadCopy(head)
        return copies

    async def _member_count(self, chat: ChatId, copy: HeadCopy) -> MemberCount:
        if copy.count is not None:
            return copy.count
        facts = await self._dynamo.get(READ_CHAT, {"chat_id": chat})
        if facts is None:
            return MemberCount(0, 0)
        count = MemberCount(facts["as_of"], facts["member_count"])
        self._heads.looked(chat, HeadCopy(copy.head, count))
        return count

    async def _rows(self, chats: dict[ChatId, tuple[Head, Receipt]], now: int) -> list[ChatRow]:
        """Return the rows for these chats of one user, in the given order."""
        facts = await self._facts(list(chats))
        (user,) = {receipt.user for _, receipt in chats.values()}
        members = await self._memberships(user, list(chats))
        last = await last_messages(
            self._dynamo,
            [(chat, head.last_message) for chat, (head, _) in chats.items()],
        )
        unread = await self._unread(chats, now)
        return [
            _row(facts[chat], members[chat], head, receipt, last.get((chat, head.last_message)), n)
            for (chat, (head, receipt)), n in zip(chats.items(), unread, strict=True)
            if chat in facts and chat in members
        ]

    async def _unread(
        self, chats: dict[ChatId, tuple[Head, Receipt]], now: int
    ) -> list[UnreadFound]:
        """Return the unread counts; read a log only if head and receipt are not enough."""
        known = unread_of_page(chats.values())
        queries = [
            partial(count_unread, self._dynamo, chat, receipt, now)
            for (chat, (_, receipt)), unread in zip(chats.items(), known, strict=True)
            if unread is None
        ]
        counted = iter(await gather_bounded(queries))
        return [next(counted) if unread is None else UnreadFound(unread) for unread in known]

    async def _facts(self, chats: Sequence[ChatId]) -> dict[ChatId, Item]:
        items = await self._dynamo.batch_get(SHOW_CHATS, [{"chat_id": chat} for chat in chats])
        return {item["chat_id"]: item for item in items}

    async def _memberships(self, user: UserKey, chats: Sequence[ChatId]) -> dict[ChatId, Item]:
        """Return the user's memberships.

        They are read from an index. Those that the index does not have yet are read from the table.
        """
        rows = await self._dynamo.query(LIST_ROLES, "#user_id = :user", {":user": user})
        found = {ChatId(row["chat_id"]): row for row in rows}
        missing = [member_key(chat, user) for chat in chats if chat not in found]
        for row in await self._dynamo.batch_get(READ_ROLES, missing):
            found[ChatId(row["chat_id"])] = row
        return found


def _row(
    facts: Item, member: Item, head: Head, receipt: Receipt, last: Entry | None, found: UnreadFound
) -> ChatRow:
    others = [user for user in facts["first_members"] if user != receipt.user]
    return ChatRow(
        chat_id=facts["chat_id"],
        type=facts["type"],
        name=facts.get("name"),
        creator=facts["creator"],
        created_at=facts["created_at"],
        updated_at=facts.get("updated_at") or facts["created_at"],
        others=tuple(others[: limits.LISTED_MEMBERS_MAX]),
        member_count=facts["member_count"],
        role=member["role"],
        muted_until=member.get("muted_until"),
        head=head,
        receipt=receipt,
        last=last,
        unread=found.unread,
        unread_by_key=found.by_key,
    )


def _tenant_chat(item: Item) -> TenantChat:
    fields: Item = {field: item.get(field) for field in TenantChat.__struct_fields__}
    return TenantChat(**fields)


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
        # The query also returns the reader's own row, so no second read is needed.
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

    async def list_heads(self, user: UserKey) -> list[ChatHead]:
        return await self._list.list_heads(user)

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

    async def acquainted(self, user: UserKey, others: Sequence[UserKey]) -> set[UserKey]:
        pairs = {pair_of(user, other): other for other in others}
        found = await self._dynamo.batch_get(SHOW_PAIRS, [{"chat_id": pair} for pair in pairs])
        keys = [receipt_key(pairs[item["chat_id"]], item["made"]) for item in found]
        rows = await self._dynamo.batch_get(SHOW_RECEIPTS, keys)
        owns = await gather_bounded(partial(self._is_own, row) for row in rows)
        return {row["user_id"] for row, is_own in zip(rows, owns, strict=True) if is_own}

    async def _is_own(self, receipt: Item) -> bool:
        """Return whether the receipt's user created the direct chat or wrote in it.

        Old receipts do not store this. For such a receipt, the first entries of the chat are
        searched once, and the result is stored.
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

# SPDX-License-Identifier: Apache-2.0
"""The chat list and the heads of a user's chats on DynamoDB.

One query reads the user's rows: a row per chat, with the receipt. The row of a direct chat also has
everything that a list shows of the chat; for a group, this is in the group's item. Head and last
message there are copies (see `heads.py`). If a copy is missing or may be outdated, the log is read.

Content that was edited or redacted is not shown after the answer to that. Rows and messages
therefore come from strong reads. The items of groups come from relaxed reads, which cost half, and
those that this process has changed a moment ago from a strong read as well. A list by another
process may show the old content as long as a replica of DynamoDB lags.

The rows also decide which chats a user may see: a user has a row exactly as long as the membership
lasts. The user may be removed from a chat while the page is built. At the end, the row is therefore
read again for two kinds of chats: those whose head was read from the log, and groups whose members
have changed since the last entry that the user received.
"""

from collections.abc import Collection, Sequence
from functools import partial
from typing import NamedTuple

from tidings.model import limits
from tidings.model.chats import ChatHead, ChatRow, Receipt, UnreadFound
from tidings.model.entries import Entry, Head
from tidings.model.ids import ChatId, UserKey
from tidings.model.unread_counts import unread_of_page, unread_without_a_look
from tidings.stores.dynamodb.chat.head_patterns import READ_HEADS
from tidings.stores.dynamodb.chat.heads import Heads
from tidings.stores.dynamodb.chat.items import (
    chat_of_row,
    member_key,
    receipt_key,
    to_receipt,
    to_settings,
)
from tidings.stores.dynamodb.chat.pages import (
    head_of_chat,
    last_messages,
    membership_row,
)
from tidings.stores.dynamodb.chat.unread import count_to_end, unread_of
from tidings.stores.dynamodb.client.dynamo import Dynamo
from tidings.stores.dynamodb.client.retrying import Item, gather_bounded
from tidings.stores.dynamodb.patterns import (
    LIST_CHATS,
    LIST_ROLES,
    READ_CHAT,
    READ_RECEIPT,
    READ_RECEIPTS,
    READ_ROLES,
    SHOW_CHATS,
    Pattern,
)


class _Listed(NamedTuple):
    """The data about a chat in the user's row and in the group's item."""

    item: Item
    head: Head
    receipt: Receipt


class DynamoChatList:
    """Builds the chat list of a user, and returns the heads of the user's chats."""

    def __init__(self, dynamo: Dynamo, heads: Heads) -> None:
        self._dynamo = dynamo
        self._heads = heads

    async def list_heads(self, user: UserKey, *, from_log: bool) -> list[ChatHead]:
        """Return the heads of all chats of the user, latest activity first, from strong reads."""
        rows = await self._rows(user)
        items = await self._items(rows, READ_HEADS)
        heads, _ = await self._heads_of(items, from_log=from_log)
        chats = [
            ChatHead(chat, heads[chat], to_receipt(rows[chat]), item["member_count"])
            for chat, item in items.items()
        ]
        chats.sort(key=lambda chat: (chat.head.active_at, chat.chat_id), reverse=True)
        return chats

    async def ids(self, user: UserKey) -> list[ChatId]:
        """Return the ids of all chats of the user from a strong read."""
        return list(await self._rows(user))

    async def heads(self, chats: Sequence[ChatId]) -> dict[ChatId, int]:
        """Return the head sequences of these chats from a strong read."""
        stored = await self._heads.stored(chats, READ_HEADS)
        found = {
            chat: max(*stored.get(chat, ()), self._heads.known(chat).sequence, 0) for chat in chats
        }
        unsure = [chat for chat in chats if not found[chat] or self._heads.must_look(chat)]
        looked = await self._look_at(unsure)
        found |= {chat: head.sequence for chat, head in looked.items()}
        return {chat: sequence for chat, sequence in found.items() if sequence}

    def saw(self, chat: ChatId, head: Head) -> None:
        """Cache a head of the chat's log, unless a later head is cached."""
        self._heads.saw(chat, head)

    async def look(self, chat: ChatId, sequence: int) -> None:
        """Read the head of a log, unless this process already knows that the log reaches this
        sequence."""
        if self._heads.known(chat).sequence < sequence:
            self._heads.saw(chat, await head_of_chat(self._dynamo, chat))

    async def page(
        self, user: UserKey, below: tuple[int, ChatId] | None, limit: int, now: int
    ) -> list[ChatRow]:
        """Return a page of the list.

        `below` is the (active_at, chat_id) of the last row on the previous page, or None for the
        first page.
        """
        rows = await self._rows(user)
        items = await self._items(rows, SHOW_CHATS)
        heads, looked = await self._heads_of(items)
        order = sorted(((head.active_at, chat) for chat, head in heads.items()), reverse=True)
        chats = [chat for at, chat in order if below is None or (at, chat) < below][:limit]
        if changed := {chat: rows[chat] for chat in chats if self._heads.may_lag(chat)}:
            items |= await self._items(changed, READ_HEADS)
        listed = {chat: _Listed(items[chat], heads[chat], to_receipt(rows[chat])) for chat in chats}
        return await self._listed(user, listed, looked, now) if listed else []

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
        listed = _Listed(facts, head, receipt)
        return _row(listed, member, last.get((chat, head.last_message)), unread)

    # Rows, chats and heads.

    async def _rows(self, user: UserKey) -> dict[ChatId, Item]:
        items = await self._dynamo.query(LIST_CHATS, "#user_id = :user", {":user": user})
        return {ChatId(item["chat_id"]): item for item in items}

    async def _items(self, rows: dict[ChatId, Item], pattern: Pattern) -> dict[ChatId, Item]:
        """Return for each of a user's rows the item of its chat, with the head copy.

        For a direct chat, the item is built from the row.
        """
        items = {chat: chat_of_row(row) for chat, row in rows.items() if "peer" in row}
        wanted = [chat for chat in rows if chat not in items]
        # A relaxed read may not find a chat that is very new.
        for read in dict.fromkeys((pattern, READ_HEADS)):
            missing = [{"chat_id": chat} for chat in wanted if chat not in items]
            for item in await self._dynamo.batch_get(read, missing):
                items[ChatId(item["chat_id"])] = item
        return {chat: items[chat] for chat in rows if chat in items}

    async def _heads_of(
        self, items: dict[ChatId, Item], *, from_log: bool = False
    ) -> tuple[dict[ChatId, Head], set[ChatId]]:
        """Return the heads of chats, and the chats whose head was read from the log."""
        copies = {chat: self._heads.head_in(item) for chat, item in items.items()}
        unsure = [
            chat
            for chat, copy in copies.items()
            if copy is None or from_log or self._heads.must_look(chat)
        ]
        heads, looked = await self._look_at(unsure), set(unsure)
        for chat, copy in copies.items():
            head, known = heads.get(chat) or copy or Head(), self._heads.known(chat)
            if known.sequence > head.sequence:
                head = known
                looked.add(chat)
            heads[chat] = head
        return heads, looked

    async def _look_at(self, chats: Sequence[ChatId]) -> dict[ChatId, Head]:
        """Read the heads of these chats from their logs."""
        heads = await gather_bounded(partial(head_of_chat, self._dynamo, chat) for chat in chats)
        for chat, head in zip(chats, heads, strict=True):
            self._heads.looked(chat, head)
        return dict(zip(chats, heads, strict=True))

    # The page.

    async def _listed(
        self, user: UserKey, listed: dict[ChatId, _Listed], looked: set[ChatId], now: int
    ) -> list[ChatRow]:
        """Return the rows for these chats of one user, latest activity first."""
        members = await self._memberships(user, list(listed))
        unread = await self._unread(listed, now)
        looked |= {chat for chat, (head, _) in unread.items() if head != listed[chat].head}
        listed = {
            chat: one._replace(head=unread[chat][0])
            for chat, one in listed.items()
            if chat in members
        }
        last = await self._last_messages(listed)
        left = await self._left(user, listed, looked)
        rows = [
            _row(one, members[chat], last.get(chat), unread[chat][1])
            for chat, one in listed.items()
            if chat not in left
        ]
        # A read of the log may have found a later head than the one by which the chats were sorted.
        rows.sort(key=lambda row: (row.head.active_at, row.chat_id), reverse=True)
        return rows

    async def _unread(
        self, listed: dict[ChatId, _Listed], now: int
    ) -> dict[ChatId, tuple[Head, UnreadFound]]:
        """Return the head and the unread count of each chat.

        A log is read only if head and receipt do not show the count. This also shows where the log
        ends. If the head copy is older, the head is read from the log too, so that the chat list
        shows the messages that it counts.
        """
        known = unread_of_page((one.head, one.receipt) for one in listed.values())
        found = {
            chat: (one.head, UnreadFound(unread, up_to=one.head.sequence))
            for (chat, one), unread in zip(listed.items(), known, strict=True)
            if unread is not None
        }
        wanted = [chat for chat in listed if chat not in found]
        counted = await gather_bounded(
            partial(self._count, chat, listed[chat], now) for chat in wanted
        )
        return found | dict(zip(wanted, counted, strict=True))

    async def _count(self, chat: ChatId, one: _Listed, now: int) -> tuple[Head, UnreadFound]:
        unread = await count_to_end(self._dynamo, chat, one.receipt, now)
        head = one.head
        if unread.up_to > head.sequence:
            head = await head_of_chat(self._dynamo, chat)
            self._heads.saw(chat, head)
        if unread.up_to != head.sequence:
            known = unread_without_a_look(head, one.receipt)
            if known is not None:
                return head, UnreadFound(known, up_to=head.sequence)
            unread = await count_to_end(self._dynamo, chat, one.receipt, now, up_to=head.sequence)
        return head, unread

    async def _last_messages(self, listed: dict[ChatId, _Listed]) -> dict[ChatId, Entry]:
        """Return the last message of each chat, from its copy or, if there is no copy, from the
        log."""
        found: dict[ChatId, Entry] = {}
        for chat, one in listed.items():
            copied = self._heads.last_in(one.item)
            if copied is not None and copied.sequence == one.head.last_message:
                found[chat] = copied
        wanted = [
            (chat, one.head.last_message) for chat, one in listed.items() if chat not in found
        ]
        for (chat, _), entry in (await last_messages(self._dynamo, wanted)).items():
            found[chat] = entry
        return found

    async def _left(
        self, user: UserKey, listed: dict[ChatId, _Listed], looked: Collection[ChatId]
    ) -> set[ChatId]:
        """Return the chats from which the user was removed after the user's rows were read.

        Only chats in which this is possible are read again; see the top of this file.
        """
        doubtful = [
            chat
            for chat, one in listed.items()
            if chat in looked or one.item["as_of"] > one.receipt.delivered
        ]
        keys = [receipt_key(user, chat) for chat in doubtful]
        rows = await self._dynamo.batch_get(READ_RECEIPTS, keys)
        return set(doubtful) - {ChatId(row["chat_id"]) for row in rows}

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


def _row(listed: _Listed, member: Item, last: Entry | None, found: UnreadFound) -> ChatRow:
    facts, head, receipt = listed
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
        except_mentions=member.get("except_mentions", False),
        head=head,
        receipt=receipt,
        last=last,
        unread=found.unread,
        settings=to_settings(facts),
        unread_by_key=found.by_key,
        mentions_by_key=found.mentions_by_key,
    )

# SPDX-License-Identifier: Apache-2.0
"""Exports all facts from the tables, in order and with bounded memory.

A scan returns items in no order. Scans of users, sessions, authors and chats therefore collect only
the ids and sort them in memory. Then everything is read by its id, in that order. Tenants, requests
and invitations are few, so their items are collected and sorted themselves.

DynamoDB has no snapshot across tables, so no process may write during an export. To check this, the
head of each log is read again at the end.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Final

from msgspec.structs import replace

from tidings.model import limits
from tidings.model.entries import Entry, emptied
from tidings.model.ids import ChatId
from tidings.model.setup_error import SetupError
from tidings.ports.export_engines import Source
from tidings.ports.export_facts import (
    AuditFact,
    BlockFact,
    ChatFact,
    Fact,
    InviteFact,
    IssuerFact,
    MemberFact,
    ReactionFact,
    ReportFact,
    RequestKeyFact,
    RevocationFact,
    SecretFact,
    SendKeyFact,
    SigningKeyFact,
    TenantFact,
    TenantKeyFact,
    entry_fact,
)
from tidings.ports.export_feature_facts import ErasureFact, PushFacts, TenantJobFact, WebhookFact
from tidings.ports.export_inbox_facts import converted
from tidings.stores.dynamodb import patterns
from tidings.stores.dynamodb.chat.invites import to_invite
from tidings.stores.dynamodb.chat.items import reactions_of, receipt_key, to_reaction
from tidings.stores.dynamodb.chat.pages import head_of_chat, items_after, to_entries
from tidings.stores.dynamodb.client.dynamo import BATCH_GET_MAX, Dynamo
from tidings.stores.dynamodb.client.retrying import Item, gather_bounded
from tidings.stores.dynamodb.export.exporting_files import upload_facts
from tidings.stores.dynamodb.export.exporting_inbox import InboxSource
from tidings.stores.dynamodb.export.items import (
    OfTenants,
    to_block_fact,
    to_data_key_fact,
    to_member_fact,
    to_request_fact,
    to_send_key_fact,
    to_tenants_fact,
    to_user_fact,
)
from tidings.stores.dynamodb.export.scanning import ids_of, whole_table
from tidings.stores.dynamodb.formats import written_in
from tidings.stores.dynamodb.identity.audit import DynamoAuditLog
from tidings.stores.dynamodb.identity.blocks import is_block
from tidings.stores.dynamodb.identity.erasing import IS_DATA_KEY, DynamoLedger
from tidings.stores.dynamodb.identity.items import session_facts
from tidings.stores.dynamodb.identity.phone_claims import IS_USER
from tidings.stores.dynamodb.identity.push import push_facts, push_order
from tidings.stores.dynamodb.identity.reports import to_report
from tidings.stores.dynamodb.store import first_answer, refuse_unfinished
from tidings.stores.dynamodb.tables import REPORTS, invites_of, request_keys_of

CHATS_AT_ONCE: Final = 16
"""Number of chats whose first pages are read concurrently; further pages are read one by one."""
PAGE_ENTRIES: Final = 200
PAGE_KEYS: Final = 1_000

_KINDS: Final = (
    SecretFact, TenantFact, TenantKeyFact, SigningKeyFact, IssuerFact, RevocationFact,
    TenantJobFact, ErasureFact, WebhookFact,
)  # fmt: skip


class DynamoSource:
    """Reads all facts from the tables, to which nothing may be written during the export."""

    def __init__(self, dynamo: Dynamo, epoch: str) -> None:
        self._dynamo = dynamo
        self._epoch = epoch
        self._chats: list[ChatId] = []
        self._heads = array("q")
        """Head of each log when it was read, in the order of `_chats`."""
        self._deleted: set[ChatId] = set()
        """Deleted chats, whose entries are exported without content even if it is still stored."""
        self._blocks: list[BlockFact] = []
        """Blocks, which are in the table of tenants, and are exported after the users."""
        self._push: list[PushFacts] = []
        """Registrations and settings for push, which are in the table of tenants, too."""
        self._inbox = InboxSource(dynamo)
        self._audit = DynamoAuditLog(dynamo)

    @property
    def epoch(self) -> str:
        return self._epoch

    async def facts(self, now: int, after: ChatId | None = None) -> AsyncIterator[Sequence[Fact]]:
        yield await self._tenants()
        async for some in self._users():
            yield some
        async for sessions in session_facts(self._dynamo, now):
            yield sessions
        async for some in self._data_keys():
            yield some
        yield await self._requests(now)
        yield await self._invites(now)
        yield self._blocks
        yield self._push
        yield await self._reports(now)
        async for uploads in upload_facts(self._dynamo):
            yield uploads
        chats = await self._chat_ids()
        self._chats = chats[bisect_right(chats, after or "") :]
        self._heads = array("q")
        for start in range(0, len(self._chats), CHATS_AT_ONCE):
            chats = self._chats[start : start + CHATS_AT_ONCE]
            openings = await gather_bounded(partial(self._opening, chat, now) for chat in chats)
            for chat, (facts, last) in zip(chats, openings, strict=True):
                yield facts
                async for some in self._rest(chat, last, now):
                    yield some
        async for of_inbox in self._inbox.facts(now):
            yield of_inbox
        # The clocks of processes differ a little, so the newest entries may be in the future.
        until = now + limits.DAY_MS
        async for entries in self._audit.oldest_first(now - limits.AUDIT_MS + 1, until):
            yield [converted(AuditFact, entry) for entry in entries]

    async def changed(self) -> list[str]:
        changed: list[str] = [chat for chat in await self._chat_ids() if not self._is_known(chat)]
        for start in range(0, len(self._chats), CHATS_AT_ONCE):
            chats = self._chats[start : start + CHATS_AT_ONCE]
            heads = await gather_bounded(
                partial(head_of_chat, self._dynamo, chat) for chat in chats
            )
            ends = zip(chats, heads, self._heads[start : start + CHATS_AT_ONCE], strict=True)
            changed += [chat for chat, head, known in ends if head.sequence != known]
        return changed + await self._inbox.changed()

    def _is_known(self, chat: ChatId) -> bool:
        index = bisect_left(self._chats, chat)
        return self._chats[index : index + 1] == [chat]

    # Facts outside chats.

    async def _tenants(self) -> list[Fact]:
        found: list[tuple[int, str, str, OfTenants]] = []
        async for page in whole_table(self._dynamo, patterns.SCAN_TENANTS):
            found += [
                (_KINDS.index(type(fact)), item["pk"], item["sk"], fact)
                for item in page
                if (fact := to_tenants_fact(item)) is not None
            ]
            self._blocks += [to_block_fact(item) for item in page if is_block(item)]
            self._push += push_facts(page)
        self._blocks.sort(key=lambda block: (block.user_id, block.blocked))
        self._push.sort(key=push_order)
        found.sort(key=lambda row: row[:3])
        return [fact for *_, fact in found]

    async def _users(self) -> AsyncIterator[list[Fact]]:
        ids = await ids_of(self._dynamo, patterns.SCAN_USERS, "user_id", IS_USER)
        for start in range(0, len(ids), BATCH_GET_MAX):
            keys = [{"user_id": user} for user in ids[start : start + BATCH_GET_MAX]]
            items = await self._dynamo.batch_get(patterns.FIND_USERS, keys)
            yield [to_user_fact(item) for item in sorted(items, key=lambda item: item["user_id"])]

    async def _data_keys(self) -> AsyncIterator[list[Fact]]:
        authors = await ids_of(self._dynamo, patterns.SCAN_AUTHORS, "author", IS_DATA_KEY)
        for start in range(0, len(authors), BATCH_GET_MAX):
            some = authors[start : start + BATCH_GET_MAX]
            items = await gather_bounded(partial(self._data_key, author) for author in some)
            yield [to_data_key_fact(item) for item in items if item is not None]

    async def _data_key(self, author: str) -> Item | None:
        return await self._dynamo.get(patterns.READ_DATA_KEY, {"author": author})

    async def _requests(self, now: int) -> list[Fact]:
        found: list[RequestKeyFact] = []
        only = "begins_with(#chat_id, :requests) AND #expires_at > :now"
        values = {":requests": request_keys_of(""), ":now": now}
        async for page in whole_table(self._dynamo, patterns.SCAN_REQUESTS, only, values):
            found += [to_request_fact(item) for item in page]
        found.sort(key=lambda fact: (fact.user_id, fact.key))
        return [*found]

    async def _invites(self, now: int) -> list[Fact]:
        found: list[InviteFact] = []
        only = "begins_with(#chat_id, :invites) AND #expires_at > :now"
        values = {":invites": invites_of(""), ":now": now}
        async for page in whole_table(self._dynamo, patterns.SCAN_REQUESTS, only, values):
            found += [converted(InviteFact, to_invite(item)) for item in page]
        found.sort(key=lambda fact: (fact.user_id, fact.chat_id))
        return [*found]

    async def _reports(self, now: int) -> list[Fact]:
        found: list[ReportFact] = []
        is_report = "begins_with(#chat_id, :reports) AND attribute_exists(#reporter)"
        only, values = f"{is_report} AND #expires_at > :now", {":reports": REPORTS, ":now": now}
        async for page in whole_table(self._dynamo, patterns.SCAN_REQUESTS, only, values):
            found += [converted(ReportFact, to_report(item)) for item in page]
        found.sort(key=lambda fact: (fact.tenant, fact.report_id))
        return [*found]

    async def _chat_ids(self) -> list[ChatId]:
        # The same table has items that claim the pair of a direct chat. They have no type.
        is_chat = "attribute_exists(#type)"
        ids = await ids_of(self._dynamo, patterns.SCAN_CHATS, "chat_id", is_chat)
        return [ChatId(chat) for chat in ids]

    # Facts of a chat.

    async def _opening(self, chat: ChatId, now: int) -> tuple[list[Fact], int]:
        """Return the first facts of a chat, and the sequence of the last entry among them.

        The facts are the chat, its members and its first entries.
        """
        item = await self._dynamo.get(patterns.READ_CHAT, {"chat_id": chat})
        assert item is not None, "chats are never deleted"
        fact = ChatFact(**{name: item[name] for name in ChatFact.__struct_fields__ if name in item})
        if "deleted_at" in item:
            self._deleted.add(chat)
            fact = replace(fact, name=None)
        members = await self._members(chat, item)
        entries, last = await self._entries(chat, 0, now)
        return [fact, *members, *entries], last

    async def _rest(self, chat: ChatId, last: int, now: int) -> AsyncIterator[list[Fact]]:
        """Yield the entries after those of `_opening`, then the claimed idempotency keys."""
        while last % PAGE_ENTRIES == 0:
            entries, reached = await self._entries(chat, last, now)
            if not entries:
                break
            yield entries
            last = reached
        self._heads.append(last)
        if chat in self._deleted:
            return
        after = " "  # sorts before every key
        while items := await self._claims(chat, after):
            yield [to_send_key_fact(item) for item in items if item["expires_at"] > now]
            after = items[-1]["claim"]
            if len(items) < PAGE_KEYS:
                break

    async def _members(self, chat: ChatId, item: Item) -> list[MemberFact]:
        if chat in self._deleted:
            return []
        rows = await self._dynamo.query(patterns.LIST_MEMBERS, "#chat_id = :chat", {":chat": chat})
        keys = [receipt_key(row["user_id"], chat) for row in rows]
        found = await self._dynamo.batch_get(patterns.EXPORT_RECEIPTS, keys)
        return self._joined(item, rows, {item["user_id"]: item for item in found})

    def _joined(self, chat: Item, rows: list[Item], receipts: dict[str, Item]) -> list[MemberFact]:
        """Return the members of a chat, from their rows in the two tables."""
        return [to_member_fact(row, receipts[row["user_id"]]) for row in rows]

    async def _entries(self, chat: ChatId, after: int, now: int) -> tuple[list[Fact], int]:
        """Return a page of entries with their reactions, and the last sequence on the page."""
        items = (await items_after(self._dynamo, chat, after, PAGE_ENTRIES))[:PAGE_ENTRIES]
        facts: list[Fact] = []
        is_deleted = chat in self._deleted
        for entry in await to_entries(self._dynamo, items):
            fact = entry_fact(emptied(entry) if is_deleted else entry, now)
            facts.append(fact)
            if fact.reactions:
                facts += await self._reactions(chat, fact.sequence)
            if entry.digest is not None and not is_deleted:
                facts += _omitted_key(entry, now)
        return facts, after + len(items)

    async def _reactions(self, chat: ChatId, sequence: int) -> list[ReactionFact]:
        rows = await self._dynamo.query(
            patterns.READ_REACTIONS,
            "#message_id = :message",
            {":message": reactions_of(chat, sequence)},
        )
        return [
            ReactionFact(
                chat_id=chat, sequence=sequence, emoji=emoji, user_id=user, created_at=created_at
            )
            for emoji, user, created_at in sorted(map(to_reaction, rows))
        ]

    async def _claims(self, chat: ChatId, after: str) -> list[Item]:
        where = "#chat_id = :chat AND #claim > :after"
        values = {":chat": chat, ":after": after}
        return await self._dynamo.query(patterns.EXPORT_SEND_KEYS, where, values, limit=PAGE_KEYS)


def _omitted_key(entry: Entry, now: int) -> list[SendKeyFact]:
    """Return the idempotency key of a message that was stored without claiming it.

    Other engines need the claim. The list is empty if the key would have expired.
    """
    assert entry.digest is not None
    assert entry.client_message_id is not None
    expires_at = entry.created_at + limits.SEND_KEY_MS
    fact = SendKeyFact(
        chat_id=entry.chat_id,
        sender=entry.sender,
        client_message_id=entry.client_message_id,
        hint=entry.sequence,
        digest=entry.digest,
        expires_at=expires_at,
    )
    return [fact] if expires_at > now else []


async def open_source(dynamo: Dynamo) -> DynamoSource:
    """Open the tables for an export; no server may write to them meanwhile.

    Raises:
        SetupError: The tables do not exist or are empty, an import into them is unfinished, or they
            were restored and erasures were not carried out again yet.
        StoreUnavailable: The tables cannot be reached.
    """
    epoch = await epoch_of(dynamo)
    if unknown := await DynamoLedger(dynamo).unknown():
        # An export would bring back what they erased, and nothing would know of them.
        raise SetupError(
            f"{len(unknown)} erasures are not carried out in these tables, which were restored: "
            "run `tidings erasures replay`, then export"
        )
    return DynamoSource(dynamo, epoch)


async def epoch_of(dynamo: Dynamo) -> str:
    """Return the epoch of tables that are not empty.

    Raises:
        SetupError: The tables do not exist or are empty, or an import into them is unfinished.
    """
    epoch = await first_answer(dynamo)
    await refuse_unfinished(dynamo)
    if epoch is None:
        raise SetupError(f"the tables with the prefix {dynamo.prefix!r} are empty")
    written_in(epoch)
    return str(epoch["value"])


_conforms: type[Source] = DynamoSource

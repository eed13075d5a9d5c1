# SPDX-License-Identifier: Apache-2.0
"""Reading a chat: log, messages, members, receipts and reactions. The store admits the reader."""

from dataclasses import dataclass

from tidings.actions.chat.sending import find_message
from tidings.actions.content.vault import Vault
from tidings.model import limits
from tidings.model.chats import Receipt
from tidings.model.ids import ChatId, UserKey
from tidings.model.refusals import ChatNotFound, MessageNotFound
from tidings.model.roles import Member
from tidings.ports.chats import Chats, Receipts
from tidings.ports.log import Log, Page
from tidings.ports.world import Clock


@dataclass(frozen=True, slots=True)
class ReadPage:
    """Read a page of a log, with its content opened."""

    log: Log
    vault: Vault
    clock: Clock

    async def entries(
        self,
        reader: UserKey,
        chat: ChatId,
        *,
        after: int | None = None,
        before: int | None = None,
        limit: int,
    ) -> Page:
        """Return entries of every kind, tombstones included."""
        page = await self.log.page(chat, reader, after=after, before=before, limit=limit)
        return await self._opened(page)

    async def messages(
        self,
        reader: UserKey,
        chat: ChatId,
        *,
        after: int | None = None,
        before: int | None = None,
        limit: int,
    ) -> Page:
        """Return messages only: redacted messages as tombstones, expired messages left out."""
        page = await self._opened(
            await self.log.page(
                chat, reader, after=after, before=before, limit=limit, only_messages=True
            )
        )
        page.entries = [entry for entry in page.entries if entry.gone != "expired"]
        return page

    async def one(self, reader: UserKey, chat: ChatId, sequence: int) -> Page:
        """Return a page that holds one message."""
        page = await self.log.page(chat, reader, after=sequence - 1, limit=1)
        if page is not None and not (page.entries and page.entries[0].kind == "message"):
            raise MessageNotFound
        return await self._opened(page)

    async def _opened(self, page: Page | None) -> Page:
        if page is None:
            raise ChatNotFound
        await self.vault.open(page.entries, self.clock.now())
        return page


@dataclass(frozen=True, slots=True)
class ListMembers:
    """List the members of a chat."""

    chats: Chats

    async def __call__(self, reader: UserKey, chat: ChatId) -> dict[UserKey, Member]:
        members = await self.chats.members(chat, reader)
        if members is None:
            raise ChatNotFound
        return members


@dataclass(frozen=True, slots=True)
class ListReceipts:
    """List the receipts of all members of a chat."""

    receipts: Receipts

    async def __call__(self, reader: UserKey, chat: ChatId) -> list[Receipt]:
        found = await self.receipts.of_chat(chat, reader)
        if found is None:
            raise ChatNotFound
        return found


@dataclass(frozen=True, slots=True)
class ListReactions:
    """List the reactions to a message: emoji, user and time."""

    log: Log

    async def __call__(
        self, reader: UserKey, chat: ChatId, sequence: int
    ) -> list[tuple[str, UserKey, int]]:
        await find_message(self.log, reader, chat, sequence)
        found = await self.log.reactions(chat, reader, sequence, limits.GROUP_MEMBERS_MAX)
        if found is None:
            raise ChatNotFound
        return found

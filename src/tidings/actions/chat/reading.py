# SPDX-License-Identifier: Apache-2.0
"""Read the log, messages, members, reactions and receipts of a chat, and the mentions of a user."""

import msgspec

from tidings.actions.chat.message_changes import find_message
from tidings.actions.content.vault import Vault
from tidings.actions.content.wrapping import Cursors
from tidings.actions.identity.blocks import BlockLists
from tidings.actions.identity.profiles import ProfileCache
from tidings.model import limits
from tidings.model.blocks import hide_content, masked, masked_with_times, peers
from tidings.model.chats import Receipt, ShownMember
from tidings.model.entries import Entry
from tidings.model.ids import ChatId, UserKey
from tidings.model.refusals import ChatNotFound, MemberNotFound, MessageNotFound
from tidings.ports.chats import Chats, Receipts
from tidings.ports.log import Log, Page
from tidings.ports.world import Clock


class ReadPage(msgspec.Struct, frozen=True):
    """Read a page of a log, with decrypted content."""

    log: Log
    vault: Vault
    clock: Clock
    blocks: BlockLists

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
        return await self._opened(page, reader, chat)

    async def messages(
        self,
        reader: UserKey,
        chat: ChatId,
        *,
        after: int | None = None,
        before: int | None = None,
        limit: int,
    ) -> Page:
        """Return messages only. Redacted messages are tombstones; expired messages are left out."""
        return await self._without_expired(
            await self.log.page(
                chat, reader, after=after, before=before, limit=limit, only_messages=True
            ),
            reader,
            chat,
        )

    async def replies(
        self, reader: UserKey, chat: ChatId, sequence: int, *, after: int, limit: int
    ) -> Page:
        """Return the messages that answer a message, like `messages`."""
        await find_message(self.log, reader, chat, sequence)
        return await self._without_expired(
            await self.log.replies(chat, reader, sequence, after=after, limit=limit), reader, chat
        )

    async def pins(self, reader: UserKey, chat: ChatId) -> tuple[Page, list[Entry]]:
        """Return the pinned messages, tombstones included, and the entries that pinned them."""
        found = await self.log.pins(chat, reader)
        page, pins = (None, []) if found is None else found
        return await self._opened(page, reader, chat), pins

    async def one(self, reader: UserKey, chat: ChatId, sequence: int) -> Page:
        """Return a page that consists of one message."""
        page = await self.log.message(chat, reader, sequence)
        if page is not None and not page.entries:
            raise MessageNotFound
        return await self._opened(page, reader, chat)

    async def _without_expired(self, found: Page | None, reader: UserKey, chat: ChatId) -> Page:
        page = await self._opened(found, reader, chat)
        page.entries = [entry for entry in page.entries if entry.gone != "expired"]
        return page

    async def _opened(self, page: Page | None, reader: UserKey, chat: ChatId) -> Page:
        if page is None:
            raise ChatNotFound
        await self.vault.open(page.entries, self.clock.now())
        found = await self.blocks.of(reader, peers(page.receipts))
        hide_content(page.entries, found.blocked)
        page.receipts = tuple(masked(receipt, chat, found) for receipt in page.receipts)
        return page


class ListMentions(msgspec.Struct, frozen=True):
    """List the messages of the last 90 days that mention a user by name, newest first."""

    log: Log
    vault: Vault
    cursors: Cursors
    clock: Clock
    blocks: BlockLists

    async def __call__(
        self, user: UserKey, cursor: str | None, limit: int
    ) -> tuple[list[Entry], str | None]:
        """Return messages with decrypted content, and the cursor of the next page.

        Messages without content, or of users whom the user blocks, are left out. All
        messages are from chats of which the user is a member.
        """
        now = self.clock.now()
        below = None if cursor is None else self.cursors.open("mentions", user, cursor).decode()
        since = now - limits.MENTIONS_MS
        page = await self.log.mentions(user, since=since, below=below, limit=limit)
        await self.vault.open(page.rows, now)
        blocked = (await self.blocks.of(user)).blocked
        found = [entry for entry in page.rows if entry.gone is None and entry.sender not in blocked]
        end = None if page.end is None else page.end.encode()
        return found, None if end is None else self.cursors.seal("mentions", user, end)


class ListMembers(msgspec.Struct, frozen=True):
    """List the members of a chat, with their profiles and receipts."""

    chats: Chats
    receipts: Receipts
    profiles: ProfileCache
    blocks: BlockLists

    async def __call__(self, reader: UserKey, chat: ChatId) -> dict[UserKey, ShownMember]:
        members = await self.chats.members(chat, reader)
        if members is None:
            raise ChatNotFound
        profiles = await self.profiles.of(members)
        # The receipts come last: a reader who was removed meanwhile sees nothing.
        receipts = await self.receipts.with_times(chat, reader)
        if receipts is None:
            raise ChatNotFound
        found = await self.blocks.of(reader, peers([one.receipt for one in receipts]))
        by_user = {one.receipt.user: masked_with_times(one, chat, found) for one in receipts}
        return {
            user: ShownMember(member, by_user[user], profiles[user])
            for user, member in members.items()
            if user in by_user
        }

    async def one(self, reader: UserKey, chat: ChatId, user: UserKey) -> ShownMember:
        """Return one member.

        Raises:
            MemberNotFound: The user is not a member.
        """
        members = await self.chats.members(chat, reader)
        if members is None:
            raise ChatNotFound
        member = members.get(user)
        receipt = await self.receipts.find(user, chat, member.joined) if member else None
        if member is None or receipt is None:
            raise MemberNotFound
        shown = masked_with_times(receipt, chat, await self.blocks.of(reader, [user]))
        return ShownMember(member, shown, (await self.profiles.of([user]))[user])


class ListReceipts(msgspec.Struct, frozen=True):
    """List the receipts of all members of a chat."""

    receipts: Receipts
    blocks: BlockLists

    async def __call__(self, reader: UserKey, chat: ChatId) -> list[Receipt]:
        receipts = await self.receipts.of_chat(chat, reader)
        if receipts is None:
            raise ChatNotFound
        found = await self.blocks.of(reader, peers(receipts))
        return [masked(receipt, chat, found) for receipt in receipts]


class ListReactions(msgspec.Struct, frozen=True):
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

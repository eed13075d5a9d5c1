# SPDX-License-Identifier: Apache-2.0
"""Inspect a chat as its tenant: its state, its members, and its log with or without content."""

from typing import Final

import msgspec

from tidings.actions.chat.reading import ListMembers, ReadPage
from tidings.actions.identity.caller import Caller, require_tenant
from tidings.model.chats import ChatState, ShownMember
from tidings.model.entries import Entry
from tidings.model.ids import ChatId, UserKey
from tidings.model.refusals import ChatNotFound
from tidings.ports.log import Log, Page

SEALED_FIELDS: Final = (
    "chat_id", "kind", "sender", "sequence", "created_at", "number", "last_message", "active_at",
    "client_message_id", "content_type", "expires_at", "edited_at", "redacted", "gone", "reply_to",
    "reply_count", "mentions", "silent", "posted_by", "pinned", "target", "people", "name",
    "settings",
)  # fmt: skip
"""Fields of an entry that a tenant sees without giving a reason. A new field stays hidden until it
is listed here."""


class InspectChat(msgspec.Struct, frozen=True):
    """Read a chat of the tenant without being a member.

    The store shows a chat only to its members, so the chat is read as one of them sees it, but with
    the content of users whom this member blocks. All members see the same log.
    """

    log: Log
    read: ReadPage
    list_members: ListMembers

    async def state(self, caller: Caller, tenant: str, chat: ChatId) -> ChatState:
        """Return the state of the chat.

        Raises:
            ChatNotFound: The tenant has no such chat, or the chat is deleted.
        """
        require_tenant(caller, tenant)
        state = await self.log.state(chat)
        if state is None or state.tenant != tenant or state.is_deleted:
            raise ChatNotFound
        return state

    async def members(
        self, caller: Caller, tenant: str, chat: ChatId
    ) -> dict[UserKey, ShownMember]:
        """Return the members with their receipts.

        Raises:
            ChatNotFound: The tenant has no such chat, or nobody is in it.
        """
        reader = _some_member(await self.state(caller, tenant, chat))
        return await self.list_members(reader, chat)

    async def entries(
        self, caller: Caller, tenant: str, chat: ChatId, *, after: int, limit: int
    ) -> Page:
        """Return a page of the log with content. The caller must record the reason first.

        Raises:
            ChatNotFound: The tenant has no such chat, or nobody is in it.
        """
        reader = _some_member(await self.state(caller, tenant, chat))
        return await self.read.entries(reader, chat, after=after, limit=limit)

    async def sealed_entries(
        self, caller: Caller, tenant: str, chat: ChatId, *, after: int, limit: int
    ) -> Page:
        """Return a page of the log without the content of messages and without reactions.

        Raises:
            ChatNotFound: The tenant has no such chat, or nobody is in it.
        """
        page = await self.entries(caller, tenant, chat, after=after, limit=limit)
        page.entries = [_sealed(entry) for entry in page.entries]
        return page


def _sealed(entry: Entry) -> Entry:
    return Entry(**{name: getattr(entry, name) for name in SEALED_FIELDS})


def _some_member(state: ChatState) -> UserKey:
    if not state.members:
        raise ChatNotFound
    return next(iter(state.members))

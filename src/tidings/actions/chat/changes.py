# SPDX-License-Identifier: Apache-2.0
"""Shared parts of the actions that change a chat: append a change, and remove a member."""

import asyncio
from collections.abc import Callable
from typing import assert_never

import msgspec

from tidings.actions.chat.appender import Appender
from tidings.actions.content.vault import Sealed, Vault
from tidings.logs.requests import current_requests
from tidings.model.chats import ChatState
from tidings.model.entries import Entry, SendKey
from tidings.model.ids import ChatId, UserKey
from tidings.model.refusals import (
    ChatNotFound,
    LimitReached,
    MessageGone,
    Refusal,
)
from tidings.model.roles import Member
from tidings.ports.chats import InviteStore
from tidings.ports.log import Declined
from tidings.ports.world import Clock
from tidings.tracing.spans import Span

Decide = Callable[[ChatState, int], list[Entry]]


class SealedContent:
    """Encrypts new content of a message, and does so again if the author's data key has changed."""

    def __init__(self, vault: Vault, author: UserKey, message: Entry, text: str) -> None:
        assert message.client_message_id is not None, "only messages have content"
        self._vault = vault
        self._author = author
        self._bound_to = message.chat_id, message.client_message_id
        self._text = text
        self._sealed: Sealed | None = None

    @property
    def may_write(self) -> bool:
        """Whether the content may be written: it is encrypted, and its data key may still be
        used."""
        return self._sealed is not None and self._vault.may_write(self._author, self._sealed)

    async def seal(self) -> None:
        """Encrypt the content with the author's current data key.

        Raises:
            StoreUnavailable: The data key cannot be loaded.
        """
        self._sealed = await self._vault.seal(self._author, *self._bound_to, self._text)

    def put_into(self, entry: Entry) -> None:
        """Set the content of the entry, both encrypted and as plain text."""
        assert self._sealed is not None, "nothing is decided before it is ready"
        entry.box, entry.box_key = self._sealed.box, self._sealed.box_key
        entry.content = self._text


class AwaitedChange:
    """Sets the result of a future when a change of a chat is answered."""

    def __init__(self, decide: Decide, content: SealedContent | None = None) -> None:
        self.key: SendKey | None = None
        self.is_claimed = False
        self.goes_alone = True
        self.attempts = 0
        self.was_looked_into = False
        self.span: Span | None = None
        self.requests = current_requests()
        self._decide = decide
        self._content = content
        self.answer: asyncio.Future[list[Entry]] = asyncio.get_running_loop().create_future()

    @property
    def is_ready(self) -> bool:
        return self._content is None or self._content.may_write

    async def prepare(self) -> None:
        assert self._content is not None, "a change without content is ready from the start"
        await self._content.seal()

    def decide(self, state: ChatState, now: int) -> list[Entry]:
        return self._decide(state, now)

    def kept(self, entries: list[Entry]) -> None:
        if not self.answer.done():
            self.answer.set_result(entries)

    def replayed(self, entry: Entry) -> None:
        raise AssertionError(f"only messages are repeated, not {entry.kind}")

    def declined(self, declined: Declined) -> None:
        match declined.reason:
            case "no_change":
                self.kept([])
            case "target_gone":
                self.refused(MessageGone())
            case "too_many_emoji":
                self.refused(LimitReached("the message has the maximum number of emoji"))
            case "too_many_chats":
                self.refused(LimitReached("the user is in the maximum number of chats"))
            case "too_many_pins":
                self.refused(LimitReached("the chat has the maximum number of pinned messages"))
            case "attachment_used":
                raise AssertionError("only messages have attachments")
            case _:
                assert_never(declined.reason)

    def refused(self, refusal: Refusal) -> None:
        if not self.answer.done():
            self.answer.set_exception(refusal)


async def change(
    appender: Appender, chat: ChatId, decide: Decide, content: SealedContent | None = None
) -> list[Entry]:
    """Append the entries that `decide` returns, and return them once they are durable.

    `content` is encrypted before `decide` is called. The result is empty if there was nothing to
    change.

    Raises:
        Refusal: `decide` or the store refused the change.
    """
    request = AwaitedChange(decide, content)
    appender.propose(chat, request)
    return await request.answer


def membership_of(state: ChatState, user: UserKey) -> Member:
    """Return the user's membership.

    Raises:
        ChatNotFound: The user is not a member. This is also the refusal for a chat that does not
            exist.
    """
    member = state.members.get(user)
    if member is None:
        raise ChatNotFound
    return member


class Removing(msgspec.Struct, frozen=True):
    """Remove a member from a chat. An open invitation of the member is deleted first."""

    appender: Appender
    invites: InviteStore
    clock: Clock

    async def __call__(self, chat: ChatId, user: UserKey, decide: Decide) -> None:
        """Delete the user's open invitation, then append the entries that `decide` returns.

        1. If there is an invitation, call `decide` without appending: an actor who may not remove
           the member must not delete the invitation either.
        2. Delete the invitation, if there is one.
        3. Append the entries that `decide` returns.

        Step 2 comes before step 3, so that a crash between them leaves no invitation behind. A
        member can have an open invitation if a crash prevented its deletion when the member joined,
        or if the tenant did not require invitations at that time.
        """
        if await self.invites.get(user, chat, self.clock.now()) is not None:

            def check(state: ChatState, now: int) -> list[Entry]:
                decide(state, now)
                return []

            await change(self.appender, chat, check)
            await self.invites.remove(user, chat)
        await change(self.appender, chat, decide)

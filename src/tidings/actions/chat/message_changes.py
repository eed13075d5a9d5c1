# SPDX-License-Identifier: Apache-2.0
"""Edit, redact and pin messages, and react to them."""

from contextlib import suppress

import msgspec

from tidings.actions.chat.appender import Appender
from tidings.actions.chat.before_send import BeforeSendHooks, HookedMessage
from tidings.actions.chat.changes import SealedContent, change, membership_of
from tidings.actions.chat.message_checks import check_content
from tidings.actions.chat.sending import PLAIN_TEXT
from tidings.actions.content.vault import Vault
from tidings.actions.identity.caller import Caller, require_tenant
from tidings.model import limits, roles
from tidings.model.chat_settings import check_not_frozen
from tidings.model.chats import ChatState
from tidings.model.entries import Entry, Kind
from tidings.model.formats import NOT_YET
from tidings.model.ids import ChatId, UserKey, tenant_itself, user_id
from tidings.model.refusals import (
    ChatNotFound,
    Forbidden,
    Invalid,
    MessageGone,
    MessageNotFound,
    Refusal,
    Unavailable,
)
from tidings.ports.log import Log
from tidings.ports.world import Clock


async def find_message(log: Log, reader: UserKey, chat: ChatId, sequence: int) -> Entry:
    """Return the message with this sequence, still encrypted, if the reader may see it.

    Raises:
        ChatNotFound: The chat does not exist, or the reader may not read it.
        MessageNotFound: There is no message with this sequence, or the reader may not see it.
    """
    page = await log.message(chat, reader, sequence)
    if page is None:
        raise ChatNotFound
    if not page.entries:
        raise MessageNotFound
    return page.entries[0]


class Edit(msgspec.Struct, frozen=True):
    """Replace the content of the caller's own message."""

    appender: Appender
    log: Log
    vault: Vault
    clock: Clock
    hooks: BeforeSendHooks | None = None

    async def __call__(self, actor: UserKey, chat: ChatId, sequence: int, content: str) -> None:
        target = await find_message(self.log, actor, chat, sequence)
        if content or target.files is None:
            check_content(content)
        if target.sender != actor:
            raise Forbidden("only the sender may edit a message")
        if target.redacted or target.expired(self.clock.now()):
            raise MessageGone
        if self.hooks is not None:
            content = await self._judged(self.hooks, target, content)
        sealed = SealedContent(self.vault, actor, target, content)

        def decide(state: ChatState, _now: int) -> list[Entry]:
            membership_of(state, actor)
            check_not_frozen(state.settings)
            entry = Entry(chat_id=chat, kind="edited", sender=actor, target=sequence)
            sealed.put_into(entry)
            entry.content_type = target.content_type
            return [entry]

        await change(self.appender, chat, decide, sealed)

    async def _judged(self, hooks: BeforeSendHooks, target: Entry, content: str) -> str:
        """Return the content, or what the hook of the tenant replaces it with.

        Raises:
            SendDeclined: The hook declines the edit.
            HookUnavailable: The hook does not answer, and the tenant requires an answer.
        """
        edit = HookedMessage(
            action="edit",
            chat_id=target.chat_id,
            sender_id=user_id(target.sender),
            content=content,
            content_type=target.content_type or PLAIN_TEXT,
            sequence=target.sequence,
        )
        _, verdict = await hooks.judge(target.sender, edit, has_files=target.files is not None)
        if isinstance(verdict, Refusal):
            raise verdict
        return content if verdict is None else verdict


class Redact(msgspec.Struct, frozen=True):
    """Remove the content of a message permanently, for everyone."""

    appender: Appender
    log: Log

    async def __call__(self, actor: UserKey, chat: ChatId, sequence: int) -> None:
        """Redact the message; do nothing if its content is already gone."""
        target = await find_message(self.log, actor, chat, sequence)

        def decide(state: ChatState, _now: int) -> list[Entry]:
            own = membership_of(state, actor)
            if target.sender != actor and not roles.may_redact_others(own.role):
                raise Forbidden("only the sender, admins and owners may redact a message")
            if target.redacted:
                return []
            return [Entry(chat_id=chat, kind="redacted", sender=actor, target=sequence)]

        with suppress(MessageGone):
            await change(self.appender, chat, decide)


class RedactAsTenant(msgspec.Struct, frozen=True):
    """Redact any message in a chat of the tenant."""

    appender: Appender
    log: Log

    async def __call__(self, caller: Caller, tenant: str, chat: ChatId, sequence: int) -> None:
        """Redact the message; do nothing if its content is already gone.

        The entry names the tenant as its sender.

        Raises:
            ChatNotFound: The tenant has no such chat.
            MessageNotFound: There is no message with this sequence.
        """
        require_tenant(caller, tenant)

        def decide(state: ChatState, _now: int) -> list[Entry]:
            if state.tenant != tenant:
                raise ChatNotFound
            if not 0 < sequence <= state.head:
                raise MessageNotFound
            sender = tenant_itself(tenant)
            return [Entry(chat_id=chat, kind="redacted", sender=sender, target=sequence)]

        try:
            await change(self.appender, chat, decide)
        except MessageGone:
            target = await self.log.entry(chat, sequence)
            if target is None or target.kind != "message":
                raise MessageNotFound from None


class React(msgspec.Struct, frozen=True):
    """React to a message with an emoji, or remove the caller's reaction."""

    appender: Appender
    log: Log

    async def __call__(
        self, actor: UserKey, chat: ChatId, sequence: int, emoji: str, *, away: bool = False
    ) -> None:
        """Add the reaction, or remove it if `away` is true; a repeat changes nothing."""
        check_emoji(emoji)
        await find_message(self.log, actor, chat, sequence)
        kind: Kind = "unreacted" if away else "reacted"

        def decide(state: ChatState, _now: int) -> list[Entry]:
            membership_of(state, actor)
            check_not_frozen(state.settings)
            return [Entry(chat_id=chat, kind=kind, sender=actor, target=sequence, emoji=emoji)]

        await change(self.appender, chat, decide)


class Pin(msgspec.Struct, frozen=True):
    """Pin a message of a chat for all members, or unpin it."""

    appender: Appender
    log: Log

    async def __call__(
        self, actor: UserKey, chat: ChatId, sequence: int, *, away: bool = False
    ) -> None:
        """Pin the message, or unpin it if `away` is true; a repeat changes nothing."""
        kind: Kind = "unpinned" if away else "pinned"
        if not self.log.may_append(kind):
            raise Unavailable(NOT_YET)
        await find_message(self.log, actor, chat, sequence)

        def decide(state: ChatState, _now: int) -> list[Entry]:
            own = membership_of(state, actor)
            if not roles.may_pin(own.role, is_direct=state.type == "direct"):
                raise Forbidden("only admins and owners may pin messages in a group")
            check_not_frozen(state.settings)
            return [Entry(chat_id=chat, kind=kind, sender=actor, target=sequence)]

        await change(self.appender, chat, decide)


def check_emoji(emoji: str) -> None:
    """Refuse a text that is empty, too long, or has spaces or control characters.

    All other texts are accepted, because new emoji are added every year.
    """
    if (
        not emoji
        or len(emoji.encode()) > limits.EMOJI_BYTES_MAX
        or any(char.isspace() or (char.isascii() and not char.isprintable()) for char in emoji)
    ):
        raise Invalid(
            f"emoji: must have 1 to {limits.EMOJI_BYTES_MAX} bytes and no spaces", "/emoji"
        )

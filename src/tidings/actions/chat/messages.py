# SPDX-License-Identifier: Apache-2.0
"""What becomes of a message: edited, redacted, reacted to."""

from dataclasses import dataclass

from tidings.actions.chat.appender import Appender
from tidings.actions.chat.changes import SealedContent, change, membership_of
from tidings.actions.chat.sending import check_content
from tidings.actions.content.vault import Vault
from tidings.model import limits, roles
from tidings.model.chats import ChatState
from tidings.model.entries import Entry, Kind
from tidings.model.ids import ChatId, UserKey
from tidings.model.refusals import ChatNotFound, Forbidden, Invalid, MessageGone, MessageNotFound
from tidings.ports.log import Log
from tidings.ports.world import Clock


async def find_message(log: Log, reader: UserKey, chat: ChatId, sequence: int) -> Entry:
    """The message at this place, sealed, if the reader may see it.

    Raises:
        ChatNotFound, MessageNotFound: Not there, or not for the reader.
    """
    page = await log.page(chat, reader, after=sequence - 1, limit=1)
    if page is None:
        raise ChatNotFound
    if not page.entries or page.entries[0].kind != "message":
        raise MessageNotFound
    return page.entries[0]


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace the content of an own message."""

    appender: Appender
    log: Log
    vault: Vault
    clock: Clock

    async def __call__(self, actor: UserKey, chat: ChatId, sequence: int, content: str) -> None:
        check_content(content)
        target = await find_message(self.log, actor, chat, sequence)
        if target.sender != actor:
            raise Forbidden("only the sender edits a message")
        if target.redacted or target.expired(self.clock.now()):
            raise MessageGone
        sealed = SealedContent(self.vault, actor, target, content)

        def decide(state: ChatState, _now: int) -> list[Entry]:
            membership_of(state, actor)
            entry = Entry(chat_id=chat, kind="edited", sender=actor, target=sequence)
            sealed.put_into(entry)
            entry.content_type = target.content_type
            return [entry]

        await change(self.appender, chat, decide, sealed)


@dataclass(frozen=True, slots=True)
class Redact:
    """Take the content of a message away for everyone, for ever."""

    appender: Appender
    log: Log

    async def __call__(self, actor: UserKey, chat: ChatId, sequence: int) -> None:
        """A message that has no content any more is left as it is."""
        target = await find_message(self.log, actor, chat, sequence)

        def decide(state: ChatState, _now: int) -> list[Entry]:
            own = membership_of(state, actor)
            if target.sender != actor and not roles.may_redact_others(own.role):
                raise Forbidden("the sender, admins and owners redact a message")
            if target.redacted:
                return []
            return [Entry(chat_id=chat, kind="redacted", sender=actor, target=sequence)]

        try:
            await change(self.appender, chat, decide)
        except MessageGone:
            return


@dataclass(frozen=True, slots=True)
class React:
    """Put an emoji to a message, or take one's own away."""

    appender: Appender
    log: Log

    async def __call__(
        self, actor: UserKey, chat: ChatId, sequence: int, emoji: str, *, away: bool = False
    ) -> None:
        """The same again changes nothing."""
        check_emoji(emoji)
        await find_message(self.log, actor, chat, sequence)
        kind: Kind = "unreacted" if away else "reacted"

        def decide(state: ChatState, _now: int) -> list[Entry]:
            membership_of(state, actor)
            return [Entry(chat_id=chat, kind=kind, sender=actor, target=sequence, emoji=emoji)]

        await change(self.appender, chat, decide)


def check_emoji(emoji: str) -> None:
    """Any short text without spaces or control characters will do: emoji grow every year."""
    if (
        not emoji
        or len(emoji.encode()) > limits.EMOJI_BYTES_MAX
        or any(char.isspace() or (char.isascii() and not char.isprintable()) for char in emoji)
    ):
        raise Invalid(f"emoji: 1 to {limits.EMOJI_BYTES_MAX} bytes, no spaces", "/emoji")

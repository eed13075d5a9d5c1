# SPDX-License-Identifier: Apache-2.0
"""Notify a member of messages: decide, claim the notice, read the content again, send.

The claim comes before the notice is sent. If a process dies in between, the notice is lost, and the
next one makes up for it. No notice is sent twice.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import msgspec

from tidings.actions.content.vault import Vault
from tidings.actions.identity.blocks import BlockLists
from tidings.actions.identity.profiles import ProfileCache
from tidings.actions.push.directory import PushDirectory
from tidings.actions.push.journal import PushJournal
from tidings.caches import LruCache
from tidings.metrics import declared
from tidings.model.entries import Entry
from tidings.model.ids import ChatId, UserKey, message_id, tenant_of, user_id
from tidings.model.limits import SECOND_MS
from tidings.model.push_rules import ArrivedMessage, Reason, heard, shown_body
from tidings.model.refusals import Unavailable
from tidings.model.unread_totals import UnreadTotal
from tidings.ports.log import Log
from tidings.ports.push import PushClaims, PushNotice, PushPreferences
from tidings.ports.world import Clock

COUNTED_MS: Final = 60 * SECOND_MS
"""How old a counted badge may be. Until then each notice adds one to it."""
COUNTED_USERS_MAX: Final = 50_000


class Badges:
    """Counts the unread total of users for notices, at most once a minute for each user."""

    def __init__(
        self, count_total: Callable[[UserKey], Awaitable[UnreadTotal]], clock: Clock
    ) -> None:
        self._count_total = count_total
        self._clock = clock
        self._counted: LruCache[UserKey, tuple[int, int]] = LruCache(COUNTED_USERS_MAX)
        """For each user, when the total was counted, and the total with the notices since then."""

    async def of(self, user: UserKey, *, more: int = 1, newest_at: int | None = None) -> int | None:
        """Return the user's total, after `more` new messages, the newest of which is from
        `newest_at`; None if it cannot be counted now."""
        now = self._clock.now()
        counted_at, total = self._counted.get(user) or (0, 0)
        if now - counted_at < COUNTED_MS:
            # Messages that waited when the total was counted are part of it.
            total += more if newest_at is None or newest_at >= counted_at else 0
        else:
            try:
                total, counted_at = (await self._count_total(user)).total, now
            except Unavailable:
                return None
        self._counted.put(user, (counted_at, total))
        return total

    def forget(self, user: UserKey) -> None:
        """Count the total of a user again for the next notice, because the user has read."""
        self._counted.pop(user)


class WaitingMessages(msgspec.Struct, frozen=True):
    """Messages of one chat of which one member may be notified, newest first."""

    user: UserKey
    chat: ChatId
    messages: Sequence[ArrivedMessage]
    unless_delivered: bool
    """Whether to notify only if no receipt shows that a device has received the messages. This is
    False if a device that is away may have sent the receipt."""


class MakeNotice(msgspec.Struct, frozen=True):
    """Decide whether a member is notified of messages, and claim the notice."""

    log: Log
    claims: PushClaims
    vault: Vault
    blocks: BlockLists
    profiles: ProfileCache
    preferences: PushPreferences
    directory: PushDirectory
    badges: Badges
    journal: PushJournal
    clock: Clock

    async def __call__(self, waiting: WaitingMessages) -> PushNotice | Reason:
        """Return the claimed notice, or the reason why there is none.

        Raises:
            StoreUnavailable: The store does not answer. A notice that was claimed is lost.
        """
        user, chat = waiting.user, waiting.chat
        messages = await self._heard(user, chat, waiting.messages)
        muted = [one.sequence for one in waiting.messages if one not in messages]
        self.journal.skipped((user,), chat, muted, "muted")
        if not messages:
            return "muted"
        made = await self._claimed(waiting, messages)
        # A burst may have more messages than are remembered, and its notice is about all of them.
        told = [one.sequence for one in messages] if muted else span(messages)
        if isinstance(made, str):
            self.journal.skipped((user,), chat, told, made)
        else:
            self.journal.claimed(user, chat, told, int(made.data["sequence"]))
        return made

    async def _claimed(
        self, waiting: WaitingMessages, messages: Sequence[ArrivedMessage]
    ) -> PushNotice | Reason:
        """Claim the notice of messages that are not muted; return it, or why there is none."""
        user, chat = waiting.user, waiting.chat
        if not await self.preferences.allows(user):
            return "quiet"
        newest = messages[0].sequence
        if not await self.claims.claim(
            user, chat, newest, unless_delivered=waiting.unless_delivered
        ):
            return "not_claimed"
        entry = await self._shown(user, chat, messages)
        if entry is None:
            declared.push.counts["content_gone"] += 1
            return "content_gone"
        return await self._notice(user, entry, more=len(messages))

    async def is_wanted(self, user: UserKey, notice: PushNotice) -> bool:
        """Return True if a claimed notice would still be made, so that it may be sent once more.

        Raises:
            StoreUnavailable: The store does not answer.
        """
        chat, sequence = ChatId(notice.data["chat_id"]), int(notice.data["sequence"])
        if not await self.claims.is_claimed(user, chat, sequence):
            return False
        entry = await self.log.entry(chat, sequence)
        if entry is None:
            return False
        message = ArrivedMessage(sequence, entry.sender, entry.does_mention(user))
        return (
            bool(await self._heard(user, chat, [message]))
            and await self.preferences.allows(user)
            and await self._shown(user, chat, [message]) is not None
        )

    async def _heard(
        self, user: UserKey, chat: ChatId, messages: Sequence[ArrivedMessage]
    ) -> list[ArrivedMessage]:
        """Return the messages that the user's mute of the chat lets through."""
        mute = await self.claims.mute(user, chat)
        if mute is None:
            return list(messages)
        now = self.clock.now()
        return heard(messages, now, mute.until, except_mentions=mute.except_mentions)

    async def _shown(
        self, user: UserKey, chat: ChatId, messages: Sequence[ArrivedMessage]
    ) -> Entry | None:
        """Return the newest message that still has content, and whose sender is not blocked."""
        for message in messages:
            if user in (await self.blocks.of(message.sender, [user])).blocked_by:
                continue
            entry = await self.log.entry(chat, message.sequence)
            if entry is None:
                continue
            await self.vault.open([entry], self.clock.now())
            if entry.gone is None:
                return entry
        return None

    async def _notice(self, user: UserKey, entry: Entry, *, more: int) -> PushNotice:
        title = body = None
        if (await self.directory.tenant(tenant_of(user))).content == "preview":
            profile = (await self.profiles.of([entry.sender]))[entry.sender]
            title, body = profile.display_name or user_id(entry.sender), shown_body(entry)
        return PushNotice(
            kind="message",
            data={
                "chat_id": entry.chat_id,
                "sequence": str(entry.sequence),
                "message_id": message_id(entry.chat_id, entry.sequence),
                "sender_id": user_id(entry.sender),
            },
            collapse_key=entry.chat_id,
            badge=await self.badges.of(user, more=more, newest_at=entry.created_at),
            title=title,
            body=body,
        )


def span(messages: Sequence[ArrivedMessage]) -> range:
    """Return the sequences from the oldest to the newest of some messages, in any order."""
    sequences = [message.sequence for message in messages]
    return range(min(sequences), max(sequences) + 1)


def clearing(chat: ChatId, read: int, badge: int | None) -> PushNotice:
    """Return the notice that removes earlier notices of a chat, because the chat was read."""
    data = {"chat_id": chat, "read": str(read)}
    return PushNotice(kind="clear", data=data, collapse_key=chat, badge=badge)

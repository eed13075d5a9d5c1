# SPDX-License-Identifier: Apache-2.0
"""Sends push notices for new messages to members who were not reached by a connection.

Push notices are sent only if there is a push service, and only for messages that still have their
content, are not silent, and are not older than `YOUNG_MS_MAX`. They are not sent to the sender, to
members who muted the chat or block the sender, to members who joined after the message, or to
former members.
"""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from tidings.actions.identity.blocks import BlockLists
from tidings.caches import LruCache
from tidings.metrics.counts import report_counts
from tidings.model.entries import Entry
from tidings.model.ids import ChatId, UserKey
from tidings.model.limits import SECOND_MS
from tidings.model.roles import Member
from tidings.ports.delivery import (
    DeliveryStore,
    MessageNotice,
    Push,
    PushMute,
)
from tidings.ports.world import Clock

YOUNG_MS_MAX: Final = 30 * SECOND_MS
"""Maximum age at which the entry in an event is used as it is. An older entry is read from the log,
and no push is sent for it."""
MUTES_SECONDS: Final = 30.0
"""Time for which the mutes of a chat are cached. A mute takes effect within this time."""
MUTED_CHATS_MAX: Final = 5_000


def is_young(entry: Entry, now: int) -> bool:
    """Return True if an entry was just appended. An entry from the future is young, too."""
    return now - entry.created_at <= YOUNG_MS_MAX


class PushNotifier:
    """Sends push notices for new messages. It caches which members have muted a chat."""

    def __init__(
        self, push: Push | None, deliveries: DeliveryStore, clock: Clock, blocks: BlockLists
    ) -> None:
        self._push = push
        self._deliveries = deliveries
        self._clock = clock
        self._blocks = blocks
        self._mutes: LruCache[ChatId, tuple[float, Mapping[UserKey, PushMute]]] = LruCache(
            MUTED_CHATS_MAX, name="mutes"
        )
        self.noticed = 0
        report_counts(self, "push")

    async def notify(
        self,
        runs: Iterable[tuple[Sequence[Entry], Collection[UserKey]]],
        members: Mapping[UserKey, Member],
    ) -> None:
        """Send push notices for each run of a chat to the members whom the run has not reached.

        Raises:
            StoreUnavailable: The mutes of the chat cannot be read; no push was sent.
        """
        if self._push is None:
            return
        now = self._clock.now()
        notices: list[MessageNotice] = []
        for entries, reached in runs:
            # A message whose content is gone by now needs no push.
            new = [entry for entry in entries if _is_pushed(entry, now)]
            away = [user for user in members if user not in reached]
            if new and away:
                mutes = await self._mutes_of(new[0].chat_id)
                for entry in new:
                    blocked_by = (await self._blocks.of(entry.sender, away)).blocked_by
                    wanting = {
                        user: members[user]
                        for user in away
                        if user not in blocked_by and _wants(user, entry, mutes, now)
                    }
                    if notice := _notice(entry, wanting):
                        notices.append(notice)
        if notices:
            self.noticed += sum(len(notice.users) for notice in notices)
            await self._push.send(notices)

    async def _mutes_of(self, chat: ChatId) -> Mapping[UserKey, PushMute]:
        now = asyncio.get_running_loop().time()
        cached = self._mutes.get(chat)
        if cached is not None and now - cached[0] <= MUTES_SECONDS:
            return cached[1]
        mutes = await self._deliveries.mutes(chat)
        self._mutes.put(chat, (now, mutes))
        return mutes


def _is_pushed(entry: Entry, now: int) -> bool:
    return (
        entry.kind == "message" and entry.gone is None and not entry.silent and is_young(entry, now)
    )


def _wants(user: UserKey, entry: Entry, mutes: Mapping[UserKey, PushMute], now: int) -> bool:
    mute = mutes.get(user)
    return mute is None or not mute.holds(now, is_mention=entry.does_mention(user))


def _notice(entry: Entry, wanting: Mapping[UserKey, Member]) -> MessageNotice | None:
    users = tuple(
        user
        for user, member in wanting.items()
        if user != entry.sender and member.joined < entry.sequence
    )
    if not users:
        return None
    return MessageNotice(
        chat_id=entry.chat_id, sequence=entry.sequence, sender=entry.sender, users=users
    )

# SPDX-License-Identifier: Apache-2.0
"""Sends push notices for new messages to members whom delivery did not reach.

No push is sent if there is no push service, for entries other than messages, for messages whose
content is gone by now, for messages older than `YOUNG_MS_MAX`, and to these users: the sender,
members who muted the chat, members who joined after the message, and users who are no longer
members.
"""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from tidings.caches import LruCache
from tidings.model.entries import Entry
from tidings.model.ids import ChatId, UserKey
from tidings.model.limits import SECOND_MS
from tidings.model.roles import Member
from tidings.ports.delivery import DeliveryStore, Push, PushNotice
from tidings.ports.world import Clock

YOUNG_MS_MAX: Final = 30 * SECOND_MS
"""Older events are only a hint: their content is read again, and no push is sent."""
MUTES_SECONDS: Final = 30.0
"""Time that the mutes of a chat are cached: a mute takes effect after this at the latest."""
MUTED_CHATS_MAX: Final = 5_000


def is_young(entry: Entry, now: int) -> bool:
    """Return whether an entry was just appended. A clock that is behind makes no entry old."""
    return now - entry.created_at <= YOUNG_MS_MAX


class Pushing:
    """Push notices for new messages, with cached mutes."""

    def __init__(self, push: Push | None, deliveries: DeliveryStore, clock: Clock) -> None:
        self._push = push
        self._deliveries = deliveries
        self._clock = clock
        self._mutes: LruCache[ChatId, tuple[float, Mapping[UserKey, int]]] = LruCache(
            MUTED_CHATS_MAX
        )
        self.noticed = 0

    async def notify(
        self,
        runs: Iterable[tuple[Sequence[Entry], Collection[UserKey]]],
        members: Mapping[UserKey, Member],
    ) -> None:
        """Push the messages of each run of a chat to the members whom that run has not reached.

        Raises:
            StoreUnavailable: The mutes of the chat cannot be read; no push was sent.
        """
        if self._push is None:
            return
        now = self._clock.now()
        notices: list[PushNotice] = []
        for entries, reached in runs:
            # A message whose content is gone by now is not pushed.
            new = [
                entry
                for entry in entries
                if entry.kind == "message" and entry.gone is None and is_young(entry, now)
            ]
            away = [user for user in members if user not in reached]
            if new and away:
                mutes = await self._mutes_of(new[0].chat_id)
                wanting = {user: members[user] for user in away if mutes.get(user, 0) <= now}
                notices += [notice for entry in new if (notice := _notice(entry, wanting))]
        if notices:
            self.noticed += sum(len(notice.users) for notice in notices)
            await self._push.send(notices)

    async def _mutes_of(self, chat: ChatId) -> Mapping[UserKey, int]:
        now = asyncio.get_running_loop().time()
        cached = self._mutes.get(chat)
        if cached is not None and now - cached[0] <= MUTES_SECONDS:
            return cached[1]
        mutes = await self._deliveries.mutes(chat)
        self._mutes.put(chat, (now, mutes))
        return mutes


def _notice(entry: Entry, wanting: Mapping[UserKey, Member]) -> PushNotice | None:
    users = tuple(
        user
        for user, member in wanting.items()
        if user != entry.sender and member.joined < entry.sequence
    )
    if not users:
        return None
    return PushNotice(
        chat_id=entry.chat_id, sequence=entry.sequence, sender=entry.sender, users=users
    )

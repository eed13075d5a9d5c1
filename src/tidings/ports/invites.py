# SPDX-License-Identifier: Apache-2.0
"""Invitations: those that wait for an answer, and for some days those that were declined."""

from typing import Protocol

from tidings.model.ids import ChatId, UserKey
from tidings.model.invites import Asked, Invite


class InviteStore(Protocol):
    """At most one for each user and chat. Every write is durable when it returns."""

    async def put(self, invite: Invite, now: int) -> Asked:
        """Keep it, in place of one into the same chat that waits, unless it is refused.

        `asking` says what comes of it. Two at the same moment may both find the last place.
        """
        ...

    async def get(self, user: UserKey, chat: ChatId, now: int) -> Invite | None:
        """The one into this chat that waits; read strongly."""
        ...

    async def pending(self, user: UserKey, now: int) -> list[Invite]:
        """Those that wait and have not expired, newest first; read strongly."""
        ...

    async def decline(self, user: UserKey, chat: ChatId, now: int) -> None:
        """Let the one into this chat wait no longer, but keep for some days that it was declined.

        Nothing happens if none waits.
        """
        ...

    async def remove(self, user: UserKey, chat: ChatId) -> None:
        """Keep it no longer, if it is there."""
        ...

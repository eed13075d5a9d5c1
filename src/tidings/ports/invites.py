# SPDX-License-Identifier: Apache-2.0
"""Invitations that wait for an answer."""

from typing import Protocol

from tidings.model.ids import ChatId, UserKey
from tidings.model.invites import Invite


class InviteStore(Protocol):
    """At most one for each user and chat. Every write is durable when it returns."""

    async def put(self, invite: Invite, now: int) -> bool:
        """Keep it, in place of an earlier one into the same chat; False if there is no room.

        `may_be_asked` says whether there is. Two at the same moment may both find the last place.
        """
        ...

    async def pending(self, user: UserKey, now: int) -> list[Invite]:
        """Those that have not expired, newest first; read strongly."""
        ...

    async def remove(self, user: UserKey, chat: ChatId) -> None:
        """Keep it no longer, if it is there."""
        ...

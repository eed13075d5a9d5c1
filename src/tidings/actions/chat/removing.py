# SPDX-License-Identifier: Apache-2.0
"""Removing a member from a chat, together with an invitation that would let the user back in."""

from dataclasses import dataclass

from tidings.actions.chat.appender import Appender
from tidings.actions.chat.changes import Decide, change
from tidings.model.chats import ChatState
from tidings.model.entries import Entry
from tidings.model.ids import ChatId, UserKey
from tidings.ports.chats import InviteStore
from tidings.ports.world import Clock


@dataclass(frozen=True, slots=True)
class Removing:
    """Remove a member, and the member's open invitation before that."""

    appender: Appender
    invites: InviteStore
    clock: Clock

    async def __call__(self, chat: ChatId, user: UserKey, decide: Decide) -> None:
        """Delete the user's open invitation into the chat, then append what `decide` returns.

        1. If there is an invitation, call `decide` without appending: an actor who may not remove
           the member must not delete the invitation either.
        2. Delete the invitation, if there is one.
        3. Append what `decide` returns.

        2 comes before 3, so that a crash between them leaves no invitation behind.
        A member has an invitation if it was open when the member was added, or if a crash left it.
        """
        if await self.invites.get(user, chat, self.clock.now()) is not None:

            def check(state: ChatState, now: int) -> list[Entry]:
                decide(state, now)
                return []

            await change(self.appender, chat, check)
            await self.invites.remove(user, chat)
        await change(self.appender, chat, decide)

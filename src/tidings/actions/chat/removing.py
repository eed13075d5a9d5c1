# SPDX-License-Identifier: Apache-2.0
"""Taking a member out of a chat: an old invitation must not be a way back."""

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
    """Carries out what was decided about a member who goes."""

    appender: Appender
    invites: InviteStore
    clock: Clock

    async def __call__(self, chat: ChatId, user: UserKey, decide: Decide) -> None:
        """The user's open invitation into the chat goes first, then the user.

        In this order, because whoever stops in between must not leave the invitation behind. And
        only if the decision stands: who may not remove somebody takes back no invitation either.
        Members have one if they were added while it waited, or it outlived its acceptance.
        """
        if await self.invites.get(user, chat, self.clock.now()) is not None:

            def check(state: ChatState, now: int) -> list[Entry]:
                decide(state, now)
                return []

            await change(self.appender, chat, check)
            await self.invites.remove(user, chat)
        await change(self.appender, chat, decide)

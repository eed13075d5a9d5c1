# SPDX-License-Identifier: Apache-2.0
"""Leaving many chats with one request."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tidings.actions.membership import RemoveMember
from tidings.model import limits
from tidings.model.ids import CHAT, ChatId, UserKey
from tidings.model.refusals import ChatNotFound, Invalid, Refusal

LEFT_AT_ONCE: Final = 4
"""Each is an entry in a log of its own; more at once would be felt by others."""


@dataclass(frozen=True, slots=True)
class LeaveChats:
    """Leave up to a hundred chats, each as if it were the only one."""

    remove_member: RemoveMember

    async def __call__(
        self, user: UserKey, chats: Sequence[str]
    ) -> list[tuple[str, Refusal | None]]:
        """For each chat, in the order given and once, what stood in the way; None: it was left.

        What was left stays left: whoever gets no answer, or a retryable refusal for some, asks
        again. A chat that the user is not in, or not any more, is not found.
        """
        wanted = list(dict.fromkeys(chats))
        if not 1 <= len(wanted) <= limits.LEAVE_CHATS_MAX:
            raise Invalid(f"chats: 1 to {limits.LEAVE_CHATS_MAX}", "/chats")
        free = asyncio.Semaphore(LEFT_AT_ONCE)

        async def leave(chat: str) -> Refusal | None:
            async with free:
                return await self._leave(user, chat)

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(leave(chat)) for chat in wanted]
        return [(chat, task.result()) for chat, task in zip(wanted, tasks, strict=True)]

    async def _leave(self, user: UserKey, chat: str) -> Refusal | None:
        if CHAT.fullmatch(chat) is None:
            return ChatNotFound()
        try:
            await self.remove_member(user, ChatId(chat), user)
        except Refusal as refusal:
            return refusal
        return None

# SPDX-License-Identifier: Apache-2.0
"""Deleting chats step by step. The entry `deleted` begins it, written like any other entry."""

from typing import Protocol

from tidings.model.deletions import Deletion
from tidings.model.ids import ChatId


class Deletions(Protocol):
    """Chats that are being deleted, or were. Durable when a call returns."""

    async def get(self, chat: ChatId) -> Deletion | None:
        """The job of this chat, if it is deleted; read strongly."""
        ...

    async def unfinished(self, *, before: int, limit: int) -> list[ChatId]:
        """Some of the chats whose deletion began no later than `before` and is not done."""
        ...

    async def lease(self, chat: ChatId, holder: str, now: int) -> Deletion | None:
        """Be the only one to work on it for a while; None if somebody else is.

        Two who work on the same chat do no harm. They would do everything twice, and pay for it.
        """
        ...

    async def step(self, deletion: Deletion, holder: str, now: int) -> Deletion | None:
        """Do the next part of the work, a bounded one, and return how far it is then.

        The same step again changes nothing, so that a process may die anywhere. None: somebody
        else holds the lease by now.
        """
        ...

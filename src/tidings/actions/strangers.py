# SPDX-License-Identifier: Apache-2.0
"""How many strangers a user may bring into chats in a day.

A stranger is somebody who never wrote to the user in a direct chat of the two, nor made one. That
is looked up by the pair, at most two reads a person; "shares any chat" would be a look through all
chats of both. Somebody whom one only wrote to remains a stranger: otherwise an unanswered message
would be leave to add.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tidings.model import limits
from tidings.model.ids import UserKey
from tidings.model.refusals import RateLimited
from tidings.ports.chats import Chats
from tidings.ports.logins import Allowance, Budgets
from tidings.ports.world import Clock


@dataclass(frozen=True, slots=True)
class Strangers:
    """Counts in the store: all processes share the count, and a restart forgets nothing."""

    chats: Chats
    budgets: Budgets
    clock: Clock
    is_counting: bool = True
    """False: as many as one likes."""

    async def among(self, user: UserKey, others: Sequence[UserKey]) -> list[UserKey]:
        """Those of the others who are strangers to the user, in their order."""
        if not others:
            return []
        known = await self.chats.acquainted(user, others)
        return [other for other in others if other not in known]

    async def spend(self, user: UserKey, count: int) -> "Spent":
        """Count so many strangers, before the user brings them into a chat.

        Raises:
            RateLimited: They are more than the user may bring into chats today. None is counted.
        """
        now = self.clock.now()
        day = now // limits.DAY_MS
        ends_at = (day + 1) * limits.DAY_MS
        allowance = Allowance(
            name=f"strangers:{user}:{day}", most=limits.USER_DAY_STRANGERS_MAX, expires_at=ends_at
        )
        spent = Spent(self.budgets, allowance, count if self.is_counting else 0)
        if spent.count and await self.budgets.add(allowance, count) > allowance.most:
            await spent.give_back()
            raise RateLimited("too many strangers were added today", ends_at - now)
        return spent


@dataclass(frozen=True, slots=True)
class Spent:
    """What was counted for one request."""

    budgets: Budgets
    allowance: Allowance
    count: int

    async def give_back(self) -> None:
        """Nobody was added after all."""
        if self.count:
            await self.budgets.add(self.allowance, -self.count)

# SPDX-License-Identifier: Apache-2.0
"""Who gets a connection: users take turns; credentials and revocations have a share of their own.

They have their own retries as well: where users have used up theirs, what was revoked is still
asked for again.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from tidings.ports.requesters import Lane, Requester
from tidings.ports.world import Chance
from tidings.stores.dynamodb.retrying import Budget, Retrying
from tidings.stores.dynamodb.trouble import Unsent
from tidings.stores.scheduler import Scheduler, wait_for_turn

USER_REQUESTS_AT_ONCE: Final = 16
"""Of a user, at most. One read of a chat list is some dozens of requests."""
USER_REQUESTS_WAITING_MAX: Final = 1_024
REQUESTS_WAITING_MAX: Final = 20_000
OWN_CONNECTIONS: Final[dict[Lane, int]] = {"credentials": 6, "revocations": 2}
"""Beside those for users."""


class Lanes:
    """The connections of one client, and who waits for them."""

    def __init__(self, connections: int, retrying: Retrying, chance: Chance) -> None:
        """So many connections are for users, and what they do is repeated by `retrying`."""
        self._schedulers = {
            lane: Scheduler(
                slots=slots,
                user_slots=min(USER_REQUESTS_AT_ONCE, max(1, slots // 2)),
                user_waiting_max=USER_REQUESTS_WAITING_MAX,
                waiting_max=REQUESTS_WAITING_MAX,
            )
            for lane, slots in {**OWN_CONNECTIONS, "users": connections}.items()
        }
        self._retrying: dict[Lane, Retrying] = {
            "users": retrying,
            "credentials": Retrying(chance, Budget()),
            "revocations": Retrying(chance, Budget()),
        }

    def retrying(self, who: Requester) -> Retrying:
        """What repeats requests made on this behalf."""
        return self._retrying[who.lane]

    @asynccontextmanager
    async def turn(self, who: Requester, until: float) -> AsyncIterator[None]:
        """A connection, for as long as this lasts.

        Raises:
            Unsent: None came free until this moment of the loop's time.
            RateLimited, StoreUnavailable: Too many wait.
        """
        scheduler = self._schedulers[who.lane]
        try:
            turn = await wait_for_turn(scheduler, who, until)
        except TimeoutError:
            raise Unsent("no connection came free") from None
        try:
            yield
        finally:
            scheduler.leave(turn)

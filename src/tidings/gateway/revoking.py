# SPDX-License-Identifier: Apache-2.0
"""Watching the feed of revocations: sockets whose right to be here ended are closed in seconds."""

import asyncio
import logging
from collections.abc import Iterable
from typing import Final, assert_never

from tidings.gateway.hub import Hub
from tidings.gateway.line import Line
from tidings.gateway.vigil import BLIND_SECONDS_MAX, Vigil
from tidings.model.ids import UserKey, tenant_of
from tidings.model.refusals import Unavailable
from tidings.ports.revocations import Revocation, Revocations
from tidings.tasks import Tasks
from tidings.wire.codes import Close

log = logging.getLogger("tidings.gateway")

LOOK_SECONDS: Final = 2.0
AGAIN_SECONDS: Final = 0.5


class RevocationWatch:
    """Reads the feed every two seconds, strongly.

    A process that cannot read it for five seconds does not know whom it may still serve: it closes
    its sockets and lets nobody in until it can.
    """

    def __init__(
        self,
        feed: Revocations,
        hub: Hub,
        vigil: Vigil,
        *,
        look_seconds: float = LOOK_SECONDS,
        blind_seconds_max: float = BLIND_SECONDS_MAX,
    ) -> None:
        self._feed = feed
        self._hub = hub
        self._vigil = vigil
        self._look_seconds = look_seconds
        self._blind_seconds_max = blind_seconds_max
        self._place = 0
        self._seen_at = 0.0
        self._tasks = Tasks("revocations")

    async def start(self) -> None:
        """Begin at the end of the feed: nobody is connected yet.

        Raises:
            StoreUnavailable: The feed cannot be read.
        """
        began = self._vigil.now()
        self._place = await self._feed.head()
        self._saw(began)
        self._tasks.start(self._run())

    async def close(self) -> None:
        """Watch no more."""
        await self._tasks.close()

    async def _run(self) -> None:
        while True:
            is_read = await self._look()
            if not is_read and self._vigil.now() - self._seen_at >= self._blind_seconds_max:
                self._go_blind()
            await asyncio.sleep(self._look_seconds if is_read else AGAIN_SECONDS)

    async def _look(self) -> bool:
        """Read what is new, if that can be done before the time is over."""
        began = self._vigil.now()
        left = self._seen_at + self._blind_seconds_max - began
        try:
            # A process that was asleep for long gets the time for one look all the same.
            async with asyncio.timeout(left if left > 0 else self._look_seconds):
                revocations = await self._feed.after(self._place)
        except (Unavailable, TimeoutError):
            return False
        for revocation in revocations:
            self._carry_out(revocation)
        self._place += len(revocations)
        self._saw(began)
        return True

    def _saw(self, at: float) -> None:
        """What was revoked before this moment has been carried out."""
        self._seen_at = at
        self._vigil.saw(at)
        self._vigil.is_blind = False

    def _go_blind(self) -> None:
        if not self._vigil.is_blind:
            log.warning("revocations cannot be read", extra={"action": "revocations_unread"})
        self._vigil.is_blind = True
        for line in self._hub:
            line.close(Close.OVERLOADED)

    def _carry_out(self, revocation: Revocation) -> None:
        for line in self._concerned(revocation):
            line.close(Close.NOT_AUTHENTICATED)

    def _concerned(self, revocation: Revocation) -> Iterable[Line]:
        match revocation.kind:
            case "user":
                return self._hub.of(UserKey(revocation.subject))
            case "tenant":
                return [line for line in self._hub if _tenant(line) == revocation.subject]
            case "tenant_key":
                # It opens no socket, and the tokens made with it end by themselves.
                return ()
            case _:
                assert_never(revocation.kind)


def _tenant(line: Line) -> str | None:
    user = line.conversation.user
    return None if user is None else tenant_of(user)

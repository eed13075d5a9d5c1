# SPDX-License-Identifier: Apache-2.0
"""Sockets whose right to be here ended are closed, as soon as the feed of revocations tells."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from tidings.actions.identity.caller import UserCaller
from tidings.actions.identity.revocation_watch import FeedListener, RevocationIndex
from tidings.gateway.client_connection import ClientConnection
from tidings.gateway.connection import CLOSE_SECONDS_MAX
from tidings.gateway.context import WriteLease
from tidings.gateway.hub import Hub
from tidings.model.refusals import Unavailable
from tidings.ports.requesters import set_requester, unknown_requester
from tidings.ports.sessions import Revocation
from tidings.tasks import Tasks
from tidings.wire.codes import Close


class RevocationCloser:
    """What a gateway does about news of the feed.

    A process that cannot read it for five seconds does not know whom it may still serve: it closes
    its sockets and lets nobody in until it can.
    """

    def __init__(
        self, hub: Hub, write_lease: WriteLease, counts: Callable[[UserCaller], Awaitable[bool]]
    ) -> None:
        """`counts` asks the store whether a token still does."""
        self._hub = hub
        self._write_lease = write_lease
        self._is_valid = counts
        self._tasks = Tasks("revoked sockets")

    async def close(self) -> None:
        """Ask nothing any more."""
        await self._tasks.close()

    def revoked(self, revocations: Sequence[Revocation]) -> None:
        """Close the sockets that these are about."""
        ended = RevocationIndex(revocations)
        for user, at in ended.users.items():
            for connection in self._hub.of(user):
                self._user_ended(connection, at)
        if ended.is_wide or ended.sessions:
            for connection in self._hub:
                caller = connection.conversation.caller
                if caller is not None and ended.concerns(caller):
                    connection.close(Close.NOT_AUTHENTICATED)

    def _user_ended(self, connection: ClientConnection, at: int) -> None:
        caller = connection.conversation.caller
        if caller is None or caller.issued_at <= at:
            connection.close(Close.NOT_AUTHENTICATED)
        else:
            # Given afterwards, by its own word: but who was deactivated may do nothing, whatever
            # the clock showed of who made the token.
            self._tasks.start(self._ask(connection, caller))

    async def _ask(self, connection: ClientConnection, caller: UserCaller) -> None:
        set_requester(unknown_requester(connection.address))
        try:
            if not await self._is_valid(caller) and connection.conversation.caller is caller:
                connection.close(Close.NOT_AUTHENTICATED)
        except Unavailable:
            connection.close(Close.OVERLOADED)

    def saw(self, at: float) -> None:
        """The feed was read: what was revoked before has been carried out."""
        self._write_lease.renew_feed(at)
        self._write_lease.is_blind = False

    def went_blind(self, *, was_late: bool) -> None:
        """Nobody can be told from somebody whose access was revoked.

        Where that may be for being late alone, nobody is sent away yet: until the next look nobody
        is let in, nothing is written, and nothing is sent in anybody's name.
        """
        self._write_lease.is_blind = True
        if was_late:
            return
        for connection in self._hub:
            connection.close(Close.OVERLOADED)


_conforms: type[FeedListener] = RevocationCloser


PAUSE_SECONDS_MAX = 0.05


async def drain(hub: Hub, seconds: float, jitter_ms: Callable[[int], int]) -> None:
    """Close every connection with 1012, evenly over the window; each is told when to come back.

    Where there are few, nobody has to be spread, and nobody waits for the window to end.
    """
    connections = list(hub)
    if not connections:
        return
    pause = min(seconds / len(connections), PAUSE_SECONDS_MAX)
    window_ms = int(seconds * 1_000)
    for connection in connections:
        connection.close(Close.RESTARTING, jitter_ms(max(window_ms, 1_000)))
        await asyncio.sleep(pause)
    await hub.emptied(CLOSE_SECONDS_MAX)

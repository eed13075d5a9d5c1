# SPDX-License-Identifier: Apache-2.0
"""Closes connections whose credentials are revoked, and all connections before a restart."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from tidings.actions.identity.caller import UserCaller
from tidings.actions.identity.revocation_watch import FeedListener, RevocationIndex
from tidings.gateway.client_connection import ClientConnection, ConnectedUsers
from tidings.gateway.connection import CLOSE_SECONDS_MAX
from tidings.gateway.context import WriteLease
from tidings.gateway.hub import Hub
from tidings.model.refusals import Unavailable
from tidings.ports.sessions import Revocation
from tidings.ports.store import set_requester, unknown_requester
from tidings.tasks import Tasks
from tidings.wire.codes import Close


class RevocationCloser:
    """Listens to the revocation feed, and closes sockets whose credentials are revoked.

    A process that cannot read the revocation feed for five seconds cannot know which credentials
    are still valid. It closes its sockets, and admits no new ones until it can read the feed again.
    """

    def __init__(
        self,
        hub: ConnectedUsers,
        write_lease: WriteLease,
        is_valid: Callable[[UserCaller], Awaitable[bool]],
    ) -> None:
        """Set up the closer; `is_valid` asks the store whether a token is still valid."""
        self._hub = hub
        self._write_lease = write_lease
        self._is_valid = is_valid
        self._tasks = Tasks("revoked sockets")

    async def close(self) -> None:
        """Cancel the checks that are running."""
        await self._tasks.close()

    def revoked(self, revocations: Sequence[Revocation]) -> None:
        """Close the sockets whose credentials were revoked."""
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
            # According to its timestamp, the token was issued after the revocation. The issuer's
            # clock may be wrong, and a deactivated user may do nothing: ask the store.
            self._tasks.start(self._ask(connection, caller))

    async def _ask(self, connection: ClientConnection, caller: UserCaller) -> None:
        set_requester(unknown_requester(connection.address))
        try:
            if not await self._is_valid(caller) and connection.conversation.caller is caller:
                connection.close(Close.NOT_AUTHENTICATED)
        except Unavailable:
            connection.close(Close.OVERLOADED)

    def saw(self, at: float) -> None:
        """Renew the lease to write to sockets, because the revocation feed was read at this time,
        and its revocations were applied."""
        self._write_lease.renew_feed(at)
        self._write_lease.is_blind = False

    def went_blind(self, *, was_late: bool) -> None:
        """Stop serving, because valid credentials cannot be distinguished from revoked ones.

        With `was_late`, the process itself may have been slow, so no socket is closed yet. Until
        the revocation feed is read again, no socket is admitted, nothing is written, and no message
        is accepted.
        """
        self._write_lease.is_blind = True
        if was_late:
            return
        for connection in self._hub:
            connection.close(Close.OVERLOADED)


_conforms: type[FeedListener] = RevocationCloser


PAUSE_SECONDS_MAX = 0.05


async def drain(hub: Hub, seconds: float, jitter_ms: Callable[[int], int]) -> None:
    """Close every connection with code 1012, spread over at most `seconds`.

    Each client gets a random time to wait before it reconnects.
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

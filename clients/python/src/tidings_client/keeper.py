# SPDX-License-Identifier: Apache-2.0
"""Keeps a client connected: opens sockets, says hello, renews tokens, comes back."""

import asyncio
import logging
from ssl import SSLContext
from typing import Final

from tidings_client.backoff import Backoff, Ended, Stop
from tidings_client.connection import Connection, TurnedAway
from tidings_client.conversation import CONNECTION, Conversation
from tidings_client.errors import ClientStopped
from tidings_client.event_queue import EventQueue
from tidings_client.events import Disconnected
from tidings_client.frames import Auth, ServerFrame
from tidings_client.tokens import Tokens
from tidings_client.world import World

TICK_SECONDS: Final = 0.5
STEADY_SECONDS: Final = 10.0
"""A connection that was live for so long counts as a good one."""
SLEPT_SECONDS: Final = 15.0
"""If the clock on the wall is ahead by so much, the machine slept, and the socket is dead."""
RENEWAL_PAUSE_SECONDS: Final = 5.0
RENEWAL_LOOK_SECONDS: Final = 3_600.0

log = logging.getLogger("tidings_client")


class Keeper:
    """One connection after the other, for one conversation."""

    def __init__(
        self,
        url: str,
        device: str | None,
        conversation: Conversation,
        tokens: Tokens,
        queue: EventQueue,
        backoff: Backoff,
        world: World,
        ssl_context: SSLContext | None,
    ) -> None:
        self._url = url
        self._ssl_context = ssl_context
        self._device = device
        self._conversation = conversation
        self._tokens = tokens
        self._queue = queue
        self._backoff = backoff
        self._world = world
        self._loop = asyncio.get_running_loop()
        self._connection: Connection | None = None
        self._token = ""
        """The one used last."""
        self._is_token_refused = False
        self._trouble: Exception | None = None
        """Why the conversation cannot go on at all."""

    async def run(self) -> None:
        """Stay connected. Raises ClientStopped, or whatever makes going on impossible."""
        while True:
            ended = await self._one_connection()
            if self._trouble is not None:
                raise self._trouble
            decision = self._backoff.after(ended)
            seconds = None if isinstance(decision, Stop) else decision.seconds
            event = Disconnected(code=ended.code, reason=ended.reason, retry_in=seconds)
            self._queue.put_notice(event, CONNECTION)
            if isinstance(decision, Stop):
                raise ClientStopped(ended.code or 0, ended.reason)
            self._is_token_refused = decision.needs_token
            await asyncio.sleep(decision.seconds)

    async def tick(self) -> None:
        """What has to happen as time passes."""
        live_since: float | None = None
        wall, now = self._world.wall(), self._loop.time()
        while True:
            await asyncio.sleep(TICK_SECONDS)
            wall_passed, passed = self._world.wall() - wall, self._loop.time() - now
            wall, now = self._world.wall(), self._loop.time()
            reason = self._conversation.tick(now, int(wall * 1_000))
            if reason is None and wall_passed - passed > SLEPT_SECONDS:
                reason = "the machine slept"
            if reason is not None and self._connection is not None:
                self._connection.give_up(reason)
            live_since = (live_since or now) if self._conversation.is_live else None
            if live_since is not None and now - live_since > STEADY_SECONDS:
                self._backoff.steady()

    async def _one_connection(self) -> Ended:
        """Connect and stay until it ends; how it ended."""
        try:
            self._token = await self._good_token()
        except ClientStopped:
            raise
        except Exception as error:
            # The provider is the application's: whatever it raises, there is no token for now.
            log.warning("no token: %r", error)
            return Ended(f"no token: {error!r}")
        connection = Connection(self._receive)
        try:
            await connection.open(self._url, self._ssl_context)
        except TurnedAway as error:
            return Ended(str(error), away_seconds=error.away_seconds)
        except OSError as error:
            return Ended(str(error) or repr(error))
        return await self._converse(connection)

    async def _good_token(self) -> str:
        if self._is_token_refused:
            return await self._tokens.replaced(self._token)
        return await self._tokens.current()

    async def _converse(self, connection: Connection) -> Ended:
        self._connection = connection
        self._conversation.connected(connection.say, self._token, self._device, self._loop.time())
        try:
            async with asyncio.TaskGroup() as tasks:
                renewal = tasks.create_task(self._renew(connection))
                ended = await connection.ended()
                renewal.cancel()
            return ended
        finally:
            self._connection = None
            self._conversation.leaving()
            self._conversation.lost()
            await connection.close()

    async def _renew(self, connection: Connection) -> None:
        """Replace the token before it expires."""
        while True:
            left = self._tokens.seconds_left()
            if left > 0:
                await asyncio.sleep(min(left, RENEWAL_LOOK_SECONDS))
                continue
            try:
                self._token = await self._tokens.replaced(self._token)
                connection.say(Auth(self._token))
            except Exception as error:
                # As above; the one in use may still be good for a while.
                log.warning("no new token: %r", error)
            await asyncio.sleep(RENEWAL_PAUSE_SECONDS)

    def _receive(self, frame: ServerFrame) -> None:
        try:
            self._conversation.receive(frame, self._loop.time())
        except Exception as error:
            # What goes wrong here would go wrong again after every reconnect: it must be seen.
            self._trouble = error
            if self._connection is not None:
                self._connection.give_up(f"cannot go on: {error}")

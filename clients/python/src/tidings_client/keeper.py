# SPDX-License-Identifier: Apache-2.0
"""Keep a client connected: open sockets, send hello, renew tokens, and reconnect."""

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
"""After a connection was live for this long, the next reconnect starts with a short pause again."""
SLEPT_SECONDS: Final = 15.0
"""If the system clock is ahead of the monotonic clock by this time, the machine slept, and the
socket is dead."""
RENEWAL_PAUSE_SECONDS: Final = 5.0
RENEWAL_LOOK_SECONDS: Final = 3_600.0

log = logging.getLogger("tidings_client")


class Keeper:
    """Opens one connection after another, for one conversation."""

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
        """The token that was used last."""
        self._is_token_refused = False
        self._trouble: Exception | None = None
        """An error after which the conversation cannot continue."""

    async def run(self) -> None:
        """Stay connected.

        Raises:
            ClientStopped: The server told this client not to reconnect.
            Exception: An error in the conversation, which would occur again.
        """
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
        """Do the regular work twice a second: pings, timeouts, and the check for a sleep."""
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
        """Open a connection and use it until it ends; return how it ended."""
        try:
            self._token = await self._good_token()
        except ClientStopped:
            raise
        except Exception as error:
            # The application's provider failed: whatever it raises, there is no token for now.
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
        now, wall_ms = self._loop.time(), int(self._world.wall() * 1_000)
        self._conversation.connected(connection.say, self._token, self._device, now, wall_ms)
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
                # The provider failed; the current token may still be valid for a while.
                log.warning("no new token: %r", error)
            await asyncio.sleep(RENEWAL_PAUSE_SECONDS)

    def _receive(self, frame: ServerFrame) -> None:
        try:
            self._conversation.receive(frame, self._loop.time())
        except Exception as error:
            # This error would occur again after every reconnect, so the application must see it.
            self._trouble = error
            if self._connection is not None:
                self._connection.give_up(f"cannot go on: {error}")

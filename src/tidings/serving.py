# SPDX-License-Identifier: Apache-2.0
"""Serving: from a core to an open port, and back again without losing anything."""

import asyncio
import gc
import json
import logging
import secrets
import signal
from collections.abc import Callable
from contextlib import suppress

from tidings.actions.slices import Slices
from tidings.actions.sweeping import Sweeper
from tidings.actions.tasks import Tasks
from tidings.assembly import Core, open_core
from tidings.config import Config
from tidings.delivery.fan_out import FanOut
from tidings.gateway.desk import Desk
from tidings.gateway.door import Door
from tidings.gateway.drain import drain
from tidings.gateway.handshake import Handshake
from tidings.gateway.http import Http
from tidings.gateway.hub import Hub
from tidings.gateway.presence import PresenceDesk
from tidings.rest import make_rest
from tidings.stores.sqlite.trouble import StoreBroken
from tidings.wire.codes import Close
from tidings.world import jitter_ms

log = logging.getLogger("tidings.serving")

SERVER_FILE = "server.json"
"""Says where the server with this folder listens, for commands that have to ask it."""


ABORT_SECONDS = 1.0
"""How long a server with a broken store goes on refusing before it stops."""


class Health:
    """Whether this process can serve, and if not, why."""

    def __init__(self) -> None:
        self.trouble: str | None = "starting"


class Server:
    """One serving process: opened, then waited for, then closed."""

    def __init__(self, core: Core, config: Config, health: Health) -> None:
        self._core = core
        self._config = config
        self._health = health
        self._tasks = Tasks("server")
        self._hub = Hub()
        self._presence = PresenceDesk(self._hub, core.store.users, core.clock)
        self._fan_out = FanOut(
            core.bus,
            self._hub,
            core.appender.state_nowait,
            core.appender.state,
            lambda user, chat: core.store.receipts.unread(user, chat, core.clock.now()),
        )
        self._handshake = Handshake(self._desk(), frozenset(config.allowed_origins))
        self._http = Http(make_rest(core, health), self._handshake.protocol)
        self._door = Door(self._handshake.protocol, self._http.protocol)

    def _desk(self) -> Desk:
        core = self._core
        return Desk(
            authenticate=core.authenticate,
            held=core.store.chats.held,
            peers_present=self._presence.snapshot,
            verbs=core.verbs,
            receipts=core.receipts,
            appender=core.appender,
            bus=core.bus,
            in_turn=Slices(),
            writes=Slices(),
            hub=self._hub,
            clock=core.clock,
            epoch=core.store.deployment.epoch,
            new_connection_id=lambda: secrets.token_hex(8),
            jitter_ms=jitter_ms,
        )

    async def open(self) -> str:
        """Listen; returns the address to look at."""
        core = self._core
        self._tasks.start(Sweeper(core.store.sweeping, core.bus, core.clock).run())
        if core.vault.is_rotation_unfinished:
            self._tasks.start(self._resume_rotation())
        await self._door.open(self._config.host, self._config.port)
        host = self._config.host
        url = f"http://{f'[{host}]' if ':' in host else host}:{self._door.port}"
        self._tell_where(url)
        self._health.trouble = None
        return url

    def _tell_where(self, url: str) -> None:
        """Whole or not at all: somebody may be reading."""
        path = self._config.data / SERVER_FILE
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps({"url": url}))
        fresh.replace(path)

    async def _resume_rotation(self) -> None:
        await self._core.rotate_keys.resume()

    async def close(self) -> None:
        """Send everyone home, finish what is under way, then stop."""
        self._health.trouble = self._health.trouble or "draining"
        (self._config.data / SERVER_FILE).unlink(missing_ok=True)
        self._handshake.is_draining = True
        await self._door.close()
        await drain(self._hub, self._config.drain_seconds, jitter_ms)
        await self._http.drain()
        await self._end()

    async def abort(self) -> None:
        """The store is broken: tell everyone at once and stop. Nothing more can be promised."""
        (self._config.data / SERVER_FILE).unlink(missing_ok=True)
        self._handshake.is_draining = True
        for connection in self._hub:
            connection.close(Close.RESTARTING)
        # Whoever asks meanwhile is told why; then the port is gone.
        await asyncio.sleep(ABORT_SECONDS)
        await self._door.close()
        await self._http.drain()
        await self._end()

    async def _end(self) -> None:
        self._hub.close()
        await self._presence.close()
        await self._fan_out.close()
        await self._tasks.close()


def _rest_the_collector() -> None:
    """Look for cycles less often, and never among what the process started with.

    A message makes a few dozen objects and no cycle: looking every 700 of them took 8 % of the
    processor under full load.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


async def serve(config: Config, announce: Callable[[str], None]) -> int:
    """Serve until told to stop; returns the exit code: 0, or 1 if the store broke.

    Raises:
        StoreRefused, KeyRefused: What only the operator can put right.
        OSError: The address cannot be had.
    """
    stop = asyncio.Event()
    health = Health()

    def broken(trouble: StoreBroken) -> None:
        health.trouble = str(trouble)
        stop.set()

    loop = asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, stop.set)
    with suppress(StoreBroken):
        async with open_core(config, broken) as core:
            server = Server(core, config, health)
            try:
                url = await server.open()
                _rest_the_collector()
                log.info("serving", extra={"action": "serving", "url": url})
                announce(url)
                await stop.wait()
                log.info("stopping", extra={"action": "stopping"})
            finally:
                await (server.abort() if health.trouble else server.close())
    return 1 if health.trouble not in (None, "draining") else 0

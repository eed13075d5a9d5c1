# SPDX-License-Identifier: Apache-2.0
"""Runs the server: all roles of one process behind one port."""

import asyncio
import gc
import itertools
import json
import logging
import signal
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from functools import partial

from tidings.actions.chat.deleting import Sweeper
from tidings.api.access import Access
from tidings.api.sign_in import SignIn
from tidings.assembly import Core, open_core
from tidings.assembly.cluster import ClusterLinks, make_limits, open_cluster_links
from tidings.assembly.control import FrontLinks, Supervised
from tidings.assembly.delivery import run_delivery
from tidings.assembly.demo import demo_of, make_demo
from tidings.assembly.gateway import Sockets, count_unread
from tidings.assembly.metrics import ProcessMetrics, included_metrics, measure_loop_lag, open_tracer
from tidings.assembly.process import dump_state_on_signal, find_allocator
from tidings.assembly.push_queue import run_own_push
from tidings.assembly.rest import make_identity_verbs, make_rest
from tidings.assembly.state import StateReporter
from tidings.assembly.stores import make_local_tables
from tidings.assembly.system import wait_patiently
from tidings.assembly.tls import port_certificate
from tidings.config import Config, DynamoDb
from tidings.data_folder import SERVER_FILE
from tidings.delivery.push_answers import ClusterPushes
from tidings.delivery.remote_notices import RemoteNotices
from tidings.fronts.owner import Fronts
from tidings.gateway.client_connection import ConnectedUsers
from tidings.gateway.http.connection_limits import ConnectionLimits
from tidings.gateway.http.listener import Http, Listener
from tidings.gateway.hub import Hub
from tidings.gateway.journals import ClusterJournals
from tidings.gateway.looking import ConnectedDevices
from tidings.gateway.presence import OnlineUsers, ProfileFrames
from tidings.model.refusals import StoreUnavailable, Unavailable
from tidings.ports.bus import Appended
from tidings.ports.journals import Journals, PushJournals
from tidings.ports.processes import Trouble
from tidings.ports.push import LookingDevices
from tidings.stores.sqlite.engine.connections import StoreBroken
from tidings.tasks import Tasks

log = logging.getLogger("tidings.serving")

ABORT_SECONDS = 1.0
"""How long a server with a broken store refuses requests before it stops."""
START_SECONDS_MAX = 60.0
"""How long a server that starts waits for DynamoDB, which may start too, or have too much to do."""
START_PAUSE_SECONDS = 1.0


class ServerHealth:
    """Health of this process: the reason why it cannot serve requests, or None."""

    def __init__(self) -> None:
        self.trouble: Trouble | None = "starting"


class Server:
    """The server of this process, which is opened once and closed once."""

    def __init__(
        self,
        core: Core,
        config: Config,
        others: ClusterLinks | None,
        health: ServerHealth,
        fronts: Fronts | None,
        *,
        has_demo: bool,
    ) -> None:
        self._core = core
        self._fronts = fronts
        self._config = config
        self._health = health
        self._tasks = Tasks("server")
        self._is_alone = others is None
        self._push = AsyncExitStack()
        self._metrics = ProcessMetrics(config, core, others)
        network = config.network
        rate_limits = make_limits(config, others)
        self._sockets = None
        if "gateway" in config.process.roles:
            self._sockets = Sockets(core, config, others, rate_limits, fronts)
        own_hub = self._sockets.own_hub if self._sockets else Hub()
        hub: ConnectedUsers = self._sockets.hub if self._sockets else own_hub
        gateways = others.remote_gateways if others else None
        self._reporter = StateReporter(config, core, others, health, own_hub, fronts)
        self._profile_frames = ProfileFrames(core.bus, hub, core.store.users, core.blocks, gateways)
        self._remote_notices = _remote_notices(core, others) if others else None
        origins = frozenset(network.allowed_origins)
        access = Access(rate_limits, network.trusted_proxies, origins)
        is_whole = "api" in config.process.roles
        self._identity = make_identity_verbs(core, OnlineUsers(hub, gateways))
        self._demo = demo_of(self._identity) if has_demo else None
        sign_in = SignIn(config.sms != "off", self._demo)
        rest = make_rest(
            core,
            health,
            self._identity,
            self._reporter.verbs(),
            access=access,
            is_whole=is_whole,
            sign_in=sign_in,
            journals=_journals(self._sockets, others, fronts),
            pushes=_pushes(core, others),
        )
        self._looking: LookingDevices = ConnectedDevices(own_hub) if fronts is None else fronts
        connections = ConnectionLimits.of_this_process(network.trusted_proxies)
        if fronts is not None:
            fronts.count_with(connections)
        handshake = self._sockets.handshake if self._sockets else None
        self._http = Http(rest, handshake, connections, core.authenticate.is_root_header)
        has_sockets = self._sockets is not None
        self._certificate = port_certificate(network)
        tls = self._certificate.context if self._certificate else None
        self._listener = Listener(
            self._http.protocol, connections, has_sockets=has_sockets, tls=tls
        )

    async def open(self, inherited: Sequence[socket.socket] = ()) -> str:
        """Start background tasks, listen on the port, and return the URL.

        If there are sockets that listen already, they are used.
        """
        core = self._core
        await self._metrics.open()
        self._tasks.repeat(measure_loop_lag)
        sweeper = Sweeper(core.store.sweeping, core.bus, core.clock)
        self._tasks.repeat(sweeper.sweep_when_due)
        core.bus.subscribe(core.indexer.on_appended, Appended)
        self._tasks.repeat(core.indexer.index_when_due)
        self._tasks.repeat(core.files.sweep.sweep_when_due)
        if (allocator := find_allocator()) is not None:
            self._tasks.repeat(allocator.run)
        if core.vault.is_rotation_unfinished:
            self._tasks.start(self._resume_rotation())
        if self._is_alone:
            run_own_push(self._config, core, self._looking, self._push)
        # Processes of all roles need the watch, because those that deliver cache content keys too.
        await core.watch.start()
        if self._sockets is not None:
            self._sockets.open()
        if self._fronts is not None:
            await self._fronts.complete()
        if self._demo is not None:
            await make_demo(core, self._identity)
        host = self._config.network.host
        await self._listener.open(host, self._config.network.port, inherited)
        scheme = "http" if self._certificate is None else "https"
        url = f"{scheme}://{f'[{host}]' if ':' in host else host}:{self._listener.port}"
        self._write_server_file(url)
        if self._certificate is not None:
            self._certificate.reload_on_signal(partial(self._write_server_file, url))
        self._health.trouble = None
        self._tasks.repeat(self._reporter.report_when_due)
        return url

    def _write_server_file(self, url: str) -> None:
        """Write the file atomically, because a command may be reading it.

        It contains the certificate, so that commands on this machine trust it without a name.
        """
        content = {"url": url}
        if self._certificate is not None:
            content["certificate"] = self._certificate.pem
        self._config.data.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = self._config.data / SERVER_FILE
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps(content))
        fresh.replace(path)

    async def _resume_rotation(self) -> None:
        for attempt in itertools.count(1):
            try:
                await self._core.rotate_keys.resume()
            except Unavailable:
                await wait_patiently(attempt)
            else:
                return

    async def close(self) -> None:
        """Close connections gradually, finish open requests, then stop."""
        self._health.trouble = self._health.trouble or "draining"
        self._refuse()
        await self._listener.close()
        if self._sockets is not None:
            await self._sockets.drain(self._config.process.drain_seconds)
        await self._http.drain()
        await self._end()

    async def abort(self) -> None:
        """Close all connections at once and stop, because the store is broken."""
        self._refuse()
        if self._sockets is not None:
            self._sockets.abort()
        # Until the port closes, requests are refused with the reason.
        await asyncio.sleep(ABORT_SECONDS)
        await self._listener.close()
        await self._http.drain()
        await self._end()

    def _refuse(self) -> None:
        (self._config.data / SERVER_FILE).unlink(missing_ok=True)
        if self._sockets is not None:
            self._sockets.refuse()

    async def _end(self) -> None:
        await self._core.watch.close()
        if self._sockets is not None:
            await self._sockets.close()
        await self._profile_frames.close()
        if self._remote_notices is not None:
            await self._remote_notices.close()
        await self._push.aclose()
        await self._tasks.close()
        await self._reporter.close()
        await self._metrics.close()


def _journals(
    sockets: Sockets | None, others: ClusterLinks | None, fronts: Fronts | None
) -> Journals | None:
    if fronts is not None:
        return ClusterJournals(fronts, fronts, None)
    local = sockets.local_journal if sockets is not None else None
    return local if others is None else ClusterJournals(others.registry, others.handover, local)


def _pushes(core: Core, others: ClusterLinks | None) -> PushJournals:
    own = core.push.send.journal
    return own if others is None else ClusterPushes(others.name, own, others.handover)


def _remote_notices(core: Core, others: ClusterLinks) -> RemoteNotices:
    return RemoteNotices(
        core.bus,
        others.remote_gateways,
        core.notice_states.cached,
        core.notice_states.state,
        count_unread(core),
        core.blocks,
    )


def tune_gc() -> None:
    """Make the garbage collector run less often, and ignore all objects created at start-up.

    A message creates a few dozen objects and no cycle. By default the collector runs after every
    700 objects, which took 8 % of the CPU time under full load.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


@asynccontextmanager
async def _server(
    config: Config,
    health: ServerHealth,
    broken: Callable[[StoreBroken], None],
    stop: Callable[[], None],
    supervised: Supervised | None,
    *,
    has_demo: bool,
) -> AsyncIterator[Server]:
    """Open everything that a server needs, and yield the server, which is not open yet."""
    await make_local_tables(config)
    async with (
        open_tracer(config),
        open_core(config, broken) as core,
        open_cluster_links(config, core) as others,
        run_delivery(config, core, others),
        _open_fronts(core, supervised, stop) as fronts,
    ):
        yield Server(core, config, others, health, fronts, has_demo=has_demo)


@asynccontextmanager
async def _open_fronts(
    core: Core, supervised: Supervised | None, stop: Callable[[], None]
) -> AsyncIterator[Fronts | None]:
    """Yield the fronts of this process, which come when their links do; None if it has none."""
    if supervised is None:
        yield None
        return
    fronts = Fronts(core.store.deployment.epoch, supervised.fronts) if supervised.fronts else None
    links = FrontLinks(supervised, fronts, stop)
    try:
        with included_metrics(links.metrics):
            yield fronts
    finally:
        await links.close()


async def serve(
    config: Config,
    announce: Callable[[str], None],
    *,
    has_demo: bool = False,
    supervised: Supervised | None = None,
) -> int:
    """Run the server until a signal to stop; return the exit code, which is 1 if the store broke.

    With `has_demo`, there are demo users, as whom anybody on this machine can sign in. `supervised`
    is what a supervisor gives one of several processes.

    Raises:
        SetupError: The operator has to change something first.
        StoreUnavailable: The store cannot be reached now.
        OSError: The address is not available.
    """
    stop = asyncio.Event()
    health = ServerHealth()

    def broken(_trouble: StoreBroken) -> None:
        # The store has logged the details before it calls this.
        health.trouble = "the store is broken"
        stop.set()

    loop = asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, stop.set)
    dump_state_on_signal()
    give_up_at = loop.time() + START_SECONDS_MAX
    while not stop.is_set():
        open_server = _server(config, health, broken, stop.set, supervised, has_demo=has_demo)
        try:
            return await _serve_until(stop, open_server, health, announce, supervised)
        except StoreUnavailable as reason:
            may_answer = isinstance(config.store, DynamoDb) and health.trouble == "starting"
            if not may_answer or loop.time() > give_up_at:
                raise
            log.warning(
                "waiting for the store, which does not answer: %s",
                reason.__cause__ or reason.detail,
                extra={"action": "store_awaited"},
            )
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), START_PAUSE_SECONDS)
    return 0


async def _serve_until(
    stop: asyncio.Event,
    open_server: AbstractAsyncContextManager[Server],
    health: ServerHealth,
    announce: Callable[[str], None],
    supervised: Supervised | None,
) -> int:
    """Open the server, run it until it has to stop, and return the exit code."""
    with suppress(StoreBroken):
        async with open_server as server:
            try:
                url = await server.open(supervised.listeners if supervised else ())
                tune_gc()
                log.info("serving", extra={"action": "serving", "url": url})
                announce(url)
                if supervised is not None:
                    supervised.say_ready()
                await stop.wait()
                log.info("stopping", extra={"action": "stopping"})
            finally:
                await (server.abort() if health.trouble else server.close())
    return 1 if health.trouble not in (None, "draining") else 0

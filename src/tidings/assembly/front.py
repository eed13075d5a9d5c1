# SPDX-License-Identifier: Apache-2.0
"""Runs a front: the parts of a gateway between sockets and the link to the owner."""

import asyncio
import secrets
import signal
import socket
from typing import Any, Final, cast

import msgspec

from tidings.actions.chat.coalesced_receipts import CoalescedReceipts
from tidings.actions.explain.refusals import RefusalJournal
from tidings.actions.identity.revocation_watch import BLIND_SECONDS_MAX
from tidings.actions.state import REPORT_SECONDS
from tidings.actions.verbs import ChatVerbs
from tidings.assembly.control import Control, Supervised
from tidings.assembly.metrics import measure_loop_lag
from tidings.assembly.process import dump_state_on_signal, find_allocator
from tidings.assembly.server import tune_gc
from tidings.assembly.state import StateSampler
from tidings.assembly.system import SystemClock, jitter_ms
from tidings.config import Config
from tidings.diagnosis import queue_depths
from tidings.fronts import questions
from tidings.fronts.forwarding import FrontConnection
from tidings.fronts.front import Front, epoch_of
from tidings.fronts.messages import Noted
from tidings.fronts.remote import (
    RemoteIdentity,
    RemoteOwner,
    RemoteRateLimits,
    RemoteReceipts,
    RemoteVerbs,
)
from tidings.gateway import connection_states, journals
from tidings.gateway.client_connection import ClientConnection
from tidings.gateway.connection_states import OwnConnections
from tidings.gateway.context import GatewayContext, WriteLease
from tidings.gateway.hub import Hub
from tidings.gateway.journal import DeliveryJournal
from tidings.gateway.journals import LocalJournal
from tidings.gateway.registration import HeadReconciler
from tidings.metrics import declared
from tidings.metrics.meters import Reading, pack, report, snapshot
from tidings.model.ids import UserKey
from tidings.ports.chats import Chats
from tidings.tasks import Tasks, TurnBudget
from tidings.wire.frames import Hello

ROLE: Final = "front"
REPLACED: Final = 3
"""Exit code of a front whose sockets belong to another epoch: a new front takes its place."""

_encode = msgspec.msgpack.Encoder().encode


class RemoteGreeting:
    """Lets the owner greet connections: it knows who may see what."""

    def __init__(self, owner: RemoteOwner, hub: Hub) -> None:
        self._owner = owner
        self._hub = hub

    def admitted(self, connection: ClientConnection) -> None:
        """Make a connection known to the owner, which may close it from now on."""
        opened = _own(connection).opened()
        if opened is not None:
            self._owner.send(opened)

    async def register(self, user: UserKey, connection: str, _instead_of: str | None) -> bool:
        """Return True if the connection is within the limit of its user."""
        for own in map(_own, self._hub.of(user)):
            if own.conversation.connection == connection:
                return await self._owner.ask(questions.PLACE, own.socket)
        return False

    async def tell_erasures(self, connection: ClientConnection, hello: Hello) -> None:
        """Send a device the erasures since its last connection."""
        if hello.erasures is not None:
            asked = _own(connection).socket, hello.erasures, hello.epoch
            await self._owner.ask(questions.TELL_ERASURES, *asked)

    async def greet_inboxes(
        self, _user: UserKey, connection: ClientConnection, hello: Hello
    ) -> None:
        """Send a device the counts of the inboxes that it names."""
        if hello.inboxes:
            asked = _own(connection).socket, hello.inboxes
            await self._owner.ask(questions.GREET_INBOXES, *asked)

    async def send_presence(self, _user: UserKey, connection: ClientConnection) -> None:
        """Send a device the presence of the user's peers."""
        await self._owner.ask(questions.SEND_PRESENCE, _own(connection).socket)


def _own(connection: ClientConnection) -> FrontConnection:
    assert isinstance(connection, FrontConnection)
    return connection


class FrontProcess:
    """The parts of a front, which is opened for the epoch of its first owner."""

    def __init__(self, config: Config, name: str, epoch: str) -> None:
        self.owner = RemoteOwner()
        self._clock = SystemClock()
        self._lease = WriteLease(blind_seconds_max=BLIND_SECONDS_MAX)
        hub, verbs = Hub(), RemoteVerbs(self.owner)
        refusals, journal = RefusalJournal(self._clock), DeliveryJournal(self._clock)
        self._reconciler = HeadReconciler(hub, cast(Chats, verbs))
        self._sampler = StateSampler(name, (ROLE,), self._clock, hub)
        local = LocalJournal(hub, journal, name, refusals)
        self.front = Front(
            self._context(config, hub, verbs, refusals, journal, epoch),
            self.owner,
            self._reconciler,
            {
                connection_states.SUBJECT: OwnConnections(hub, self._clock, name).answer,
                journals.SUBJECT: local.answer,
                journals.TRACE_SUBJECT: local.answer_trace,
            },
            lambda: _encode(pack(snapshot())),
        )
        self._tasks = Tasks("front process")
        report(self, lambda _: _depths())

    def _context(
        self,
        config: Config,
        hub: Hub,
        verbs: RemoteVerbs,
        refusals: RefusalJournal,
        journal: DeliveryJournal,
        epoch: str,
    ) -> GatewayContext:
        owner, greeting = self.owner, RemoteGreeting(self.owner, hub)
        identity = RemoteIdentity(owner)
        nothing: Any = None  # only the owner appends, and publishes events
        return GatewayContext(
            authenticate=identity.authenticate,
            chats_of=verbs.list_heads,
            send_presence=greeting.send_presence,
            verbs=cast(ChatVerbs, verbs),
            receipts=cast(CoalescedReceipts, RemoteReceipts(owner)),
            appender=nothing,
            bus=nothing,
            in_turn=TurnBudget(),
            writes=TurnBudget(),
            hub=hub,
            journal=journal,
            refusals=refusals,
            clock=self._clock,
            epoch=epoch,
            new_connection_id=lambda: secrets.token_hex(8),
            jitter_ms=jitter_ms,
            register=greeting.register,
            admitted=greeting.admitted,
            blocked_of=identity.blocked_of,
            tell_erasures=greeting.tell_erasures,
            greet_inboxes=greeting.greet_inboxes,
            limits=RemoteRateLimits(owner) if config.network.has_limits else None,
            write_lease=self._lease,
        )

    def start(self) -> None:
        """Start what a front does by itself."""
        self._reconciler.start()
        self._tasks.repeat(measure_loop_lag)
        self._tasks.repeat(self._report)
        if (allocator := find_allocator()) is not None:
            self._tasks.repeat(allocator.run)

    async def _report(self) -> None:
        sees = not self._lease.is_blind and not self._lease.is_expired
        self.owner.send(Noted(_encode(self._sampler.state(None, None, sees_revocations=sees))))
        await asyncio.sleep(REPORT_SECONDS)
        self._sampler.sample()

    async def close(self) -> None:
        """Stop all parts."""
        await self._tasks.close()
        await self._reconciler.close()
        await self.front.close()


def _depths() -> list[Reading]:
    return [
        (declared.queue_depth, (name, what), depth)
        for name, depths in queue_depths()
        for what, depth in depths.items()
    ]


async def run_front(config: Config, name: str, supervised: Supervised) -> int:
    """Run a front until its supervisor ends it; return the exit code."""
    # The supervisor ends its fronts after the owner has let their clients go. A signal that a
    # service manager sends to all processes must not end them before.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    dump_state_on_signal()
    links: asyncio.Queue[tuple[socket.socket, socket.socket] | None] = asyncio.Queue()
    control = Control(
        supervised.control,
        lambda _, stream, channel: links.put_nowait((stream, channel)),
        lambda: links.put_nowait(None),
    )
    control.start()
    process: FrontProcess | None = None
    try:
        while (link := await links.get()) is not None:
            epoch = await epoch_of(link[0])
            if epoch is None:
                continue  # this owner has ended already; another one will come
            if process is None:
                process = FrontProcess(config, name, epoch)
                process.front.ended.add_done_callback(lambda _: links.put_nowait(None))
                process.start()
                tune_gc()
            await process.front.join(epoch, *link)
            supervised.say_ready()
    finally:
        control.close()
        if process is not None:
            await process.close()
    return REPLACED if process is not None and process.front.ended.done() else 0

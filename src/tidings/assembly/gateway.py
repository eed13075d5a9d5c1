# SPDX-License-Identifier: Apache-2.0
"""Makes the parts of the gateway role: connections, presence, fan-out and handovers."""

import secrets
from collections.abc import Awaitable, Callable
from typing import Final

from msgspec.structs import replace

from tidings.actions.identity.revocation_watch import BLIND_SECONDS_MAX
from tidings.actions.rate_limits import RateLimits
from tidings.assembly import Core
from tidings.assembly.cluster import ClusterLinks
from tidings.assembly.system import jitter_ms
from tidings.config import Config
from tidings.delivery.fan_out import FanOut
from tidings.delivery.local_delivery import LocalDelivery
from tidings.fronts.answers import OwnerAnswers
from tidings.fronts.owner import Fronts
from tidings.fronts.passing import PassingHandshake
from tidings.gateway import connection_states, journals
from tidings.gateway.client_connection import ConnectedUsers
from tidings.gateway.closing import RevocationCloser, drain
from tidings.gateway.connection_states import OwnConnections
from tidings.gateway.context import Admission, GatewayContext, WriteLease
from tidings.gateway.erasures import SALT_BYTES, ErasureFrames
from tidings.gateway.handover_receiver import HandoverReceiver
from tidings.gateway.http.handshake import Handshake
from tidings.gateway.hub import Hub
from tidings.gateway.inbox_counts import InboxGreeting, InboxUnreadCounts
from tidings.gateway.journal import DeliveryJournal
from tidings.gateway.journals import ALONE, LocalJournal
from tidings.gateway.notices import BlockedSenders, InboxFrames, OwnFrames
from tidings.gateway.presence import PresenceTracker
from tidings.gateway.registration import GatewayRegistration, HeadReconciler
from tidings.model.chats import ChatHead, Unread
from tidings.model.ids import ChatId, UserKey
from tidings.ports.bus import InboxEvent
from tidings.ports.delivery import EncodedEntry
from tidings.tasks import TurnBudget
from tidings.wire.codes import Close

REGISTERED_SECONDS: Final = 10.0
"""Lifetime of a connection's registration unless its gateway renews it."""
GAP_SECONDS: Final = 0.25
"""How long to wait for a missing entry if a later one arrived first through another process."""


def count_unread(core: Core) -> Callable[[UserKey, ChatId], Awaitable[Unread | None]]:
    """Return a function that counts a user's unread messages in a chat."""
    return core.verbs.count_unread


class Sockets:
    """Opens and closes all parts between the sockets and the core.

    They are opened before the port, and closed after the port is closed.
    """

    def __init__(
        self,
        core: Core,
        config: Config,
        others: ClusterLinks | None,
        rate_limits: RateLimits | None = None,
        fronts: Fronts | None = None,
    ) -> None:
        """Make the parts; with `fronts`, other processes hold the connections."""
        own = self.own_hub = Hub(is_measured=fronts is None)
        """The connections whose sockets are in this process; none if there are fronts."""
        self.hub: ConnectedUsers = own if fronts is None else fronts.hub
        """All connections of this process or its fronts."""
        self._fronts = fronts
        self._journal = DeliveryJournal(core.clock)
        name = others.name if others is not None else ALONE
        self.local_journal = LocalJournal(own, self._journal, name, core.refusals)
        self._presence = PresenceTracker(
            self.hub,
            core.store.users,
            core.clock,
            core.blocks,
            others.remote_gateways if others else None,
        )
        self._fan_out = _fan_out(core, own, self._journal, fronts)
        self._inbox_frames = _inbox_frames(core, self.hub, self._journal, fronts)
        OwnFrames(core.bus, self.hub)
        self._blocked = BlockedSenders(self.hub, core.blocks)
        self._write_lease = _write_lease(others)
        self._closer = RevocationCloser(
            self.hub, self._write_lease, core.credential_status.is_token_valid
        )
        core.watch.listen(self._closer.revoked)
        core.watch.report_to(self._closer)
        if fronts is not None:
            core.watch.report_to(fronts)
        self._exchange = None
        if others is not None:
            hint = self._inbox_frames.hint
            self._exchange = Exchange(
                own, core, others, self._write_lease, hint, self._journal, self.local_journal
            )
        context = _context(core, own, self._journal, self._presence, self._write_lease, rate_limits)
        erasures = _erasure_frames(core, self.hub)
        context = replace(context, blocked_of=self._blocked.of, tell_erasures=erasures.greet)
        if self._exchange is not None:
            context = self._exchange.joined(context)
        admission = Admission(jitter_ms, rate_limits, config.network.trusted_proxies)
        origins = frozenset(config.network.allowed_origins)
        if fronts is None:
            self.handshake = Handshake(context, origins, admission)
            return
        self.handshake = PassingHandshake(context, origins, admission, fronts.pass_on)
        answers = OwnerAnswers(context, core.store.chats, fronts)
        fronts.serve(context, admission, answers.of, core.credential_status.is_token_valid)

    def open(self) -> None:
        """Start the exchange with other processes, before there is any connection, and let fronts
        come, which may have connections."""
        if self._fronts is not None:
            self._fronts.open()
        if self._exchange is not None:
            self._exchange.open()

    def refuse(self) -> None:
        """Refuse new connections."""
        self.handshake.is_draining = True

    async def drain(self, seconds: float) -> None:
        """Close all connections, spread over this many seconds."""
        if self._fronts is None:
            await drain(self.own_hub, seconds, jitter_ms)
        else:
            await self._fronts.shut(seconds)

    def abort(self) -> None:
        """Close all connections at once."""
        for connection in self.hub:
            connection.close(Close.RESTARTING)

    async def close(self) -> None:
        """Stop all parts."""
        self.own_hub.close()
        if self._fronts is not None:
            await self._fronts.close()
        if self._exchange is not None:
            await self._exchange.close()
        await self._closer.close()
        await self._blocked.close()
        await self._presence.close()
        await self._fan_out.close()
        await self._inbox_frames.close()


class Exchange:
    """Registers this gateway's connections, and receives handovers from other processes."""

    def __init__(
        self,
        hub: Hub,
        core: Core,
        others: ClusterLinks,
        write_lease: WriteLease,
        hint: Callable[[InboxEvent], None],
        journal: DeliveryJournal,
        local_journal: LocalJournal,
    ) -> None:
        self._journal = journal
        self._chats = core.store.chats
        self._states = core.notice_states
        self._pulse = others.pulse
        reconciler = HeadReconciler(hub, core.store.chats)
        self._registration = GatewayRegistration(hub, others.registry, reconciler, write_lease)
        self._handover_receiver = others.handover_receiver(
            HandoverReceiver(hub, self._registration.request_reconcile, hint, self._heard),
            {
                connection_states.SUBJECT: OwnConnections(hub, core.clock, others.name).answer,
                journals.SUBJECT: local_journal.answer,
                journals.TRACE_SUBJECT: local_journal.answer_trace,
            },
        )

    def joined(self, context: GatewayContext) -> GatewayContext:
        """Return the context with functions that register and unregister its connections.

        Other processes find these connections through the registry.
        """
        return replace(
            context,
            chats_of=self._chats_of,
            register=self._registration.register,
            unregister=self._registration.unregister,
            gap_seconds=GAP_SECONDS,
        )

    def _heard(self, entry: EncodedEntry) -> None:
        """Record an entry that another process has handed over, and update caches with it."""
        self._journal.handed(entry.chat_id, entry.sequence)
        self._chats.saw(entry.chat_id, entry.head)
        self._states.heard(entry)

    async def _chats_of(self, user: UserKey) -> list[ChatHead]:
        """Return a user's chats with their heads, from the logs if delivery is behind."""
        is_current = await self._pulse.is_current()
        return await self._chats.list_heads(user, from_log=not is_current)

    def open(self) -> None:
        """Start to receive handovers and to renew registrations."""
        self._handover_receiver.start()
        self._registration.start()

    async def close(self) -> None:
        """Stop receiving handovers and renewing registrations."""
        await self._registration.close()
        await self._handover_receiver.close()


def _write_lease(others: ClusterLinks | None) -> WriteLease:
    if others is None:
        return WriteLease(blind_seconds_max=BLIND_SECONDS_MAX)
    return WriteLease(pause_seconds_max=REGISTERED_SECONDS, blind_seconds_max=BLIND_SECONDS_MAX)


def _fan_out(core: Core, hub: Hub, journal: DeliveryJournal, fronts: Fronts | None) -> FanOut:
    states = core.notice_states
    connections: ConnectedUsers = hub if fronts is None else fronts.hub
    deliver = LocalDelivery(hub, journal.handed).deliver if fronts is None else fronts.deliver
    return FanOut(
        core.bus,
        connections,
        deliver,
        states.cached,
        states.state,
        count_unread(core),
        lambda entries: core.vault.open(entries, core.clock.now()),
        core.blocks,
    )


def _inbox_frames(
    core: Core, hub: ConnectedUsers, journal: DeliveryJournal, fronts: Fronts | None
) -> InboxFrames:
    noting = journal if fronts is None else fronts
    return InboxFrames(
        core.bus,
        hub,
        views=core.inbox.views,
        showing=core.inbox.showing,
        copies=core.store.copies,
        reachable=core.inbox.reachable,
        recounts=InboxUnreadCounts(hub, core.inbox.unread),
        handed=noting.handed_notification,
    )


def _erasure_frames(core: Core, hub: ConnectedUsers) -> ErasureFrames:
    epoch, salt = core.store.deployment.epoch, secrets.token_bytes(SALT_BYTES)
    return ErasureFrames(hub, core.watch, core.store.revocations, epoch, salt)


def _context(
    core: Core,
    hub: Hub,
    journal: DeliveryJournal,
    presence: PresenceTracker,
    write_lease: WriteLease,
    rate_limits: RateLimits | None,
) -> GatewayContext:
    return GatewayContext(
        authenticate=core.authenticate,
        chats_of=core.store.chats.list_heads,
        send_presence=presence.greet,
        verbs=core.verbs,
        receipts=core.receipts,
        appender=core.appender,
        bus=core.bus,
        in_turn=TurnBudget(),
        writes=TurnBudget(),
        hub=hub,
        journal=journal,
        refusals=core.refusals,
        clock=core.clock,
        epoch=core.store.deployment.epoch,
        new_connection_id=lambda: secrets.token_hex(8),
        jitter_ms=jitter_ms,
        greet_inboxes=InboxGreeting(core.inbox.unread.news, rate_limits).greet,
        limits=rate_limits,
        write_lease=write_lease,
    )

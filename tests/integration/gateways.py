# SPDX-License-Identifier: Apache-2.0
"""Several gateways on one store and one Redis, in one process and without sockets.

Whatever is appended is appended elsewhere: no gateway hears of it unless it is handed over.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from tests.integration.redis_places import new_prefix
from tests.support.message_cipher import a_cipher
from tests.support.waiting import WAIT_SECONDS
from tests.unit.fake_connection import FakeConnection
from tests.unit.gateway_bench import GatewayBench
from tests.unit.gateway_bench import a_gateway as a_bench
from tidings.assembly.system import SystemChance
from tidings.cluster.handover import RedisHandover, RedisHandoverReceiver
from tidings.cluster.redis_link import RedisLink
from tidings.cluster.redis_servers import RedisServers
from tidings.cluster.registry import RedisRegistry
from tidings.gateway import connection_states, journals
from tidings.gateway.connection_states import OwnConnections
from tidings.gateway.context import GatewayContext, WriteLease
from tidings.gateway.handover_receiver import HandoverReceiver
from tidings.gateway.hub import Hub
from tidings.gateway.journal import DeliveryJournal
from tidings.gateway.journals import ClusterJournals, LocalJournal
from tidings.gateway.registration import GatewayRegistration, HeadReconciler
from tidings.model import limits
from tidings.model.entries import Entry
from tidings.model.ids import UserKey
from tidings.ports.bus import Appended, Event, InboxEvent
from tidings.ports.delivery import EncodedEntry, RemoteGateways
from tidings.wire.entry_frames import encode_entry

GAP_SECONDS: Final = 0.05


@dataclass
class Gateway:
    """One gateway, and its lines."""

    name: str
    hub: Hub
    context: GatewayContext
    registry: RedisRegistry
    handover: RedisHandover
    remote_gateways: RemoteGateways
    registration: GatewayRegistration
    reconciler: HeadReconciler
    deliveries: HandoverReceiver
    journals: ClusterJournals
    mailbox: RedisHandoverReceiver
    write_lease: WriteLease
    hints: list[InboxEvent]
    """What it was told of inboxes."""
    lines: list[FakeConnection] = field(default_factory=list)

    def line(self, context: GatewayContext | None = None) -> FakeConnection:
        """A new connection, at this desk or a changed one."""
        line = FakeConnection(context or self.context, limits.WINDOW_ENTRIES)
        self.lines.append(line)
        self.hub.opened(line)
        return line


class Post:
    """Hands over what was appended, as a worker does, when a test says so."""

    def __init__(self, bench: GatewayBench) -> None:
        self.encoded_entries: list[tuple[EncodedEntry, tuple[UserKey, ...]]] = []
        bench.core.bus.subscribe(self._heard)

    def _heard(self, event: Event) -> None:
        if isinstance(event, Appended):
            people = tuple(person.user for person in event.entry.people)
            removed = people if event.entry.kind == "removed" else ()
            encoded = a_parcel(event.entry, is_small=event.state.is_small)
            self.encoded_entries.append((encoded, (*event.state.members, *removed)))

    async def hand(
        self, gateway: Gateway, numbers: Sequence[int] | None = None
    ) -> list[frozenset[str] | None]:
        """Hand over what was heard of, or those by number, one by one; the answers."""
        answers = []
        for number in range(len(self.encoded_entries)) if numbers is None else numbers:
            encoded, users = self.encoded_entries[number]
            found = await gateway.registry.find(users)
            at = {place.gateway for places in found.values() for place in places}
            answer = await gateway.handover.entries([encoded], dict.fromkeys(at, users))
            answers.append(answer.get(gateway.name))
        return answers


def a_parcel(entry: Entry, *, is_small: bool = True) -> EncodedEntry:
    """An entry as a worker hands it over."""
    people = tuple(person.user for person in entry.people)
    return EncodedEntry(
        chat_id=entry.chat_id,
        sequence=entry.sequence,
        kind=entry.kind,
        added=people if entry.kind in ("created", "added") else (),
        removed=people if entry.kind == "removed" else (),
        is_small=is_small,
        frame=encode_entry(entry),
    )


@dataclass
class Gateways:
    """The bench they stand on, and how to open one more."""

    bench: GatewayBench
    post: Post
    url: str
    prefix: str
    stack: AsyncExitStack

    async def open(self, name: str, *, beat_seconds: float = 0.05, ttl_ms: int = 10_000) -> Gateway:
        """One more gateway, ready."""
        servers = RedisServers(self.url)
        link = RedisLink(servers, self.prefix, a_cipher(), answer_seconds_max=WAIT_SECONDS)
        hub, write_lease = Hub(), WriteLease(pause_seconds_max=10.0)
        registry = RedisRegistry(link, name, ttl_ms=ttl_ms)
        handover = RedisHandover(link, SystemChance(), answer_seconds_max=WAIT_SECONDS)
        reconciler = HeadReconciler(hub, self.bench.core.store.chats)
        registration = GatewayRegistration(
            hub, registry, reconciler, write_lease, beat_seconds=beat_seconds, compare_seconds=0.05
        )
        hints: list[InboxEvent] = []
        journal = DeliveryJournal(self.bench.clock)
        local = LocalJournal(hub, journal, name, self.bench.core.refusals)
        deliveries = HandoverReceiver(
            hub,
            registration.request_reconcile,
            hints.append,
            lambda entry: journal.handed(entry.chat_id, entry.sequence),
        )
        answerers = {
            connection_states.SUBJECT: OwnConnections(hub, self.bench.clock, name).answer,
            journals.SUBJECT: local.answer,
            journals.TRACE_SUBJECT: local.answer_trace,
        }
        context = replace(
            self.bench.context,
            hub=hub,
            journal=journal,
            register=registration.register,
            unregister=registration.unregister,
            gap_seconds=GAP_SECONDS,
            write_lease=write_lease,
            new_connection_id=lambda: SystemChance().token(8).hex(),
        )
        gateway = Gateway(
            name=name,
            hub=hub,
            context=context,
            registry=registry,
            handover=handover,
            remote_gateways=RemoteGateways(registry, handover, name),
            registration=registration,
            reconciler=reconciler,
            deliveries=deliveries,
            journals=ClusterJournals(registry, handover, local),
            mailbox=RedisHandoverReceiver(link, name, deliveries, answerers),
            write_lease=write_lease,
            hints=hints,
        )
        self.stack.push_async_callback(link.close)
        self.stack.push_async_callback(_close, gateway)
        gateway.mailbox.start()
        gateway.handover.start()
        async with asyncio.timeout(60):
            await gateway.mailbox.ready()
            await gateway.handover.ready()
        gateway.registration.start()
        return gateway


async def _close(gateway: Gateway) -> None:
    for line in gateway.lines:
        await line.hang_up()
    gateway.hub.close()
    await gateway.registration.close()
    await gateway.mailbox.close()
    await gateway.handover.close()
    await gateway.registry.close()


@asynccontextmanager
async def some_gateways(folder: Path, url: str) -> AsyncIterator[Gateways]:
    """A store, a Redis, and no gateway yet."""
    async with a_bench(folder) as bench, AsyncExitStack() as stack:
        yield Gateways(bench, Post(bench), url, new_prefix(), stack)

# SPDX-License-Identifier: Apache-2.0
"""A deployment for tests of delivery: real, except for the gateways, which are in memory."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.canary import canary
from tests.support.clock import ManualClock
from tests.support.dynamo_tables import REGION, drop_tables, make_tables, new_prefix
from tests.support.fake_gateways import FakeGateways, FakePushQueue
from tests.support.invitations import anybody
from tests.support.users import ANN
from tidings.actions.chat.appender import Appender
from tidings.actions.chat.changes import Removing
from tidings.actions.chat.chats import CreateChat
from tidings.actions.chat.members import PutMember, RemoveMember
from tidings.actions.chat.message_changes import Edit, Redact
from tidings.actions.chat.sending import Post
from tidings.actions.content.vault import Vault
from tidings.actions.identity.blocks import NewDirectChats, NoBlocks
from tidings.actions.push.journal import PushJournal
from tidings.actions.webhooks.owing import OweEntries
from tidings.assembly.push_queue import NoDevices
from tidings.assembly.system import SystemChance, SystemClock, back_off
from tidings.buses.in_process import InProcessBus
from tidings.delivery.deliverer import Deliverer
from tidings.delivery.push_notices import Everybody, PushOffers
from tidings.keyrings import FileKeyring
from tidings.model.entries import Entry, SendOptions
from tidings.model.ids import ChatId, UserKey
from tidings.model.refusals import Refusal
from tidings.ports.bus import Appended, Event
from tidings.ports.delivery import DeliveryStore
from tidings.ports.world import NoFailpoints
from tidings.stores.dynamodb.client.access import Usage
from tidings.stores.dynamodb.store import DynamoStore, open_store
from tidings.tracing.spans import Span
from tidings.wire.events import EntryEvent, decode_event, entry_event

_numbers = itertools.count(1)


async def at_once(attempt: int) -> None:
    """Back-off that only lets other tasks run."""
    del attempt
    await asyncio.sleep(0)


@dataclass(frozen=True)
class DeliveryDeployment:
    """A deployment that collects the encoded events of all appended entries in `events`."""

    store: DynamoStore
    vault: Vault
    clock: ManualClock
    bus: InProcessBus
    appender: Appender
    gateways: FakeGateways
    push_queue: FakePushQueue
    usage: list[Usage]
    events: list[bytes] = field(default_factory=list)

    # Writing.

    async def chat(self, *members: UserKey) -> ChatId:
        """Create a group and return its id; the first member is the owner."""
        for user in members:
            await self.store.users.put(
                user, display_name=None, phone_number=None, now=self.clock.now()
            )
        create = CreateChat(
            self.store.chats,
            self.store.users,
            self.vault,
            self.bus,
            self.clock,
            SystemChance(),
            *anybody(self.store, self.bus, self.clock),
            NewDirectChats(self.store.blocks, NoBlocks(), self.store.receipts),
            self.store.log,
        )
        return (await create(members[0], "group", "A chat", members[1:], None)).chat_id

    async def send(
        self,
        sender: UserKey,
        chat: ChatId,
        text: str = "hello",
        *,
        ttl_seconds: int | None = None,
        span: Span | None = None,
        options: SendOptions | None = None,
    ) -> Entry:
        """Post a message and wait until it is durable."""
        future: asyncio.Future[Entry] = asyncio.get_running_loop().create_future()

        def answer(result: Entry | Refusal, is_replay: bool) -> None:
            del is_replay
            if isinstance(result, Refusal):
                future.set_exception(result)
            else:
                future.set_result(result)

        post = Post(self.appender, self.store.log, self.vault, self.clock)
        cmid = f"m{next(_numbers)}"
        more: dict[str, Any] = {"span": span, "options": options}
        post(sender, chat, cmid, canary(text), None, ttl_seconds, answer, **more)
        return await future

    async def add(self, chat: ChatId, user: UserKey, by: UserKey = ANN) -> None:
        """Add a member."""
        now = self.clock.now()
        await self.store.users.put(user, display_name=None, phone_number=None, now=now)
        may_add = anybody(self.store, self.bus, self.clock)
        put = PutMember(self.appender, self.store.users, *may_add, NoBlocks())
        await put(by, chat, user, None)

    async def remove(self, chat: ChatId, user: UserKey, by: UserKey = ANN) -> None:
        """Remove a member."""
        removing = Removing(self.appender, self.store.invites, self.clock)
        await RemoveMember(removing)(by, chat, user)

    async def edit(self, chat: ChatId, sequence: int, text: str, by: UserKey = ANN) -> None:
        """Replace the content of a message."""
        edit = Edit(self.appender, self.store.log, self.vault, self.clock)
        await edit(by, chat, sequence, canary(text))

    async def redact(self, chat: ChatId, sequence: int, by: UserKey = ANN) -> None:
        """Redact a message."""
        await Redact(self.appender, self.store.log)(by, chat, sequence)

    # Delivering.

    def deliverer(
        self, deliveries: DeliveryStore | None = None, owe: OweEntries | None = None
    ) -> Deliverer:
        """Return a deliverer without any cached state, like that of a new process."""
        return Deliverer(
            log=self.store.log,
            deliveries=deliveries or self.store.deliveries,
            vault=self.vault,
            registry=self.gateways,
            handover=self.gateways,
            push=PushOffers(
                self.push_queue, Everybody(), NoBlocks(), NoDevices(), PushJournal(self.clock)
            ),
            clock=self.clock,
            owe=owe,
        )

    def taken(self, *sequences: int) -> list[EntryEvent]:
        """Remove and return all collected events, decoded; or return those of these sequences."""
        events = [decode_event(data) for data in self.events]
        entries = [event for event in events if isinstance(event, EntryEvent)]
        if sequences:
            by_sequence = {event.sequence: event for event in entries}
            return [by_sequence[sequence] for sequence in sequences]
        self.events.clear()
        return entries

    async def deliver(
        self, deliverer: Deliverer, chat: ChatId, events: Sequence[EntryEvent] | None = None
    ) -> None:
        """Perform all steps of delivery for these events, or for all collected events."""
        handed = await deliverer.dispatch(chat, events if events is not None else self.taken())
        if handed:
            await deliverer.write_head(handed)
            await deliverer.dispatch_again(handed)

    async def head(self, chat: ChatId) -> int:
        """Return the sequence in the stored head copy."""
        return (await self.store.deliveries.reached([chat])).get(chat, 0)


def tables_for_a_while(endpoint: str) -> Iterator[str]:
    """Yield the prefix of tables for all tests of a module; each test uses its own chats."""
    prefix = new_prefix()
    with ThreadPoolExecutor(1) as thread:  # with its own event loop, because the tests have another
        thread.submit(asyncio.run, make_tables(endpoint, prefix)).result()
        yield prefix
        thread.submit(asyncio.run, drop_tables(endpoint, prefix)).result()


@asynccontextmanager
async def open_delivery(
    endpoint: str, prefix: str, folder: Path, *, is_alone: bool = False
) -> AsyncIterator[DeliveryDeployment]:
    """Open a deployment on existing tables; with `is_alone`, it writes head copies itself."""
    usage: list[Usage] = []
    clock, chance = ManualClock(), SystemChance()
    async with open_store(
        endpoint=endpoint,
        region=REGION,
        prefix=prefix,
        clock=SystemClock(),
        chance=chance,
        failpoints=NoFailpoints(),
        writes_heads=is_alone,
        record=usage.append,
    ) as store:
        keyring = FileKeyring(folder, chance)
        vault = Vault(store.data_keys, store.deployment, keyring, chance, clock)
        await vault.start()
        bus = InProcessBus()
        appender = Appender(store.log, bus, clock, chance, back_off)
        delivery = DeliveryDeployment(
            store, vault, clock, bus, appender, FakeGateways(), FakePushQueue(), usage
        )

        def publish(event: Event) -> None:
            if isinstance(event, Appended):
                delivery.events.append(entry_event(event.entry, event.state.head))

        bus.subscribe(publish)
        try:
            yield delivery
        finally:
            await appender.close()

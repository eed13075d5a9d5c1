# SPDX-License-Identifier: Apache-2.0
"""A whole core on DynamoDB with every request metered, and readers who say how far they are."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
import pytest

from tests.support.canary import canary
from tests.support.clock import ManualClock
from tests.support.dynamo_tables import REGION
from tests.support.settings import config_of
from tests.support.waiting import until
from tidings.actions.content.data_keys import KeyLeases
from tidings.actions.identity.audit import Intent
from tidings.actions.identity.blocks import BlockLists, NoBlocks
from tidings.actions.identity.quotas import TenantQuotas
from tidings.actions.webhooks.directory import WebhookDirectory
from tidings.assembly import Core, foundation, open_core
from tidings.delivery.fan_out import FanOut
from tidings.delivery.local_delivery import LocalDelivery
from tidings.model import limits
from tidings.model.chats import Move
from tidings.model.entries import Entry, SendOptions
from tidings.model.ids import ChatId, UserKey, tenant_of, user_key
from tidings.model.refusals import Refusal
from tidings.stores.dynamodb import formats
from tidings.stores.dynamodb import store as store_module
from tidings.stores.dynamodb.client.access import Usage
from tidings.stores.dynamodb.store import DynamoStore
from tidings.tools.charges import NOTHING, Units

_READERS_AT_ONCE: Final = 64
"""As many as there are connections to the store: a busy machine gives up what waits too long."""
_NEVER_FREE: Final = frozenset({"GetItem", "Query", "BatchGetItem"})
"""What finds nothing is billed as the smallest item; DynamoDB Local says it costs nothing."""
_ROOT_KEY: Final = "root-key-of-the-tests-0123456789abcdef"
_LEASES: Final = partial(KeyLeases, open_seconds=3_600, seal_seconds=3_600)

_numbers = itertools.count(1)


def person(number: int) -> UserKey:
    """A user whose name is as long as that of every other one: 30 bytes with the tenant."""
    return user_key("acme", f"{number:025d}")


def text(size: int) -> str:
    """Content of so many bytes."""
    return canary("").ljust(size, "x")


class Meter:
    """Adds up what the requests of one process used, by their patterns."""

    def __init__(self) -> None:
        self.by_pattern: dict[str, Units] = {}
        self.requests: dict[str, int] = {}

    def __call__(self, usage: Usage) -> None:
        name = usage.pattern.name
        assert usage.keys or usage.operation == "Scan", f"{name}: whose load is it?"
        used = Units(usage.write_units, usage.read_units)
        if usage.operation in _NEVER_FREE and not used.read:
            used = Units(0, 1 if usage.consistent else 0.5)
        self.by_pattern[name] = self.by_pattern.get(name, NOTHING) + used
        self.requests[name] = self.requests.get(name, 0) + usage.requests

    def start(self) -> None:
        """Forget what was used until now."""
        self.by_pattern.clear()
        self.requests.clear()

    def reading(self) -> dict[str, Units]:
        """What was used since the start."""
        return dict(self.by_pattern)


def summed(meters: Iterable[Meter]) -> Meter:
    """What several processes used together."""
    together = Meter()
    for meter in meters:
        for name, units in meter.by_pattern.items():
            together.by_pattern[name] = together.by_pattern.get(name, NOTHING) + units
        for name, count in meter.requests.items():
            together.requests[name] = together.requests.get(name, 0) + count
    return together


class CountingReader:
    """The socket of a reader, as delivery sees it."""

    def __init__(self) -> None:
        self.recounts = 0

    def deliver(self, entry: Entry, frame: bytes, *, is_small: bool) -> None:
        """What comes is read when the test says so."""

    def notice(self, chat: ChatId, frame: bytes) -> None:
        """Count how often it is told what is unread."""
        self.recounts += msgspec.json.decode(frame)["op"] == "unread"


class Devices:
    """Who is connected."""

    def __init__(self) -> None:
        self.by_user: dict[UserKey, tuple[CountingReader, ...]] = {}

    def of(self, user: UserKey) -> Iterable[CountingReader]:
        return self.by_user.get(user, ())


class Process:
    """One process of a deployment: a core, its meter, and who is connected to it."""

    def __init__(self, core: Core, meter: Meter, devices: Devices) -> None:
        assert isinstance(core.store, DynamoStore)
        self.core = core
        self.store = core.store
        self.meter = meter
        self.devices = devices

    async def send(
        self,
        sender: UserKey,
        chat: ChatId,
        content: str,
        ttl_seconds: int | None = None,
        after: int | None = None,
        options: SendOptions | None = None,
    ) -> Entry:
        """Post a message and wait for the answer."""
        answer: asyncio.Future[Entry] = asyncio.get_running_loop().create_future()

        def settle(result: Entry | Refusal, _is_replay: bool) -> None:
            if isinstance(result, Refusal):
                answer.set_exception(result)
            else:
                answer.set_result(result)

        name = f"{next(_numbers):036d}"
        post = partial(self.core.verbs.post, after=after, options=options)
        post(sender, chat, name, content, None, ttl_seconds, settle)
        return await answer

    async def post(self, sender: UserKey, chat: ChatId) -> None:
        """Post a small message as the tenant, which is recorded before and after."""
        intent = Intent("tenant_key", "k", "post_tenant_message", tenant_of(sender))
        async with self.core.audit.act(intent, chat):
            await self.send(sender, chat, text(100), options=SendOptions(posted_by="tenant"))

    async def upload(self, owner: UserKey) -> str:
        """Upload a file of one byte; return its id."""

        async def data() -> AsyncIterator[bytes]:
            yield b"x"

        made = await self.core.files.create(owner, "a.png", "image/png", 1)
        await self.core.files.receive(owner, made.attachment_id, None, data(), 1)
        return made.attachment_id

    async def send_many(self, sender: UserKey, chat: ChatId, count: int) -> None:
        """Post so many small messages at once."""
        await asyncio.gather(*(self.send(sender, chat, text(100)) for _ in range(count)))

    async def warm_up(self, sender: UserKey, chat: ChatId) -> Entry:
        """Send a message, and let what follows from it be done, and be metered.

        After that, the process knows the chat and the sender's key.
        """
        moves = self.meter.requests.get("move_receipt", 0)
        sent = await self.send(sender, chat, text(100))
        await until(lambda: self.meter.requests.get("move_receipt", 0) > moves)
        await self.store.heads.settled(chat)
        return sent

    async def read_by(self, readers: Sequence[UserKey], entry: Entry, *, is_small: bool) -> None:
        """Have each of these devices receive the message and its user read it, until all is quiet.

        Just as the gateway does it: in a large chat only the reading is stored.
        """
        for start in range(0, len(readers), _READERS_AT_ONCE):
            some = readers[start : start + _READERS_AT_ONCE]
            for user in some:
                self.devices.by_user[user] = (CountingReader(),)
            if is_small:
                await self._received_by(some, entry)
            interval = limits.RECEIPT_FRAME_MS if is_small else limits.LARGE_CHAT_RECEIPT_MS
            for user in some:
                self.core.receipts.note(Move(user, entry.chat_id, 0, entry.sequence), interval)
            await until(partial(self._are_told, some))

    async def _received_by(self, readers: Sequence[UserKey], entry: Entry) -> None:
        wanted = self.meter.requests.get("move_receipt", 0) + len(readers)
        for user in readers:
            self.core.receipts.note(Move(user, entry.chat_id, entry.sequence, 0))
        await until(lambda: self.meter.requests.get("move_receipt", 0) >= wanted)

    def _are_told(self, readers: Sequence[UserKey]) -> bool:
        return all(self.devices.by_user[user][0].recounts for user in readers)

    async def rest(self, user: UserKey) -> None:
        """Wait until heads and own marks of the user, who sent all there is, are written."""
        await until(lambda: self._is_settled(user))

    async def _is_settled(self, user: UserKey) -> bool:
        chats = await self.store.chats.list_heads(user)
        for one in chats:
            await self.store.heads.settled(one.chat_id)
        return all(one.receipt.read >= one.head.sequence for one in chats)


@asynccontextmanager
async def open_process(endpoint: str, prefix: str, folder: Path) -> AsyncIterator[Process]:
    """A process on these tables; when it is closed it is quiet, and its meter stays readable."""
    meter, clock, devices = Meter(), ManualClock(), Devices()
    clock.time += 123_457  # a number is as long as its digits without zeros at its end
    config = config_of(
        data=folder / f"process{next(_numbers)}",
        root_key=_ROOT_KEY,
        master_key=bytes(32),
        store="dynamodb",
        dynamodb_endpoint=endpoint,
        dynamodb_prefix=prefix,
        dynamodb_region=REGION,
    )
    metered = partial(store_module.open_store, record=meter)
    async with AsyncExitStack() as stack:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(store_module, "open_store", metered)
            # The feed of revocations, which is not read here, keeps the data keys usable.
            patch.setattr(foundation, "KeyLeases", _LEASES)
            # A process reads once a minute which format it may write; a test may have set one.
            patch.setattr(formats, "REFRESH_SECONDS", 3_600)
            core = await stack.enter_async_context(open_core(config, _never, clock=clock))
        # A process reads the blocks of a user once, and learns of changes from the feed.
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        for name in ("cached", "of"):
            patch.setattr(BlockLists, name, getattr(NoBlocks, name))
        # The same holds for the webhook endpoints of a tenant.
        patch.setattr(WebhookDirectory, "cached", lambda *_: [])
        # It looks at the quotas of active tenants every few seconds, whatever they do.
        patch.setattr(TenantQuotas, "_update", _update_nothing)
        fan_out = FanOut(
            core.bus,
            devices,
            LocalDelivery(devices).deliver,
            core.notice_states.cached,
            core.notice_states.state,
            core.verbs.count_unread,
            lambda entries: core.vault.open(entries, core.clock.now()),
            core.blocks,
        )
        stack.push_async_callback(fan_out.close)
        yield Process(core, meter, devices)


async def _update_nothing(_quotas: TenantQuotas, _tenant: str, _active: object) -> None:
    """Leave the tenant without quotas."""


def _never(trouble: Exception) -> None:
    raise trouble

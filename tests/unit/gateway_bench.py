# SPDX-License-Identifier: Apache-2.0
"""A gateway without sockets: the real core, hub and fan-out, and lines that end in a list."""

import asyncio
import dataclasses
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl

from msgspec.structs import replace

from tests.support.canary import canary
from tests.support.clock import ManualClock
from tests.unit.fake_connection import FakeConnection
from tidings.actions.chat.appender import Appender
from tidings.actions.chat.reading import ReadPage
from tidings.actions.chat.sending import Post
from tidings.actions.identity.blocks import NoBlocks
from tidings.actions.identity.caller import Caller, TenantCaller, UserCaller
from tidings.assembly import Core, open_core
from tidings.assembly.system import back_off
from tidings.buses.in_process import InProcessBus
from tidings.config import Config
from tidings.delivery.fan_out import FanOut
from tidings.delivery.local_delivery import LocalDelivery
from tidings.gateway.client_connection import ClientConnection
from tidings.gateway.context import GatewayContext
from tidings.gateway.hub import Hub
from tidings.gateway.journal import DeliveryJournal
from tidings.model import limits
from tidings.model.chats import ChatHead
from tidings.model.entries import Entry, SendOptions
from tidings.model.ids import ChatId, UserKey
from tidings.model.refusals import Refusal, StoreUnavailable, Unauthenticated
from tidings.ports.log import Page
from tidings.tasks import TurnBudget

Around = Callable[[Callable[[], Awaitable[Page]]], Awaitable[Page]]

TENANT_KEY: Final = "sk_acme"


@dataclass
class GatewayBench:
    """A core and the gateway around it."""

    core: Core
    clock: ManualClock
    hub: Hub
    context: GatewayContext
    lines: list[FakeConnection]
    _numbers: "itertools.count[int]"

    def line(
        self, *, window: int = limits.WINDOW_ENTRIES, context: GatewayContext | None = None
    ) -> FakeConnection:
        """A new connection."""
        line = FakeConnection(context or self.context, window)
        self.lines.append(line)
        self.hub.opened(line)
        return line

    def another_process(self) -> "GatewayBench":
        """The same with an appender of its own, whose entries are known only from the log."""
        core = self.core
        appender = Appender(core.store.log, InProcessBus(), core.clock, core.chance, back_off)
        post = Post(appender, core.store.log, core.vault, core.clock)
        changed = replace(core, verbs=replace(core.verbs, post=post))
        return dataclasses.replace(self, core=changed)

    async def group(self, owner: UserKey, *others: UserKey) -> ChatId:
        """A new group."""
        for user in (owner, *others):
            await self.core.store.users.put(user, display_name=None, phone_number=None, now=1)
        self.clock.time += 1
        return (await self.core.verbs.create(owner, "group", "A group", others, None)).chat_id

    async def post(
        self, sender: UserKey, chat: ChatId, count: int = 1, options: SendOptions | None = None
    ) -> None:
        """Post messages, and wait until the last is durable."""
        self.clock.time += 1
        loop = asyncio.get_running_loop()
        answers: list[asyncio.Future[Entry]] = [loop.create_future() for _ in range(count)]
        for answer in answers:
            number = next(self._numbers)
            self.core.verbs.post(
                sender, chat, f"m{number}", canary(f"{number}"), None, None, _settle(answer),
                options=options,
            )  # fmt: skip
        for answer in answers:
            await answer

    def desk_with_held(
        self, meanwhile: Callable[[], Awaitable[None]], *, is_after: bool = True
    ) -> GatewayContext:
        """A desk at which something happens after, or before, the user's chats are read."""

        async def held(user: UserKey) -> list[ChatHead]:
            if is_after:
                rows = await self.context.chats_of(user)
                await meanwhile()
                return rows
            await meanwhile()
            return await self.context.chats_of(user)

        return replace(self.context, chats_of=held)

    def desk_with_reads(self, around: Around) -> GatewayContext:
        """A desk at which something happens around every read of a log."""
        verbs = self.context.verbs

        class WatchedRead(ReadPage, frozen=True):
            async def entries(self, *given: Any, **named: Any) -> Page:
                return await around(lambda: verbs.read.entries(*given, **named))

        read = WatchedRead(verbs.read.log, verbs.read.vault, verbs.read.clock, verbs.read.blocks)
        return replace(self.context, verbs=replace(verbs, read=read))


def _settle(answer: "asyncio.Future[Entry]") -> Callable[[Entry | Refusal, bool], None]:
    def settle(result: Entry | Refusal, _is_replay: bool) -> None:
        if isinstance(result, Refusal):
            answer.set_exception(result)
        else:
            answer.set_result(result)

    return settle


async def authenticate(token: str) -> Caller:
    """Believe everyone: a token is the user it is for, and may say more about itself."""
    if token == TENANT_KEY:
        return TenantCaller("acme", "k1")
    if token == "unavailable":
        raise StoreUnavailable
    if ":" not in token:
        raise Unauthenticated
    user, _, more = token.partition("?")
    said: dict[str, Any] = dict(parse_qsl(more))
    issued_at = int(said.pop("issued_at", 0))
    return UserCaller(UserKey(user), None, 2**60, issued_at=issued_at, **said)


@asynccontextmanager
async def a_gateway(folder: Path) -> AsyncIterator[GatewayBench]:
    """A gateway on a folder."""
    clock, hub = ManualClock(), Hub()
    journal = DeliveryJournal(clock)
    broke: list[Exception] = []
    async with open_core(Config(data=folder), broke.append, clock=clock) as core:
        fan_out = FanOut(
            core.bus,
            hub,
            LocalDelivery(hub, journal.handed).deliver,
            core.appender.state_nowait,
            core.appender.state,
            core.verbs.count_unread,
            lambda entries: core.vault.open(entries, core.clock.now()),
            NoBlocks(),
        )
        bench = GatewayBench(core, clock, hub, _context(core, hub, journal), [], itertools.count(1))
        yield bench
        for line in bench.lines:
            await line.hang_up()
        hub.close()
        await fan_out.close()
    assert not broke


def _context(core: Core, hub: Hub, journal: DeliveryJournal) -> GatewayContext:
    async def nothing(_user: UserKey, _line: ClientConnection) -> None:
        pass

    return GatewayContext(
        authenticate=authenticate,
        chats_of=core.store.chats.list_heads,
        send_presence=nothing,
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
        new_connection_id=lambda: "c0",
        jitter_ms=lambda most: most,
    )

# SPDX-License-Identifier: Apache-2.0
"""Measures the log of one hot chat, with and without packs, with one writing process and with two.

There are no gateways: twenty senders pass their messages directly to the appender, and each of them
waits for its answers. The store is DynamoDB Local, and then a stand-in in memory that answers every
request after 5 ms, as DynamoDB does. The difference shows where DynamoDB Local itself is the limit.
"""

import asyncio
import itertools
import os
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from time import perf_counter, process_time
from typing import Final

import msgspec

from bench.server import own_folder, unpin
from bench.stand_in import StandIn
from scripts.services.dynamodb_local import DynamoDBLocal
from tidings.actions.chat.appender import Appender
from tidings.assembly.system import SystemChance, SystemClock, back_off
from tidings.buses.in_process import InProcessBus
from tidings.logs.requests import Requests
from tidings.model import limits
from tidings.model.chats import Chat, ChatState
from tidings.model.entries import Entry, Person, SendKey
from tidings.model.formats import PACKS
from tidings.model.ids import ChatId, UserKey, ulid, user_key
from tidings.model.refusals import Refusal
from tidings.ports.log import Declined
from tidings.ports.world import NoFailpoints
from tidings.stores.dynamodb.chat.creating import ChatMaker
from tidings.stores.dynamodb.chat.heads import Heads
from tidings.stores.dynamodb.chat.log import DynamoLog
from tidings.stores.dynamodb.chat.runs import Runs
from tidings.stores.dynamodb.client.access import Usage
from tidings.stores.dynamodb.client.dynamo import Dynamo, open_client
from tidings.stores.dynamodb.formats import Formats
from tidings.stores.dynamodb.identity.secrets import DynamoDeployment
from tidings.stores.dynamodb.schema.requests import make_missing
from tidings.tracing.spans import Span

REGION: Final = "eu-west-1"
PREFIX: Final = "packs-"
EPOCH: Final = "bench"
BOX: Final = os.urandom(128)
"""Encrypted content of a hundred bytes of text."""
DIGEST: Final = os.urandom(20)
_TO_THE_ANSWER: Final = frozenset({"claim_key", "claim_slot", "claim_slots"})

Opening = Callable[[list[Usage]], AbstractAsyncContextManager[Dynamo]]
"""Function that opens the tables for another process, and adds the cost of each request to the
list."""

_numbers = itertools.count(1)


class Way(msgspec.Struct, frozen=True):
    """A way to write messages."""

    name: str
    packs: bool
    after: bool


WAYS: Final = (
    Way("one item each", packs=False, after=False),
    Way("packs", packs=True, after=False),
    Way("packs, sends with after", packs=True, after=True),
)


class PackResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result of one way of writing."""

    store: str
    writers: int
    way: str
    messages_per_second: float
    write_units: float
    """Write units per message, until its answer."""
    cpu_us: float
    """CPU time of this process per message."""
    refused: int


def add_options(parser: ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--senders", type=int, default=20)
    parser.add_argument("--window", type=int, default=8, help="unanswered messages of a sender")
    parser.add_argument("--seconds", type=float, default=5)


async def run(options: Namespace) -> list[PackResult]:
    """Measure every way on both stores, with one writer and with two."""
    unpin()
    results = []
    with (
        own_folder() as folder,
        DynamoDBLocal(folder / "dynamodb") as local,
        StandIn(folder / "memory") as memory,
    ):
        await make_missing(
            endpoint=local.address, region=REGION, prefix=PREFIX, clock=SystemClock(),
            chance=SystemChance(),
        )  # fmt: skip
        stores = {"DynamoDB Local": _at(local.address), "in memory": _at(memory.address)}
        for store, open_it in stores.items():
            for options.writers in (1, 2):
                for way in WAYS:
                    results.append(await _measured(store, open_it, way, options))
                    _print(results[-1])
    return results


def _print(result: PackResult) -> None:
    print(
        f"{result.store:15} {result.writers} writer(s)  {result.way:24}"
        f"{result.messages_per_second:7.0f}/s {result.write_units:6.2f} w "
        f"{result.cpu_us:6.0f} us  {result.refused} refused",
        flush=True,
    )


class Sender:
    """A member who keeps some messages unanswered."""

    def __init__(self, user: UserKey, appender: Appender, state: ChatState, way: Way) -> None:
        self.user = user
        self._appender = appender
        self._chat = state.chat_id
        self._way = way
        self._seen = state.head
        self.is_sending = True
        self.acknowledged = self.refused = self.unanswered = 0

    def send(self) -> None:
        """Pass another message to the appender."""
        self.unanswered += 1
        now = SystemClock().now()
        name = f"{next(_numbers):036x}"
        after = self._seen if self._way.after else None
        key = SendKey(self.user, name, DIGEST, now + limits.SEND_KEY_MS, after)
        self._appender.propose(self._chat, Sending(self._chat, key, self._answered))

    def _answered(self, sequence: int | None) -> None:
        self.unanswered -= 1
        if sequence is None:
            self.refused += 1
        else:
            self.acknowledged += 1
            self._seen = max(self._seen, sequence)
        if self.is_sending:
            asyncio.get_running_loop().call_soon(self.send)


class Sending:
    """Request to append a message that is already encrypted."""

    def __init__(self, chat: ChatId, key: SendKey, answer: Callable[[int | None], None]) -> None:
        self.key: SendKey | None = key
        self.is_claimed = False
        self.goes_alone = False
        self.attempts = 0
        self.was_looked_into = False
        self.requests: Requests = ()
        self.span: Span | None = None
        self.is_ready = True
        self._chat = chat
        self._answer = answer

    async def prepare(self) -> None:
        raise AssertionError("it is ready")

    def decide(self, _state: ChatState, _now: int) -> list[Entry]:
        assert self.key is not None
        return [
            Entry(
                chat_id=self._chat,
                kind="message",
                sender=self.key.sender,
                client_message_id=self.key.client_message_id,
                content_type="text/plain",
                box=BOX,
                box_key=1,
            )
        ]

    def kept(self, entries: list[Entry]) -> None:
        self._answer(entries[0].sequence)

    def replayed(self, entry: Entry) -> None:
        self._answer(entry.sequence)

    def declined(self, declined: Declined) -> None:
        raise AssertionError(declined)

    def refused(self, _refusal: Refusal) -> None:
        self._answer(None)


async def _measured(store: str, open_it: Opening, way: Way, options: Namespace) -> PackResult:
    used: list[Usage] = []
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(open_it(used)) for _ in range(options.writers)]
        state = await _group(clients[0], options.senders)
        appenders = [_appender(dynamo, way) for dynamo in clients]
        for appender in appenders:
            stack.push_async_callback(appender.close)
        people = [
            Sender(user, appenders[number % len(appenders)], state, way)
            for number, user in enumerate(state.members)
        ]
        return await _timed(store, way, people, used, options)


def _appender(dynamo: Dynamo, way: Way) -> Appender:
    log = DynamoLog(
        dynamo, _runs(dynamo, way), Heads(dynamo, EPOCH, writes=False), _deployment(dynamo, way)
    )
    return Appender(log, InProcessBus(), SystemClock(), SystemChance(), back_off)


def _runs(dynamo: Dynamo, way: Way) -> Runs:
    heads = Heads(dynamo, EPOCH, writes=False)
    return Runs(dynamo, heads, SystemChance(), NoFailpoints(), _deployment(dynamo, way))


def _deployment(dynamo: Dynamo, way: Way) -> DynamoDeployment:
    formats = Formats(dynamo, SystemClock(), PACKS if way.packs else 0)
    return DynamoDeployment(dynamo, EPOCH, formats)


async def _timed(
    store: str, way: Way, people: list[Sender], used: list[Usage], options: Namespace
) -> PackResult:
    for sender in people:
        for _ in range(options.window):
            sender.send()
    await asyncio.sleep(options.seconds / 5)
    used.clear()
    began, cpu, sent = perf_counter(), process_time(), sum(one.acknowledged for one in people)
    await asyncio.sleep(options.seconds)
    took, cpu = perf_counter() - began, process_time() - cpu
    sent = sum(one.acknowledged for one in people) - sent
    units = sum(one.write_units for one in used if one.pattern.name in _TO_THE_ANSWER)
    for sender in people:
        sender.is_sending = False
    while any(sender.unanswered for sender in people):
        await asyncio.sleep(0.01)
    return PackResult(
        store=store,
        writers=options.writers,
        way=way.name,
        messages_per_second=sent / took,
        write_units=units / sent,
        cpu_us=cpu / sent * 1e6,
        refused=sum(one.refused for one in people),
    )


def _at(endpoint: str) -> Opening:
    def opened(used: list[Usage]) -> AbstractAsyncContextManager[Dynamo]:
        return open_client(
            endpoint=endpoint, region=REGION, prefix=PREFIX, clock=SystemClock(),
            chance=SystemChance(), record=used.append,
        )  # fmt: skip

    return opened


async def _group(dynamo: Dynamo, size: int) -> ChatState:
    """Create a group of this size."""
    users = [user_key("acme", f"{number:025d}") for number in range(size)]
    now, chance = SystemClock().now(), SystemChance()
    chat = Chat(
        chat_id=ChatId(ulid(now, chance.token(10))), tenant="acme", type="group", name="Hot",
        creator=users[0], created_at=now,
    )  # fmt: skip
    state = ChatState(chat_id=chat.chat_id, tenant="acme", type="group", name="Hot", members={})
    people = tuple(Person(user, "member") for user in users)
    created = Entry(chat_id=chat.chat_id, kind="created", sender=users[0], people=people)
    state.stamp(created, now, "bench")
    heads = Heads(dynamo, EPOCH, writes=False)
    await ChatMaker(dynamo, _runs(dynamo, WAYS[0]), heads).create(chat, [created], None, now)
    state.fold(created)
    return state

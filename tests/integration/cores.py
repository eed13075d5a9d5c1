# SPDX-License-Identifier: Apache-2.0
"""A whole core in a folder, with time by hand: the real store and actions, without a network."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from tests.support.canary import canary
from tests.support.clock import ManualClock
from tests.support.failpoints import DiesAt
from tests.support.invitations import anybody
from tests.support.settings import config_of
from tidings.actions.chat.appender import Appender
from tidings.actions.chat.changes import Removing
from tidings.actions.chat.deleting import Sweeper
from tidings.actions.chat.members import PutMember, RemoveMember
from tidings.actions.chat.sending import Post
from tidings.assembly import Core, open_core
from tidings.assembly.system import back_off
from tidings.buses.in_process import InProcessBus
from tidings.model.entries import Entry
from tidings.model.ids import ChatId, UserKey
from tidings.model.refusals import Refusal
from tidings.ports.bus import Event
from tidings.ports.log import Log
from tidings.ports.world import Failpoints

T = TypeVar("T")


_numbers = itertools.count(1)


def new_cmid() -> str:
    """A client_message_id that no other send has."""
    return f"m{next(_numbers)}"


class Answer(NamedTuple):
    """What a sender is told."""

    entry: Entry
    is_replay: bool


class Writing:
    """One who writes: an appender with a cache of its own, and the verbs that go through it."""

    def __init__(self, core: Core, appender: Appender) -> None:
        self.appender = appender
        self.put_member = PutMember(
            appender, core.store.users, *anybody(core.store, core.bus, core.clock), core.blocks
        )
        self.remove_member = RemoveMember(Removing(appender, core.store.invites, core.clock))
        self._post = Post(appender, core.store.log, core.vault, core.clock)

    def send_soon(
        self,
        sender: UserKey,
        chat: ChatId,
        text: str = "hello",
        *,
        cmid: str | None = None,
        ttl_seconds: int | None = None,
    ) -> "asyncio.Future[Answer]":
        """Send without waiting for the answer; a second answer would raise."""
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

        def answer(result: Entry | Refusal, is_replay: bool) -> None:
            if isinstance(result, Refusal):
                future.set_exception(result)
            else:
                future.set_result(Answer(result, is_replay))

        content = canary(text)
        self._post(sender, chat, cmid or new_cmid(), content, None, ttl_seconds, answer)
        return future

    async def send(
        self,
        sender: UserKey,
        chat: ChatId,
        text: str = "hello",
        *,
        cmid: str | None = None,
        ttl_seconds: int | None = None,
    ) -> Entry:
        """Send and return the message once it is durable."""
        answer = await self.send_soon(sender, chat, text, cmid=cmid, ttl_seconds=ttl_seconds)
        return answer.entry


@dataclass(frozen=True)
class Deployment:
    """One opening of a folder."""

    core: Core
    clock: ManualClock
    events: list[Event]
    """All that was published on the bus since it was opened."""
    writing: Writing
    """The process's own writer."""

    async def people(self, *users: UserKey) -> None:
        """Have these users."""
        now = self.clock.now()
        for user in users:
            await self.core.store.users.put(user, display_name=None, phone_number=None, now=now)

    async def group(self, owner: UserKey, *others: UserKey, name: str = "A group") -> ChatId:
        """A new group of users who need not be there yet."""
        await self.people(owner, *others)
        created = await self.core.verbs.create(owner, "group", name, others, None)
        return created.chat_id

    def another_writing(self, log: Log | None = None) -> Writing:
        """A second writer on the same store, who learns of the first one's entries only there."""
        core = self.core
        return Writing(
            core,
            Appender(log or core.store.log, InProcessBus(), core.clock, core.chance, back_off),
        )

    async def log(self, chat: ChatId, reader: UserKey) -> list[Entry]:
        """All entries as the reader sees them, checked to be 1..head without a hole."""
        entries: list[Entry] = []
        after: int | None = 0
        while after is not None:
            page = await self.core.verbs.read.entries(reader, chat, after=after, limit=100)
            entries += page.entries
            after = page.next
        assert [entry.sequence for entry in entries] == list(range(1, len(entries) + 1))
        return entries

    async def sweep(self) -> int:
        """Let the sweeper run once."""
        core = self.core
        return await Sweeper(core.store.sweeping, core.bus, core.clock).sweep()


@asynccontextmanager
async def open_deployment(
    folder: Path,
    *,
    clock: ManualClock | None = None,
    failpoints: Failpoints | None = None,
    settings: Mapping[str, Any] | None = None,
) -> AsyncIterator[Deployment]:
    """Open a folder; closing it is a clean stop."""
    broke: list[Exception] = []
    clock = clock or ManualClock()
    engine: dict[str, Any] = dict(settings or {})
    config = config_of(data=folder, port=0, **engine)
    async with open_core(config, broke.append, clock=clock, failpoints=failpoints) as core:
        deployment = Deployment(core, clock, [], Writing(core, core.appender))
        core.bus.subscribe(deployment.events.append)
        yield deployment
    assert bool(broke) == isinstance(failpoints, DiesAt)


async def all_of(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Run everything at once, and return the results in order."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one) for one in work]
    return [task.result() for task in tasks]


async def outcome(work: Coroutine[Any, Any, T]) -> T | Refusal:
    """The result, or the refusal instead of raising it."""
    try:
        return await work
    except Refusal as refusal:
        return refusal

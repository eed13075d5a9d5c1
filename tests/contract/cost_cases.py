# SPDX-License-Identifier: Apache-2.0
"""The use cases whose cost is measured: in chats the process knows, until all is quiet."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from scripts.cost_page import (
    AT_ONCE,
    CHATS,
    ELSEWHERE,
    FEW,
    LARGE,
    MISSED,
    ONLINE,
    PAGE,
    SMALL,
    at_once_name,
    chats_name,
    send_name,
)
from tests.contract.builders import a_chat
from tests.contract.metering import Process, open_process, person, summed, text
from tests.contract.webhook_cost_cases import timed_cases
from tests.contract.wire import Request, Wire
from tests.support.spare_tables import spare_tables
from tests.support.waiting import until
from tidings.actions.identity.caller import Root, TenantCaller
from tidings.actions.search.searching import Asked
from tidings.assembly.rest import make_explain
from tidings.assembly.system import back_off
from tidings.delivery.rounds import DeletionRunner
from tidings.model import limits
from tidings.model.entries import Entry, SendOptions, head_of
from tidings.model.ids import ChatId, UserKey, tenant_of, user_id
from tidings.ports.journals import NoJournals
from tidings.ports.people import User
from tidings.tools.charges import Units

Reading = dict[str, Units]
Chat = tuple[ChatId, list[UserKey]]

_CHATS_AT_ONCE = 10
_AFTERWARDS = {"advance_head", "advance_direct_head", "count_users", "let_go"}
_people = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Bill:
    """What one use case used, by pattern, and every kind of request that left meanwhile."""

    to_the_answer: Reading
    in_all: Reading
    counts: dict[str, float]
    """How many requests there were in all, by pattern."""
    requests: frozenset[Request]


@dataclass(frozen=True, slots=True)
class Ground:
    """Where the cases take place."""

    endpoint: str
    prefix: str
    folder: Path
    home: Process
    """A process that makes what the cases need, and is not metered."""
    wire: Wire
    bills: dict[str, Bill] = field(default_factory=dict)

    def process(self) -> AbstractAsyncContextManager[Process]:
        return open_process(self.endpoint, self.prefix, self.folder)

    async def chat(self, size: int) -> Chat:
        """A new chat of so many people whom no other case knows."""
        users = [person(next(_people)) for _ in range(size)]
        state = await a_chat(self.home.store, *users, kind="direct" if size == 2 else "group")
        await self.home.store.heads.settled(state.chat_id)
        return state.chat_id, users

    def start(self, *processes: Process) -> None:
        """From here on it counts."""
        self.wire.sent.clear()
        for process in processes:
            process.meter.start()

    def keep(self, name: str, answer: Reading, *processes: Process) -> None:
        """What is written after an answer may be done before it: it is not counted there."""
        before = {one: units for one, units in answer.items() if one not in _AFTERWARDS}
        meter = summed(process.meter for process in processes)
        self.bills[name] = Bill(
            before, meter.reading(), dict(meter.requests), frozenset(self.wire.sent)
        )

    async def step(
        self, name: str, chat: ChatId, sender: UserKey, act: Callable[[Process], Awaitable[object]]
    ) -> None:
        """One step in a chat that the process knows, and what follows from it."""
        async with self.process() as process:
            await process.warm_up(sender, chat)
            self.start(process)
            await act(process)
            answer = process.meter.reading()
        self.keep(name, answer, process)


@asynccontextmanager
async def a_ground(endpoint: str, folder: Path) -> AsyncIterator[Ground]:
    """Tables, and a process to make things with."""
    async with spare_tables(endpoint) as prefix, open_process(endpoint, prefix, folder) as home:
        wire = Wire(prefix)
        with wire.watched(), pytest.MonkeyPatch.context() as patch:
            # Whom it makes it would count five seconds later, amid what another process does.
            patch.setattr(home.store.users._user_counts, "made", lambda _: None)
            # What it sends at once stays apart: packs would be cheaper to read.
            patch.setattr(home.store.deployment._formats, "written", 0)
            yield Ground(endpoint, prefix, folder, home, wire)


async def all_bills(endpoint: str, folder: Path) -> dict[str, Bill]:
    """Every use case, by its name."""
    async with a_ground(endpoint, folder) as ground:
        for size, readers in ONLINE.items():
            chat = await ground.chat(size)
            for content in (SMALL, LARGE):
                await send(ground, send_name(size, content, readers), chat, content, readers)
        chat = await ground.chat(2)
        for content in (SMALL, LARGE):
            await send(ground, send_name(2, content, 0), chat, content, 0)
        chat = await ground.chat(2)
        await send(ground, "send, 1:1, online, expires", chat, SMALL, 1, ttl=60)
        await send_in_turn(ground)
        await send_elsewhere(ground)
        await send_at_once(ground)
        await changes_of_a_message(ground)
        await changes_of_members(ground)
        await moderating(ground)
        await deleting(ground)
        await history(ground)
        await reads_of_many_chats(ground)
        return ground.bills


async def send(
    ground: Ground, name: str, chat: Chat, content: int, readers: int, *, ttl: int | None = None
) -> None:
    """A message; so many of the others are online, receive and read it."""
    chat_id, (sender, *others) = chat
    async with ground.process() as process:
        await process.warm_up(sender, chat_id)
        ground.start(process)
        sent = await process.send(sender, chat_id, text(content), ttl)
        answer = process.meter.reading()
        is_small = len(others) < limits.SMALL_CHAT_MEMBERS_MAX
        await process.read_by(others[:readers], sent, is_small=is_small)
    ground.keep(name, answer, process)


async def send_in_turn(ground: Ground) -> None:
    """A message in a chat that another process has just written to; the readers are away."""
    chat, (ann, bob) = await ground.chat(2)
    async with ground.process() as one, ground.process() as other:
        await one.warm_up(ann, chat)
        await other.warm_up(bob, chat)
        await until(lambda: "make_own" in other.meter.requests)  # once, with the first
        ground.start(one, other)
        await one.send(ann, chat, text(SMALL))
        answer = one.meter.reading()
    ground.keep("send, 1:1, two processes in turn", answer, one, other)


async def send_elsewhere(ground: Ground) -> None:
    """A message to somebody at another gateway, who has read there before."""
    chat, (ann, bob) = await ground.chat(2)
    async with ground.process() as one, ground.process() as other:
        await one.warm_up(ann, chat)
        await _read_elsewhere(other, bob, await one.warm_up(ann, chat))
        ground.start(one, other)
        sent = await one.send(ann, chat, text(SMALL))
        answer = one.meter.reading()
        await _read_elsewhere(other, bob, sent)
    ground.keep(ELSEWHERE, answer, one, other)


async def _read_elsewhere(process: Process, reader: UserKey, sent: Entry) -> None:
    process.store.chats.saw(sent.chat_id, head_of(sent))  # it was handed over
    process.devices.by_user.clear()
    await process.read_by([reader], sent, is_small=True)


async def send_at_once(ground: Ground) -> None:
    """As many messages as fit into a pack, without and with what was there before."""
    for after in (None, 2):
        chat, (ann, _) = await ground.chat(2)
        async with ground.process() as process:
            await process.warm_up(ann, chat)
            ground.start(process)
            with pytest.MonkeyPatch.context() as patch:  # the sender's marks wait for all of them
                patch.setattr(limits, "RECEIPT_FRAME_MS", limits.DAY_MS)
                sends = [process.send(ann, chat, text(SMALL), after=after) for _ in range(AT_ONCE)]
                sent = await asyncio.gather(*sends)
            answer = process.meter.reading()
        assert [entry.sequence for entry in sent] == list(range(3, 3 + AT_ONCE))
        ground.keep(at_once_name(has_after=after is not None), answer, process)


async def changes_of_a_message(ground: Ground) -> None:
    """Edited, redacted, reacted to; and marked as read."""
    chat, (ann, bob) = await ground.chat(2)
    await ground.step("edit", chat, ann, lambda p: p.core.verbs.edit(ann, chat, 2, text(SMALL)))
    await ground.step("react", chat, ann, lambda p: p.core.verbs.react(bob, chat, 4, "+1"))
    await ground.step("redact", chat, ann, lambda p: p.core.verbs.redact(ann, chat, 2))
    await ground.step("pin", chat, ann, lambda p: p.core.verbs.pin(ann, chat, 4))
    for name, options in (
        ("reply, 1:1, offline", SendOptions(reply_to=4)),
        ("mention of one user, 1:1, offline", SendOptions(mentions=(user_id(bob),))),
    ):
        send_it = partial(Process.send, sender=ann, chat=chat, content=text(SMALL), options=options)
        await ground.step(name, chat, ann, send_it)
    await ground.step("post by the tenant, 1:1, offline", chat, ann, lambda p: p.post(ann, chat))
    async with ground.process() as process:
        file = SendOptions(attachments=(await process.upload(ann),))
    send_it = partial(Process.send, sender=ann, chat=chat, content=text(SMALL), options=file)
    await ground.step("message with one file, 1:1, offline", chat, ann, send_it)
    await timed_cases(ground)
    chat, (ann, bob) = await ground.chat(2)
    name = "mark read, over REST"
    await ground.step(name, chat, ann, lambda p: p.core.verbs.mark(bob, chat, 0, 2))
    await ground.step("mark unread", chat, ann, lambda p: p.core.verbs.mark_unread(bob, chat, 2))
    hide = "hide a chat"
    await ground.step(hide, chat, ann, lambda p: p.core.verbs.hide(bob, chat, is_hidden=True))
    name = "who read a message, 1:1"
    await ground.step(
        name, chat, ann, lambda p: p.core.verbs.message_receipts(bob, chat, 2, None, 50)
    )
    report = "report a message, 1:1"
    await ground.step(
        report, chat, ann, lambda p: p.core.verbs.report.of_message(bob, chat, 2, "spam", None)
    )
    name = "explain a message, 1:1"
    await ground.step(name, chat, ann, lambda p: explain(p, bob, chat, 2))


async def explain(process: Process, user: UserKey, chat: ChatId, sequence: int) -> None:
    """Ask what became of a message on its way to a user."""
    profile = User(user=user, display_name=None, phone_number=None, created_at=1, updated_at=1)
    await make_explain(process.core, NoJournals()).message(chat, sequence, profile)


async def changes_of_members(ground: Ground) -> None:
    """One joins a chat of ten, one goes."""
    chat, (owner, *others) = await ground.chat(10)
    new = person(next(_people))
    await ground.home.store.users.put(new, display_name=None, phone_number=None, now=1)
    await ground.step(
        "add a member to ten",
        chat,
        owner,
        lambda p: p.core.verbs.put_member(owner, chat, new, None),
    )
    chat, (owner, *others) = await ground.chat(10)
    await ground.step(
        "remove a member of ten",
        chat,
        owner,
        lambda p: p.core.verbs.remove_member(owner, chat, others[-1]),
    )


async def moderating(ground: Ground) -> None:
    """A chat of ten is frozen."""
    chat, (owner, *_) = await ground.chat(10)
    tenant = tenant_of(owner)
    await ground.step(
        "freeze a chat of ten",
        chat,
        owner,
        lambda p: p.core.verbs.change_settings(
            TenantCaller(tenant, "key"), tenant, chat, frozen=True, slow_mode_seconds=None
        ),
    )


async def deleting(ground: Ground) -> None:
    """A chat of ten in which two messages were sent is deleted, down to its places."""
    chat, (owner, *_) = await ground.chat(10)
    async with ground.process() as process:
        await process.warm_up(owner, chat)
        await process.warm_up(owner, chat)
        core = process.core
        runner = DeletionRunner(
            deletions=core.store.deletions,
            bus=core.bus,
            clock=core.clock,
            holder="me",
            delivery=None,
            back_off=back_off,
        )
        ground.start(process)
        await core.verbs.delete.as_owner(owner, chat)
        answer = process.meter.reading()
        while await runner.round():
            pass
    ground.keep("delete a chat of ten, 2 messages", answer, process)


async def history(ground: Ground) -> None:
    """The last messages of a chat, for one whose process knows the author's key."""
    chat, (ann, bob) = await ground.chat(2)
    await ground.home.send_many(ann, chat, PAGE + 10)
    await ground.home.rest(ann)
    async with ground.process() as process:
        read = process.core.verbs.read
        await read.messages(bob, chat, before=10**9, limit=PAGE)
        ground.start(process)
        page = await read.messages(bob, chat, before=10**9, limit=PAGE)
        assert len(page.entries) == PAGE
        ground.keep(f"history page of {PAGE}", process.meter.reading(), process)
        ground.start(process)
        inspected = await process.core.verbs.inspect.sealed_entries(
            Root(), tenant_of(ann), chat, after=5, limit=PAGE
        )
        assert len(inspected.entries) == PAGE
        ground.keep(f"log page of {PAGE}, for the tenant", process.meter.reading(), process)
        ground.start(process)
        assert (await read.one(bob, chat, 5)).entries[0].content
        ground.keep("one message, by its id", process.meter.reading(), process)
        ground.start(process)
        asked = Asked("nowhere", chat, None, None, None)
        assert (await process.core.verbs.search(bob, asked, None, PAGE)).cursor is None
        ground.keep(f"search in a chat of {PAGE + 10} messages", process.meter.reading(), process)


async def reads_of_many_chats(ground: Ground) -> None:
    """The chat list, and hello with and without something missed."""
    for direct in (CHATS, FEW):
        user, chats = await some_chats(ground.home, direct)
        async with ground.process() as process:
            await process.core.verbs.list(user, None, CHATS)
            await process.rest(user)  # it looks at chats that are new to it, and says what it found
            ground.start(process)
            rows, _ = await process.core.verbs.list(user, None, CHATS)
            assert len(rows) == CHATS
            name = f"chat list of {chats_name(direct)}"
            ground.keep(name, process.meter.reading(), process)
            await hello(ground, f"hello, {chats_name(direct)}, nothing new", process, user)

            if direct == CHATS:
                ground.start(process)
                assert (await process.core.verbs.count_total(user)).total == 0
                name = f"unread total of {chats_name(direct)}"
                ground.keep(name, process.meter.reading(), process)
                for _ in range(MISSED):  # at once, some would share an item
                    await ground.home.send(user, chats[0], text(100))
                await ground.home.rest(user)
                name = f"hello by heads, {chats_name(direct)}, {MISSED} missed"
                await hello(ground, name, process, user)
                name = f"reconnect, {chats_name(direct)}, {MISSED} missed"
                await hello(ground, name, process, user, behind=chats[0])


async def some_chats(home: Process, direct: int) -> tuple[UserKey, list[ChatId]]:
    """A user with so many direct chats and groups, one message in each, all read."""
    user, *peers = (person(next(_people)) for _ in range(direct + 1))
    for one in (user, *peers):
        await home.store.users.put(one, display_name=None, phone_number=None, now=1)
    chats: list[ChatId] = []
    for start in range(0, CHATS, _CHATS_AT_ONCE):
        some = [
            a_chat(home.store, user, peers[n], kind="direct")
            if n < direct
            else a_chat(home.store, user, peers[0])
            for n in range(start, start + _CHATS_AT_ONCE)
        ]
        new = [state.chat_id for state in await asyncio.gather(*some)]
        await asyncio.gather(*(home.send_many(user, chat, 1) for chat in new))
        chats += new
    await home.rest(user)
    return user, chats


async def hello(
    ground: Ground, name: str, process: Process, user: UserKey, *, behind: ChatId | None = None
) -> None:
    """What the gateway reads until `live`, and for the presence of peers after it."""
    ground.start(process)
    held = await process.store.chats.list_heads(user)
    if behind is not None:
        page = await process.core.verbs.read.entries(user, behind, after=2, limit=limits.PAGE_MAX)
        assert len(page.entries) == MISSED
    answer = process.meter.reading()
    assert len(held) == CHATS
    await process.store.users.visible_peers(user)
    ground.keep(name, answer, process)

# SPDX-License-Identifier: Apache-2.0
"""Frames about inboxes, where timing matters: judged for each portion, bounded, at a pace."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tests.support.users import ANN, BOB, CAT
from tests.unit.fake_connection import FakeConnection
from tests.unit.gateway_bench import GatewayBench, a_gateway
from tidings.actions.inbox.broadcast_log import LogViews
from tidings.actions.inbox.showing import OpenedNotification
from tidings.gateway import inbox_counts, notices
from tidings.gateway.inbox_counts import COUNTED_AT_ONCE, InboxUnreadCounts
from tidings.gateway.notices import InboxFrames
from tidings.model.ids import UserKey, user_key
from tidings.model.inbox_reading import UnreadCount
from tidings.model.notifications import Broadcast, Copy, InboxConfig, Posting
from tidings.model.preferences import CategoryChoice, Preferences
from tidings.model.refusals import StoreUnavailable
from tidings.ports.bus import BroadcastPosted, CopiesMade, InboxRead, Retracted
from tidings.ports.inboxes import Notifications

HELLO: dict[str, Any] = {"title": "Hello", "body": ""}
EVERYONE = Posting(users=None, message=HELLO)


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[GatewayBench]:
    async with a_gateway(tmp_path / "data") as made:
        await made.core.store.inbox_settings.put_config("acme", "news", InboxConfig(title="News"))
        yield made


@pytest.fixture
async def frames(bench: GatewayBench) -> AsyncIterator[InboxFrames]:
    inbox = bench.core.inbox
    made = InboxFrames(
        bench.core.bus,
        bench.hub,
        views=inbox.views,
        showing=inbox.showing,
        copies=bench.core.store.copies,
        reachable=inbox.reachable,
        recounts=InboxUnreadCounts(bench.hub, inbox.unread),
    )
    yield made
    await made.close()


async def live(bench: GatewayBench, *users: UserKey) -> list[FakeConnection]:
    return [await bench.line().live(user) for user in users]


async def done(frames: InboxFrames) -> None:
    """Wait until nothing is under way."""
    async with asyncio.timeout(60):
        await frames._tasks.finish()
        await frames._recounts._tasks.finish()


async def test_what_is_taken_back_meanwhile_goes_to_no_further_portion(
    bench: GatewayBench, frames: InboxFrames, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notices, "USERS_AT_ONCE", 1)
    lines = await live(bench, ANN, BOB, CAT)
    showing = bench.core.inbox.showing
    real, looks = showing.broadcast_text, list[str]()

    async def broadcast_text(told: Broadcast) -> OpenedNotification | None:
        looks.append(told.notification_id)
        shown = await real(told)
        if len(looks) == 2:
            await bench.core.inbox.redact("acme", "news", told.notification_id)
        return shown

    monkeypatch.setattr(showing, "broadcast_text", broadcast_text)
    await bench.core.inbox.post("acme", "news", EVERYONE, None)
    await done(frames)
    assert [len(line.of("notification")) for line in lines] == [1, 0, 0]
    assert [len(line.of("retracted")) for line in lines] == [1, 1, 1]


async def test_a_broadcast_goes_to_those_who_want_its_category(
    bench: GatewayBench, frames: InboxFrames
) -> None:
    lines = await live(bench, ANN, BOB)
    off = Preferences(categories={"offers": CategoryChoice(in_app=False)})
    await bench.core.inbox.preferences.put(ANN, "news", off)
    for category in ("offers", "other", None):
        told = msgspec.structs.replace(EVERYONE, category=category)
        await bench.core.inbox.post("acme", "news", told, None)
    await done(frames)
    seen = [[frame["category"] for frame in line.of("notification")] for line in lines]
    assert [sorted(map(str, one)) for one in seen] == [
        ["None", "other"], ["None", "offers", "other"],
    ]  # fmt: skip


async def test_a_copy_taken_back_while_its_text_is_looked_up_is_not_shown(
    bench: GatewayBench, frames: InboxFrames, monkeypatch: pytest.MonkeyPatch
) -> None:
    (line,) = await live(bench, ANN)
    inbox, store = bench.core.inbox, bench.core.store
    posted = await inbox.post("acme", "news", Posting(users=["ann"], message=HELLO), None)
    name = posted.notification_id
    copy = Copy(notification_id=name, category=None, received_at=1, expires_at=2**52)
    await store.copies.deliver([ANN], "news", copy)
    real = inbox.showing.copy_texts

    async def copy_texts(
        tenant: str, named: str, ids: Sequence[str]
    ) -> dict[str, OpenedNotification]:
        shown = await real(tenant, named, ids)
        await inbox.redact("acme", "news", name)
        return shown

    monkeypatch.setattr(inbox.showing, "copy_texts", copy_texts)
    frames.hint(CopiesMade("acme", "news", name, 1, (ANN,)))
    await done(frames)
    assert (len(line.of("notification")), len(line.of("retracted"))) == (0, 1)


async def test_a_hint_at_what_is_not_there_shows_nothing(
    bench: GatewayBench, frames: InboxFrames
) -> None:
    (line,) = await live(bench, ANN)
    before = len(line.frames)
    for event in (
        CopiesMade("acme", "news", "0" * 26, 1, (ANN,)),
        BroadcastPosted("acme", "news", 7),
        Retracted("acme", "news", "b7"),
        Retracted("acme", "news", "0" * 26),
        InboxRead(BOB, "news"),
        InboxRead(ANN, "no-such-inbox"),
    ):
        frames.hint(event)
    await done(frames)
    assert line.frames[before:] == []


async def test_beyond_a_bound_hints_are_dropped(
    bench: GatewayBench, frames: InboxFrames, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notices, "WAITING_MAX", 2)
    await live(bench, ANN)
    for _ in range(5):
        frames.hint(BroadcastPosted("acme", "news", 1))
    assert frames.dropped == 3
    frames.hint(CopiesMade("acme", "news", "0" * 26, 1, (BOB,)))
    assert frames.dropped == 3, "nobody it is about is here"
    await done(frames)
    frames.hint(BroadcastPosted("acme", "news", 1))
    assert frames.dropped == 3


async def test_a_store_that_is_away_ends_nothing(
    bench: GatewayBench, frames: InboxFrames, monkeypatch: pytest.MonkeyPatch
) -> None:
    (line,) = await live(bench, ANN)

    async def away(*_: object, **__: object) -> None:
        raise StoreUnavailable

    with monkeypatch.context() as trouble:
        trouble.setattr(bench.core.inbox.views, "get", away)
        frames.hint(BroadcastPosted("acme", "news", 1))
        frames.hint(InboxRead(ANN, "news"))
        await done(frames)
    await bench.core.inbox.post("acme", "news", EVERYONE, None)
    await line.until(lambda: line.of("notification"))


async def test_a_repeat_sends_the_frame_that_an_interrupted_broadcast_did_not_send(
    bench: GatewayBench, frames: InboxFrames, monkeypatch: pytest.MonkeyPatch
) -> None:
    (line,) = await live(bench, ANN)

    async def away(*_: object) -> None:
        raise StoreUnavailable

    with monkeypatch.context() as trouble:
        trouble.setattr(bench.core.store.push, "settings", away)
        with pytest.raises(StoreUnavailable):
            await bench.core.inbox.post("acme", "news", EVERYONE, "key")
    await done(frames)
    assert line.of("notification") == []
    posted = await bench.core.inbox.post("acme", "news", EVERYONE, "key")
    await done(frames)
    assert posted.is_replay
    assert [frame["id"] for frame in line.of("notification")] == [posted.notification_id]


async def test_users_of_a_tenant_are_those_of_no_other(bench: GatewayBench) -> None:
    near = user_key("acme-2", "ann")
    await live(bench, ANN, near, BOB)
    assert sorted(bench.hub.of_tenant("acme")) == [ANN, BOB]
    assert bench.hub.of_tenant("acme-2") == [near]
    assert bench.hub.of_tenant("acm") == []


# Counting again.


class Counting:
    """Counts when it is let."""

    def __init__(self) -> None:
        self.begun: list[tuple[UserKey, str]] = []
        self.may_go = asyncio.Event()

    async def __call__(self, user: UserKey, inbox: str) -> UnreadCount:
        self.begun.append((user, inbox))
        await self.may_go.wait()
        return UnreadCount(1, {})


async def test_counts_go_at_a_pace_each_once_and_who_reads_goes_first(
    bench: GatewayBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inbox_counts, "RECOUNTS_WAITING_MAX", 2)
    await live(bench, ANN, BOB)
    counting = Counting()
    made = InboxUnreadCounts(bench.hub, counting)
    for number in range(COUNTED_AT_ONCE):
        made.ask(ANN, f"busy-{number}")
        await asyncio.sleep(0)
    assert len(counting.begun) == COUNTED_AT_ONCE
    made.ask(ANN, "news")
    made.ask(ANN, "news")
    made.ask(BOB, "news", is_urgent=True)
    made.ask(CAT, "news")  # who is not here
    made.ask(BOB, "more")
    assert made.dropped == 1
    await asyncio.sleep(0)
    assert len(counting.begun) == COUNTED_AT_ONCE
    counting.may_go.set()
    async with asyncio.timeout(60):
        await made._tasks.finish()
    assert counting.begun[COUNTED_AT_ONCE:] == [(BOB, "news"), (ANN, "news")]
    await made.close()


async def test_of_two_counts_the_later_one_is_told_last(bench: GatewayBench) -> None:
    (line,) = await live(bench, ANN)
    first_may_end, totals = asyncio.Event(), iter((5, 0))

    async def count(_user: UserKey, _inbox: str) -> UnreadCount:
        total = next(totals)
        if total == 5:
            await first_may_end.wait()
        return UnreadCount(total, {})

    counting = InboxUnreadCounts(bench.hub, count)
    counting.ask(ANN, "news")
    await asyncio.sleep(0)
    counting.ask(ANN, "news", is_urgent=True)
    for _ in range(5):
        await asyncio.sleep(0)
    first_may_end.set()
    await line.until(lambda: len(line.of("unread")) == 2)
    assert [frame["total"] for frame in line.of("unread")] == [5, 0]
    await counting.close()


class OtherProcess:
    """The store's notifications as of a process that remembers them for a minute."""

    broadcasts_age_ms = 60_000

    def __init__(self, notifications: Notifications) -> None:
        self._notifications = notifications

    def __getattr__(self, name: str) -> Any:
        return getattr(self._notifications, name)


async def test_what_another_process_has_shown_can_be_marked_here(bench: GatewayBench) -> None:
    core = bench.core
    views = LogViews(OtherProcess(core.store.notifications), core.clock)
    count = replace(core.inbox.unread, views=views)
    read = replace(
        core.inbox.read,
        find=replace(core.inbox.read.find, views=views),
        move=replace(core.inbox.read.move, views=views, count=count),
    )
    assert (await views.get("acme", "news")).head == 0
    for number in (1, 2, 3):
        posted = await core.inbox.post("acme", "news", EVERYONE, None)
        assert posted.notification_id == f"b{number}"
        if number == 1:
            await read.some(ANN, "news", ["b1"])
            assert (await core.store.copies.read_state(ANN, "news")).singly.keys() == {1}
    await read.before(ANN, "news", core.clock.now() + 60_000)
    assert (await core.store.copies.read_state(ANN, "news")).announced == 3

# SPDX-License-Identifier: Apache-2.0
"""The stream to one connection: hello, catch-up, live, falling behind, on the real core."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from time import perf_counter

import pytest
from msgspec.structs import replace

from tests.support.users import ANN, BOB, CAT
from tests.unit.fake_connection import FakeConnection
from tests.unit.gateway_bench import TENANT_KEY, GatewayBench, a_gateway
from tidings.actions.identity.caller import Caller
from tidings.actions.rate_limits import RateLimits
from tidings.limiters import InProcessBuckets
from tidings.model import limits
from tidings.model.entries import Entry
from tidings.model.ids import UserKey
from tidings.model.refusals import StoreUnavailable, Unauthenticated
from tidings.ports.bus import Learnt
from tidings.ports.log import Page
from tidings.tasks import SLICE_SECONDS
from tidings.wire.codes import Close


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[GatewayBench]:
    async with a_gateway(tmp_path / "data") as made:
        yield made


class Pass:
    """A place that is reached once and then passed on a word."""

    def __init__(self) -> None:
        self.is_reached = asyncio.Event()
        self.go_on = asyncio.Event()

    async def wait(self) -> None:
        self.is_reached.set()
        await self.go_on.wait()

    async def before(self, read: Callable[[], Awaitable[Page]]) -> Page:
        if not self.is_reached.is_set():
            await self.wait()
        return await read()

    async def after(self, read: Callable[[], Awaitable[Page]]) -> Page:
        page = await read()
        if not self.is_reached.is_set():
            await self.wait()
        return page


# Hello.


@pytest.mark.parametrize(
    ("token", "code"),
    [
        ("nonsense", Close.NOT_AUTHENTICATED),
        (TENANT_KEY, Close.FORBIDDEN),
        ("unavailable", Close.OVERLOADED),
    ],
)
async def test_who_is_no_user_is_sent_away(bench: GatewayBench, token: str, code: Close) -> None:
    line = bench.line()
    line.say("hello", token=token, device="phone")
    await line.until(lambda: line.closes)
    assert (line.closes, line.frames) == ([code], [])


@pytest.mark.attack("A12")
async def test_what_is_revoked_while_a_limit_is_looked_up_lets_nobody_in(
    bench: GatewayBench,
) -> None:
    class Looking(RateLimits):
        async def connect(self, user: UserKey) -> int:
            revoked.add("acme:ann")
            return await super().connect(user)

    async def authenticate(token: str) -> Caller:
        if token in revoked:
            raise Unauthenticated
        return await bench.context.authenticate(token)

    revoked: set[str] = set()
    buckets = InProcessBuckets()
    context = replace(bench.context, authenticate=authenticate, limits=Looking(buckets, buckets))
    line = bench.line(context=context)
    line.say("hello", token="acme:ann", device="phone")
    await line.until(lambda: line.closes)
    assert (line.closes, line.frames) == ([Close.NOT_AUTHENTICATED], [])


async def test_of_many_wrong_tokens_the_store_is_asked_about_one(bench: GatewayBench) -> None:
    async def authenticate(token: str) -> Caller:
        if token.startswith("wrong"):
            asked.append(token)
            await asyncio.sleep(0)
            raise Unauthenticated
        return await bench.context.authenticate(token)

    asked: list[str] = []
    line = bench.line(context=replace(bench.context, authenticate=authenticate))
    line.say("hello", token="acme:ann", device="phone")
    await line.until(lambda: line.ops[-1:] == ["live"])
    for number in range(50):
        line.say("auth", token=f"wrong-{number}")
    await line.until(lambda: line.closes)
    assert (line.closes, asked) == ([Close.NOT_AUTHENTICATED], ["wrong-0"])


async def test_what_follows_hello_at_once_is_done_after_welcome(bench: GatewayBench) -> None:
    chat = await bench.group(ANN, BOB)
    line = bench.line()
    line.say("hello", token=ANN, device="phone")
    line.say("send", id="1", chat=chat, client_message_id="early", content="hi")
    await line.until(lambda: line.of("sent"))
    assert line.ops.index("welcome") < line.ops.index("sent")
    assert not line.closes


async def test_what_is_missing_comes_newest_activity_first_and_then_live(
    bench: GatewayBench,
) -> None:
    old, quiet, new = [await bench.group(ANN, BOB) for _ in range(3)]
    await bench.post(ANN, old, 3)
    await bench.post(ANN, new, 3)
    line = await bench.line().live(BOB, have={old: 2, quiet: 1, new: 3})

    assert line.ops == ["welcome", "entry", "entry", "entry", "live"]
    assert [told["chat"] for told in line.of("entry")] == [new, old, old]
    assert (line.sequences(new), line.sequences(old)) == ([4], [3, 4])


async def test_too_many_connections_of_one_user(bench: GatewayBench) -> None:
    await bench.group(ANN, BOB)
    for _ in range(limits.USER_CONNECTIONS_MAX):
        await bench.line().live(BOB)
    one_too_many = bench.line()
    one_too_many.say("hello", token=BOB, device="phone")
    await one_too_many.until(lambda: one_too_many.closes)
    assert one_too_many.closes == [Close.TOO_MANY_CONNECTIONS]

    await bench.lines[0].hang_up()
    await bench.line().live(BOB)


async def twenty_of_bob(bench: GatewayBench) -> list[FakeConnection]:
    """As many connections of one phone as a user may have, of which all but two were used now."""
    lines = [await bench.line().live(BOB) for _ in range(limits.USER_CONNECTIONS_MAX)]
    for line in lines:
        line.time = limits.IDLE_MS - 1
    for line in lines[2:]:
        line.say("typing", chat="none")
    lines[0].say("fetch", id="1", chat="none", after=1)
    lines[0].time = lines[1].time = 2 * limits.IDLE_MS
    # Nobody needs to use the phone for these.
    lines[1].say("ping")
    lines[1].say("received", chat="none", sequence=1)
    lines[1].say("away", away=False)
    return lines


async def test_the_longest_unused_connection_of_a_device_makes_room(bench: GatewayBench) -> None:
    lines = await twenty_of_bob(bench)
    new = bench.line()
    new.time = limits.IDLE_MS
    await new.live(BOB)
    assert [line.closes for line in lines[:3]] == [[], [Close.TOO_MANY_CONNECTIONS], []]
    assert len(bench.hub.of(BOB)) == limits.USER_CONNECTIONS_MAX

    late = bench.line()
    late.time = limits.IDLE_MS
    late.say("hello", token=BOB, device="phone")
    await late.until(lambda: late.closes)
    assert (late.closes, lines[0].closes) == ([Close.TOO_MANY_CONNECTIONS], [])


async def test_connections_that_nobody_looks_at_make_room_at_once(bench: GatewayBench) -> None:
    lines = await twenty_of_bob(bench)
    lines[7].say("away", away=True)
    lines[8].say("away", away=True)
    lines[8].say("away", away=False)
    await bench.line().live(BOB)
    assert [number for number, line in enumerate(lines) if line.closes] == [7]


async def test_no_other_device_makes_room(bench: GatewayBench) -> None:
    lines = await twenty_of_bob(bench)
    tablet = bench.line()
    tablet.time = 9 * limits.IDLE_MS
    tablet.say("hello", token=BOB, device="tablet")
    await tablet.until(lambda: tablet.closes)
    assert tablet.closes == [Close.TOO_MANY_CONNECTIONS]
    assert not any(line.closes for line in lines)


@pytest.mark.parametrize("is_list_read", [False, True])
async def test_what_is_appended_during_hello_comes_once(
    bench: GatewayBench, is_list_read: bool
) -> None:
    chat = await bench.group(ANN, BOB)
    gate = Pass()
    line = bench.line(context=bench.desk_with_held(gate.wait, is_after=is_list_read))
    line.say("hello", token=BOB, device="phone", have={chat: 1})
    await gate.is_reached.wait()
    await bench.post(ANN, chat, 3)
    assert line.ops == ["welcome"]
    gate.go_on.set()

    await line.until_entries(chat, 3)
    await bench.post(ANN, chat)
    await line.until_entries(chat, 4)
    assert line.sequences(chat) == [2, 3, 4, 5]


async def test_what_is_appended_during_catch_up_comes_after_it(bench: GatewayBench) -> None:
    chat = await bench.group(ANN, BOB)
    await bench.post(ANN, chat, 5)
    gate = Pass()
    line = bench.line(context=bench.desk_with_reads(gate.after))
    line.say("hello", token=BOB, device="phone")
    await gate.is_reached.wait()
    await bench.post(ANN, chat, 3)
    assert line.of("entry") == []
    gate.go_on.set()

    await line.until_entries(chat, 9)
    assert line.sequences(chat) == list(range(1, 10))
    assert line.ops.index("live") >= 7


async def test_a_chat_joined_during_hello_is_followed(bench: GatewayBench) -> None:
    await bench.group(BOB)
    gate = Pass()
    line = bench.line(context=bench.desk_with_held(gate.wait))
    line.say("hello", token=BOB, device="phone")
    await gate.is_reached.wait()
    chat = await bench.group(ANN, BOB)
    await bench.post(ANN, chat, 2)
    gate.go_on.set()
    await line.until(lambda: line.of("live"))
    await bench.post(ANN, chat)

    await line.until_entries(chat, 4)
    assert line.sequences(chat) == [1, 2, 3, 4]


async def test_a_chat_left_during_hello_is_gone(bench: GatewayBench) -> None:
    chat = await bench.group(ANN, BOB)
    await bench.post(ANN, chat, 3)
    gate = Pass()
    line = bench.line(context=bench.desk_with_held(gate.wait))
    line.say("hello", token=BOB, device="phone")
    await gate.is_reached.wait()
    await bench.core.verbs.remove_member(ANN, chat, BOB)
    gate.go_on.set()

    await line.until(lambda: line.of("live"))
    assert line.ops == ["welcome", "gone", "live"]


@pytest.mark.parametrize("error", [StoreUnavailable(), RuntimeError("unexpected")])
async def test_a_hello_that_cannot_be_answered_is_for_later(
    bench: GatewayBench, error: Exception
) -> None:
    async def fail() -> None:
        raise error

    line = bench.line(context=bench.desk_with_held(fail))
    line.say("hello", token=BOB, device="phone")
    await line.until(lambda: line.closes)
    assert (line.closes, line.ops) == ([Close.OVERLOADED], ["welcome"])


# Live.


async def test_entries_go_to_all_lines_but_the_senders_own(bench: GatewayBench) -> None:
    chat = await bench.group(ANN, BOB)
    senders, ann, bob = [await bench.line().live(user, have={chat: 1}) for user in (ANN, ANN, BOB)]
    for number in range(3):
        senders.say("send", id=f"{number}", chat=chat, client_message_id=f"x{number}", content="hi")
    await bob.until_entries(chat, 3)
    await bench.post(BOB, chat)

    await senders.until_entries(chat, 1)
    assert [told["sequence"] for told in senders.of("sent")] == [2, 3, 4]
    assert senders.sequences(chat) == [5]
    assert ann.sequences(chat) == bob.sequences(chat) == [2, 3, 4, 5]


async def test_a_sender_who_is_behind_gets_its_own_message_from_the_log(
    bench: GatewayBench,
) -> None:
    chat = await bench.group(ANN, BOB)
    line = await bench.line().live(ANN, have={chat: 1})
    line.pause()
    await bench.post(BOB, chat, 2)
    line.say("send", id="1", chat=chat, client_message_id="x", content="hi")
    await line.until(lambda: line.of("sent"))
    line.resume()

    await line.until_entries(chat, 3)
    assert line.sequences(chat) == [2, 3, 4]


async def test_messages_of_another_process_come_when_this_one_reads_them(
    bench: GatewayBench,
) -> None:
    reads = 0

    async def count(read: Callable[[], Awaitable[Page]]) -> Page:
        nonlocal reads
        reads += 1
        return await read()

    other = bench.another_process()
    chat = await bench.group(ANN, BOB)
    await bench.post(ANN, chat)
    await other.post(BOB, chat)
    await bench.post(ANN, chat)  # nobody is connected who would get what was read
    line = await bench.line(context=bench.desk_with_reads(count)).live(BOB)
    reads = 0
    await other.post(ANN, chat, 2)
    await bench.post(ANN, chat)
    await line.until_entries(chat, 7)
    assert line.sequences(chat) == [1, 2, 3, 4, 5, 6, 7]
    assert all(told["content"] for told in line.of("entry")[1:])
    assert reads == 0


async def test_many_messages_of_another_process_do_not_hold_up_the_event_loop(
    bench: GatewayBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat = await bench.group(ANN, BOB)
    await bench.post(ANN, chat, 3)
    state = await bench.core.appender.state(chat)
    assert state is not None
    turn, turns = 0, []

    class Slow:
        def deliver(self, entry: Entry, frame: bytes, *, is_small: bool) -> None:
            end = perf_counter() + 2 * SLICE_SECONDS
            while perf_counter() < end:
                pass
            turns.append(turn)

    monkeypatch.setattr(bench.hub, "by_user", {BOB: (Slow(),)})
    bench.core.bus.publish(Learnt(await bench.core.store.log.tail(chat, 1), state))
    while len(turns) < 3:
        turn += 1
        await asyncio.sleep(0)
    assert len({*turns}) == 3


async def test_who_is_removed_gets_that_as_the_last_entry(bench: GatewayBench) -> None:
    chat = await bench.group(ANN, BOB, CAT)
    bob, cat = [await bench.line().live(user, have={chat: 1}) for user in (BOB, CAT)]
    await bench.core.verbs.remove_member(ANN, chat, BOB)
    await bench.post(ANN, chat, 3)
    await cat.until_entries(chat, 4)
    assert bob.sequences(chat) == [2]
    assert bob.of("entry")[-1]["users"] == ["bob"]
    assert bob.progress.get(chat) is None

    await bench.core.verbs.put_member(ANN, chat, BOB, None)
    await bench.post(ANN, chat)
    await bob.until_entries(chat, 3)
    assert bob.sequences(chat) == [2, 6, 7]


async def test_who_is_removed_while_behind_is_told_that_the_chat_is_gone(
    bench: GatewayBench,
) -> None:
    chat = await bench.group(ANN, BOB)
    line = await bench.line().live(BOB, have={chat: 1})
    line.pause()
    await bench.post(ANN, chat, 2)
    await bench.core.verbs.remove_member(ANN, chat, BOB)
    line.resume()

    await line.until(lambda: line.of("gone"))
    assert (line.sequences(chat), line.of("gone")) == ([], [{"op": "gone", "chat": chat}])


async def test_who_learns_from_the_log_of_its_removal_is_not_told_again(
    bench: GatewayBench,
) -> None:
    chat = await bench.group(ANN, BOB)
    line = await bench.line().live(BOB, have={chat: 1})
    line.progress.leave(chat)
    await bench.core.verbs.remove_member(ANN, chat, BOB)
    assert line.of("entry") == []

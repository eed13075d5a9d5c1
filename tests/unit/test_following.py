# SPDX-License-Identifier: Apache-2.0
"""Following a chat after a hello with heads: it gets what every other device gets."""

import itertools
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tests.support.users import ANN, BOB, CAT
from tests.unit.gateway_bench import GatewayBench, a_gateway
from tidings.actions.rate_limits import RateLimits
from tidings.limiters import InProcessBuckets
from tidings.model import limits
from tidings.model.chats import ChatHead
from tidings.model.ids import ChatId, UserKey
from tidings.model.refusals import StoreUnavailable
from tidings.ports.log import Page

NOWHERE = ChatId("01HZZZZZZZZZZZZZZZZZZZZZZZ")


@pytest.fixture
async def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[GatewayBench]:
    monkeypatch.setattr(limits, "HEADS_MS", 1)
    async with a_gateway(tmp_path / "data") as made:
        yield made


# Following.


async def test_who_follows_gets_the_entries_after_what_it_has_and_all_later_ones(
    bench: GatewayBench,
) -> None:
    chat, other = await bench.group(ANN, BOB), await bench.group(ANN, BOB)
    await bench.post(ANN, chat, 5)
    line = await bench.line().live(BOB, catch_up="heads")
    line.say("follow", chat=chat, after=4)
    await line.until_entries(chat, 2)
    await bench.post(ANN, chat, 2)
    await bench.post(ANN, other)
    await line.until_entries(chat, 4)
    assert line.sequences(chat) == [5, 6, 7, 8]
    await line.until(lambda: line.heads[other] == 2)
    assert chat not in line.of("heads")[-1]["chats"]
    assert chat not in line.progress.unfollowed
    line.say("follow", chat=chat, after=0)
    await bench.post(ANN, chat)
    await line.until_entries(chat, 5)
    assert line.sequences(chat) == [5, 6, 7, 8, 9], "a chat that is followed stays as it is"


@pytest.mark.parametrize(
    ("after", "entries", "head"),
    [
        (None, [4, 5, 6, 7, 8], None),
        (3, [4, 5, 6, 7, 8], None),
        (8, [], None),
        (2, [], 8),
        (9, [], 8),
        (0, [], 8),
    ],
)
async def test_following_starts_as_a_chat_at_hello_does(
    bench: GatewayBench,
    monkeypatch: pytest.MonkeyPatch,
    after: int | None,
    entries: list[int],
    head: int | None,
) -> None:
    monkeypatch.setattr(limits, "CATCH_UP_CHAT_ENTRIES_MAX", 5)
    chat = await bench.group(ANN, BOB)
    await bench.post(ANN, chat, 7)
    line = await bench.line().live(BOB, catch_up="heads")
    line.say("follow", chat=chat, after=after)
    line.say("fetch", id="last", chat=chat, after=8)
    await line.until(lambda: line.of("page") and len(line.sequences(chat)) == len(entries))
    told = [] if head is None else [{"op": "resync", "chat": chat, "head": head}]
    await line.until(lambda: line.of("resync") == told)
    await bench.post(ANN, chat)
    await line.until_entries(chat, len(entries) + 1)
    assert line.sequences(chat) == [*entries, 9]


async def test_after_another_epoch_what_the_device_has_does_not_count(
    bench: GatewayBench,
) -> None:
    chat, other = await bench.group(ANN, BOB), await bench.group(ANN, BOB)
    await bench.post(ANN, chat, 2)
    line = await bench.line().live(BOB, catch_up="heads", epoch="another", have={chat: 2})
    line.say("follow", chat=chat, after=2)
    line.say("follow", chat=other)
    await line.until_entries(other, 1)
    assert line.of("resync") == [{"op": "resync", "chat": chat, "head": 3}]


async def test_a_late_head_is_looked_up(bench: GatewayBench) -> None:
    chat = await bench.group(ANN, BOB)
    await bench.post(ANN, chat, 2)

    async def late(user: UserKey) -> list[ChatHead]:
        return [replace_head(row, 1) for row in await bench.context.chats_of(user)]

    line = bench.line(context=replace(bench.context, chats_of=late))
    await line.live(BOB, catch_up="heads")
    assert line.heads == {chat: 1}
    line.say("follow", chat=chat, after=2)
    await line.until_entries(chat, 1)
    assert (line.sequences(chat), line.of("resync")) == ([3], [])


def replace_head(row: ChatHead, sequence: int) -> ChatHead:
    return msgspec.structs.replace(row, head=msgspec.structs.replace(row.head, sequence=sequence))


@pytest.mark.attack("D01")
@pytest.mark.parametrize("chat", ["nonsense", NOWHERE, "of others"])
async def test_who_is_no_member_gets_gone(bench: GatewayBench, chat: str) -> None:
    if chat == "of others":
        chat = await bench.group(ANN, CAT)
    line = await bench.line().live(BOB, catch_up="heads")
    line.say("follow", chat=chat, after=0)
    await line.until(lambda: line.of("gone"))
    assert line.of("gone", "entry", "resync") == [{"op": "gone", "chat": chat}]
    assert line.heads == {}
    assert line.progress.chats() == []


async def test_who_was_removed_and_did_not_hear_of_it_gets_gone(bench: GatewayBench) -> None:
    chat = await bench.group(ANN, BOB)
    await bench.post(ANN, chat, 2)
    line = await bench.line().live(BOB, catch_up="heads")
    bench.hub.closed(line, BOB)
    await bench.core.verbs.remove_member(ANN, chat, BOB)
    line.say("follow", chat=chat, after=1)
    await line.until(lambda: line.of("gone"))
    assert not line.of("entry")


async def test_who_is_removed_while_the_log_is_looked_up_gets_gone(bench: GatewayBench) -> None:
    chat = await bench.group(ANN, BOB)
    reads: list[int] = []

    async def around(read: Any) -> Page:
        page: Page = await read()
        reads.append(1)
        if len(reads) == 1:
            await bench.core.verbs.remove_member(ANN, chat, BOB)
        return page

    line = bench.line(context=bench.desk_with_reads(around))
    await line.live(BOB, catch_up="heads")
    line.progress.unfollowed.clear()
    line.say("follow", chat=chat, after=1)
    await line.until(lambda: line.of("gone"))
    assert line.progress.get(chat) is None


async def test_following_twice_during_a_look_up_is_following_once(bench: GatewayBench) -> None:
    chat = await bench.group(ANN, BOB)
    reads = itertools.count(1)

    async def around(read: Any) -> Page:
        if next(reads) == 2:
            await line.until_entries(chat, 1)
        page: Page = await read()
        return page

    line = bench.line(context=bench.desk_with_reads(around))
    await line.live(BOB, catch_up="heads")
    line.progress.unfollowed.clear()
    line.say("follow", chat=chat, after=0)
    line.say("follow", chat=chat, after=0)
    await line.until_entries(chat, 1)
    await bench.post(ANN, chat)
    await line.until_entries(chat, 2)
    assert line.sequences(chat) == [1, 2]


async def test_follow_may_come_before_welcome(bench: GatewayBench) -> None:
    chat = await bench.group(ANN, BOB)
    line = bench.line()
    line.say("hello", token=BOB, device="phone", catch_up="heads")
    line.say("follow", chat=chat, after=0)
    await line.until_entries(chat, 1)
    assert line.ops.index("heads") < line.ops.index("entry")


async def test_where_all_is_followed_follow_changes_nothing(bench: GatewayBench) -> None:
    chat = await bench.group(ANN, BOB)
    line = bench.line()
    line.say("hello", token=BOB, device="phone")
    line.say("follow", chat=chat, after=0)
    await line.until(lambda: line.of("live"))
    await bench.post(ANN, chat)
    await line.until_entries(chat, 2)
    assert (line.sequences(chat), line.of("heads")) == ([1, 2], [])


async def test_a_store_that_does_not_answer_refuses_the_follow(bench: GatewayBench) -> None:
    async def broken(_read: Any) -> Page:
        raise StoreUnavailable

    line = bench.line(context=bench.desk_with_reads(broken))
    await line.live(BOB, catch_up="heads")
    line.say("follow", id="f", chat=NOWHERE, after=3)
    await line.until(lambda: line.of("refused"))
    told = line.of("refused")[0]
    assert (told["id"], told["code"], told["retryable"]) == ("f", "store.unavailable", True)


async def test_following_is_charged_by_what_is_missing(bench: GatewayBench) -> None:
    charged: list[int] = []

    class Counting(RateLimits):
        async def read(self, user: UserKey, tokens: int = 1) -> int:
            charged.append(tokens)
            return await super().read(user, tokens)

    buckets = InProcessBuckets()
    chat = await bench.group(ANN, BOB)
    await bench.post(ANN, chat, 120)
    line = bench.line(context=replace(bench.context, limits=Counting(buckets, buckets)))
    await line.live(BOB, catch_up="heads")
    line.say("follow", chat=chat, after=1)
    line.say("follow", chat=NOWHERE, after=1)
    await line.until(lambda: line.of("gone"))
    assert charged == [3, 1]

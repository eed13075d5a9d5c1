# SPDX-License-Identifier: Apache-2.0
"""Hello with heads: nothing but heads until a chat is followed."""

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import astuple, replace

from tests.support.users import ANN, BOB
from tests.unit.gateway_bench import GatewayBench, a_gateway
from tidings.actions.chat.unread import CountTotal
from tidings.gateway.handover_receiver import HandoverReceiver
from tidings.model import limits
from tidings.model.chats import Unread
from tidings.model.ids import ChatId, UserKey
from tidings.model.refusals import StoreUnavailable
from tidings.ports.delivery import EncodedEntry
from tidings.ports.log import Page
from tidings.wire.codes import Close
from tidings.wire.frames import HeadsFrame, encode

NOWHERE = ChatId("01HZZZZZZZZZZZZZZZZZZZZZZZ")


@pytest.fixture
async def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[GatewayBench]:
    monkeypatch.setattr(limits, "HEADS_MS", 1)
    async with a_gateway(tmp_path / "data") as made:
        yield made


# Hello.


async def test_heads_come_instead_of_entries(bench: GatewayBench) -> None:
    first, second = await bench.group(ANN, BOB), await bench.group(ANN, BOB)
    await bench.post(ANN, first, 3)
    line = await bench.line().live(BOB, catch_up="heads")
    assert line.ops == ["welcome", "heads", "live"]
    assert line.of("heads") == [{"op": "heads", "chats": {first: 4, second: 1}}]


async def test_without_chats_there_is_an_empty_frame(bench: GatewayBench) -> None:
    line = await bench.line().live(BOB, catch_up="heads")
    assert line.ops == ["welcome", "heads", "live"]
    assert line.of("heads") == [{"op": "heads", "chats": {}}]


async def test_what_the_device_has_and_the_user_is_not_in_is_gone(bench: GatewayBench) -> None:
    chat = await bench.group(ANN, BOB)
    line = await bench.line().live(BOB, catch_up="heads", have={chat: 1, NOWHERE: 7})
    assert line.of("gone", "heads", "entry", "resync") == [
        {"op": "gone", "chat": NOWHERE},
        {"op": "heads", "chats": {chat: 1}},
    ]


async def test_a_frame_has_so_many_heads_and_no_more(
    bench: GatewayBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    chats = [await bench.group(ANN, BOB) for _ in range(5)]
    monkeypatch.setattr(limits, "HEADS_CHATS_MAX", 2)
    line = await bench.line().live(BOB, catch_up="heads")
    assert [len(told["chats"]) for told in line.of("heads")] == [2, 2, 1]
    assert line.heads.keys() == set(chats)
    for chat in chats:
        await bench.post(ANN, chat)
    await line.until(lambda: line.heads == dict.fromkeys(chats, 2))
    assert max(len(told["chats"]) for told in line.of("heads")) == 2


def test_the_longest_frame_is_no_longer_than_a_frame_may_be() -> None:
    most = {f"{number:026}": 2**53 - 1 for number in range(limits.HEADS_CHATS_MAX)}
    assert len(encode(HeadsFrame(most))) < limits.FRAME_BYTES_MAX


async def test_heads_at_hello_cause_no_second_count_of_what_is_unread(bench: GatewayBench) -> None:
    chats = [await bench.group(ANN, BOB) for _ in range(3)]
    for chat in chats:
        await bench.post(ANN, chat)
    counted: list[ChatId] = []
    verbs = bench.context.verbs

    class Counting(CountTotal, frozen=True):
        async def of_chat(self, user: UserKey, chat: ChatId) -> tuple[Unread, int] | None:
            counted.append(chat)
            return await super().of_chat(user, chat)

    count = verbs.count_total
    counting = replace(verbs, count_total=Counting(*astuple(count)))
    line = bench.line(context=replace(bench.context, verbs=counting))
    await line.live(BOB, catch_up="heads", totals=True)
    await line.until(lambda: line.of("unread_total"))
    assert (line.of("unread_total")[-1]["messages"], counted) == (3, [])
    await bench.post(ANN, chats[0])
    await line.until(lambda: line.of("unread_total")[-1]["messages"] == 4)
    assert counted == [chats[0]]


# News.


async def test_news_of_a_second_come_together(
    bench: GatewayBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = await bench.group(ANN, BOB), await bench.group(ANN, BOB)
    line = await bench.line().live(BOB, catch_up="heads")
    monkeypatch.setattr(limits, "HEADS_MS", limits.DAY_MS)  # the second passes below
    await bench.post(ANN, first, 3)
    await bench.post(ANN, second)
    noted = line.progress.unfollowed
    await line.until(lambda: {chat: noted[chat].head for chat in noted} == {first: 4, second: 2})
    line.stream._unfollowed._send_news()
    assert line.heads == {first: 4, second: 2}
    assert line.of("heads")[1:] == [{"op": "heads", "chats": {first: 4, second: 2}}]
    assert not line.of("entry")


async def test_a_chat_joined_meanwhile_is_news_and_a_chat_that_ends_is_gone(
    bench: GatewayBench,
) -> None:
    line = await bench.line().live(BOB, catch_up="heads")
    joined = await bench.group(ANN, BOB)
    await line.until(lambda: line.heads == {joined: 1})
    await bench.core.verbs.remove_member(ANN, joined, BOB)
    await line.until(lambda: line.of("gone"))
    await bench.core.verbs.put_member(ANN, joined, BOB, None)
    await line.until(lambda: line.heads == {joined: 3})
    assert line.of("gone") == [{"op": "gone", "chat": joined}]


async def test_news_wait_while_the_client_does_not_read(bench: GatewayBench) -> None:
    chat, marker = await bench.group(ANN, BOB), await bench.group(ANN, BOB)
    line, other = (
        await bench.line().live(BOB, catch_up="heads"),
        await bench.line().live(BOB, catch_up="heads"),
    )
    line.pause()
    for _ in range(3):
        await bench.post(ANN, chat)
        head = other.heads[chat]
        await other.until(lambda: other.heads[chat] > head)  # noqa: B023 - awaited right here
    assert len(line.of("heads")) == 1
    await bench.post(ANN, marker)
    line.resume()
    await line.until(lambda: line.heads == {chat: 4, marker: 2})
    assert len(line.of("heads")) == 2


async def test_news_for_who_has_left_are_dropped(bench: GatewayBench) -> None:
    chat = await bench.group(ANN, BOB)
    line, other = (
        await bench.line().live(BOB, catch_up="heads"),
        await bench.line().live(BOB, catch_up="heads"),
    )
    await bench.post(ANN, chat)
    await line.hang_up()
    await other.until(lambda: other.heads == {chat: 2})
    assert line.heads == {chat: 1}


async def test_entries_during_hello_count_and_removals_are_looked_up(bench: GatewayBench) -> None:
    kept, left, back = [await bench.group(ANN, BOB) for _ in range(3)]
    new = []

    async def meanwhile() -> None:
        await bench.post(ANN, kept)
        await bench.core.verbs.remove_member(ANN, left, BOB)
        await bench.core.verbs.remove_member(ANN, back, BOB)
        await bench.core.verbs.put_member(ANN, back, BOB, None)
        new.append(await bench.group(ANN, BOB))

    line = bench.line(context=bench.desk_with_held(meanwhile))
    await line.live(BOB, catch_up="heads")
    assert line.heads == {kept: 2, back: 3, new[0]: 1}
    assert [told["chat"] for told in line.of("gone")] == [left]


async def test_comparing_heads_finds_what_was_not_delivered(
    bench: GatewayBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat = await bench.group(ANN, BOB)
    line = await bench.line().live(BOB, catch_up="heads")
    assert line.progress.chats() == [chat]
    monkeypatch.setattr(line, "deliver", lambda *_, **__: None)
    await bench.post(ANN, chat, 4)
    new = await bench.group(ANN, BOB)
    assert line.reconcile({chat: 5, new: 1})
    await line.until(lambda: line.heads == {chat: 5, new: 1})
    assert line.progress.chats() == [chat, new]


async def test_a_removal_that_was_not_delivered_is_found_when_heads_are_compared(
    bench: GatewayBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, kept = await bench.group(ANN, BOB), await bench.group(ANN, BOB)
    line = await bench.line().live(BOB, catch_up="heads")
    monkeypatch.setattr(line, "deliver", lambda *_, **__: None)
    await bench.core.verbs.remove_member(ANN, left, BOB)
    for chat in (left, kept):
        await bench.post(ANN, chat)
    assert line.reconcile({left: 3, kept: 2})
    await line.until(lambda: line.heads[kept] == 2)
    assert line.of("gone") == [{"op": "gone", "chat": left}]
    assert line.heads[left] == 1, "nothing of what happened after the removal"
    assert line.progress.chats() == [kept]


async def test_a_connection_closes_if_it_cannot_be_certain_who_is_a_member(
    bench: GatewayBench,
) -> None:
    async def fail(_read: object) -> Page:
        raise StoreUnavailable

    chat = await bench.group(ANN, BOB)
    line = bench.line(context=bench.desk_with_reads(fail))
    await line.live(BOB, catch_up="heads")
    assert line.reconcile({chat: 2})
    await line.until(lambda: line.closes)
    assert line.closes == [Close.OVERLOADED]


# What else a client may say about a chat that it does not follow.


async def test_received_is_refused_until_the_chat_is_followed(bench: GatewayBench) -> None:
    chat = await bench.group(ANN, BOB)
    await bench.post(ANN, chat, 2)
    line = await bench.line().live(BOB, catch_up="heads")
    line.say("received", chat=chat, sequence=3)
    await line.until(lambda: line.of("refused"))
    told = line.of("refused")[0]
    assert (told["code"], told["retryable"]) == ("receipt.not_followed", False)

    line.say("read", chat=chat, sequence=2)
    line.say("follow", chat=chat, after=2)
    await line.until_entries(chat, 1)
    line.say("received", chat=chat, sequence=3)
    await bench.core.receipts.close()
    receipts = {one.user: one for one in await bench.core.verbs.receipts(BOB, chat)}
    assert (receipts[BOB].delivered, receipts[BOB].read) == (3, 2)
    assert len(line.of("refused")) == 1


async def test_received_is_stored_also_after_a_comparison_of_heads(bench: GatewayBench) -> None:
    chat = await bench.group(ANN, BOB)
    line = await bench.line().live(BOB, catch_up="heads")
    await bench.another_process().post(ANN, chat)
    assert line.reconcile({chat: 2})
    line.say("follow", chat=chat, after=1)
    await line.until_entries(chat, 1)
    line.say("received", chat=chat, sequence=2)
    await bench.core.receipts.close()
    receipts = {one.user: one for one in await bench.core.verbs.receipts(BOB, chat)}
    assert receipts[BOB].delivered == 2


async def test_received_may_follow_right_after_follow(
    bench: GatewayBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat = await bench.group(ANN, BOB)
    line = bench.line()
    line.say("hello", token=BOB, device="phone", catch_up="heads")
    line.say("follow", chat=chat, after=1)
    line.say("received", chat=chat, sequence=1)
    await line.until(lambda: line.of("live"))
    line.say("fetch", id="last", chat=chat, after=0)
    await line.until(lambda: line.of("page"))
    monkeypatch.setattr(limits, "CONNECTION_REQUESTS_MAX", 0)
    line.say("follow", id="f", chat=NOWHERE)
    line.say("received", chat=NOWHERE, sequence=1)
    codes = [told["code"] for told in line.of("refused")]
    assert codes == ["connection.busy", "receipt.not_followed"], "what is not begun does not count"


async def test_own_messages_are_news_where_the_chat_is_not_followed(bench: GatewayBench) -> None:
    chat = await bench.group(ANN, BOB)
    line = await bench.line().live(BOB, catch_up="heads")
    line.say("send", id="1", chat=chat, client_message_id="mine", content="hi")
    await line.until(lambda: line.of("sent") and line.heads == {chat: 2})
    assert not line.of("entry")


async def test_a_client_says_what_it_is_and_whether_anybody_looks(
    bench: GatewayBench, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", "tidings.gateway")
    line = await bench.line().live(BOB, catch_up="heads", client="tidings-python/1.2")
    (logged,) = [vars(one) for one in caplog.records if vars(one).get("action") == "welcomed"]
    assert (logged["connection"], logged["client"]) == ("c0", "tidings-python/1.2")
    assert (line.conversation.client, line.conversation.is_away) == ("tidings-python/1.2", False)
    line.say("away", away=True)
    assert line.conversation.is_away
    line.say("away", away=False)
    assert not line.conversation.is_away


async def test_a_device_that_is_away_gets_entries_and_holds_back_no_push(
    bench: GatewayBench,
) -> None:
    chat = await bench.group(ANN, BOB)
    line, other = [await bench.line().live(BOB) for _ in range(2)]
    line.conversation.connection, other.conversation.connection = "here", "away"
    other.say("away", away=True)
    answers: list[list[str]] = []
    receiver = HandoverReceiver(bench.hub, lambda: None, lambda _: None)
    receiver.entries([an_entry(chat, 2)], [BOB], answers.append)
    await line.until(lambda: answers)
    assert answers == [["here"]]
    assert (line.sequences(chat), other.sequences(chat)) == ([1, 2], [1, 2])


async def test_entries_from_other_processes_may_come_in_any_order(bench: GatewayBench) -> None:
    chat, other = await bench.group(ANN, BOB), await bench.group(ANN, BOB)
    line = await bench.line().live(BOB, catch_up="heads")
    for sequence in (5, 3):
        line.stream.offer(an_entry(chat, sequence), b"", is_small=True)
    assert line.reconcile({chat: 4})
    await line.until(lambda: line.heads[chat] == 5)
    removal = msgspec.structs.replace(an_entry(chat, 4), kind="removed", removed=(BOB,))
    line.stream.offer(removal, b"", is_small=True)
    assert not line.of("gone"), "an entry after it shows that the user is back"
    for place in (chat, NOWHERE):
        last = msgspec.structs.replace(removal, chat_id=place, sequence=6)
        line.stream.offer(last, b"", is_small=True)
    assert line.of("gone") == [{"op": "gone", "chat": chat}]
    assert line.progress.chats() == [other]


def an_entry(chat: ChatId, sequence: int) -> EncodedEntry:
    frame = encode({"op": "entry", "chat": chat, "sequence": sequence})
    return EncodedEntry(
        chat_id=chat,
        sequence=sequence,
        kind="message",
        added=(),
        removed=(),
        is_small=True,
        frame=frame,
    )

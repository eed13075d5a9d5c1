# SPDX-License-Identifier: Apache-2.0
"""What a client asks for on an open connection: answers, refusals, and bounds on asking."""

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from tests.support.users import ANN, BOB, CAT
from tests.unit.fake_connection import FakeConnection, Frame
from tests.unit.gateway_bench import GatewayBench, a_gateway
from tidings.actions.identity.caller import UserCaller
from tidings.actions.rate_limits import RateLimits, check
from tidings.gateway.answer_frames import page_frame
from tidings.limiters import InProcessBuckets
from tidings.model import limits
from tidings.model.entries import Entry, Head
from tidings.model.ids import ChatId
from tidings.ports.log import Page
from tidings.stores.sqlite.chat.runs import RunJob
from tidings.wire.codes import Close
from tidings.wire.frames import Fetch, encode

NOWHERE = ChatId("01HZZZZZZZZZZZZZZZZZZZZZZZ")


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[GatewayBench]:
    async with a_gateway(tmp_path / "data") as made:
        yield made


async def answers(line: FakeConnection, op: str, count: int = 1) -> list[Frame]:
    await line.until(lambda: len(line.of(op)) >= count)
    return line.of(op)


# What may wait.


async def test_so_many_sends_may_wait_and_no_more(
    bench: GatewayBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "CONNECTION_REQUESTS_MAX", 3)
    chat = await bench.group(ANN, BOB)
    line = await bench.line().live(ANN)
    for number in range(5):
        line.say("send", id=f"{number}", chat=chat, client_message_id=f"m{number}", content="x")
    refused = await answers(line, "refused", 2)
    assert [(told["id"], told["code"], told["retryable"]) for told in refused] == [
        ("3", "connection.busy", True),
        ("4", "connection.busy", True),
    ]
    assert [told["id"] for told in await answers(line, "sent", 3)] == ["0", "1", "2"]

    line.say("send", id="5", chat=chat, client_message_id="m5", content="x")
    assert (await answers(line, "sent", 4))[-1]["id"] == "5"


@pytest.mark.parametrize(
    "frame",
    [
        {"op": "fetch", "id": "x", "after": 0},
        {"op": "received", "sequence": 2**50},
        {"op": "read", "sequence": 2**50},
        {"op": "typing"},
    ],
)
async def test_whatever_has_to_be_looked_up_is_bounded(
    bench: GatewayBench, monkeypatch: pytest.MonkeyPatch, frame: Frame
) -> None:
    monkeypatch.setattr(limits, "CONNECTION_REQUESTS_MAX", 3)
    await bench.group(ANN, BOB)
    line = await bench.line().live(ANN)
    for _ in range(5):
        line.say(**frame, chat=NOWHERE)
    refused = await answers(line, "refused", 5)
    codes = [told["code"] for told in refused]
    assert codes == ["connection.busy"] * 2 + ["chat.not_found"] * 3


# What reads cost.


class CountedReads:
    """A connection of Ann's on limits whose time stands still, with few tokens left."""

    def __init__(self, bench: GatewayBench) -> None:
        buckets = InProcessBuckets(lambda: 0)
        self.limits = RateLimits(buckets, buckets)
        self.line = bench.line(context=replace(bench.context, limits=self.limits))

    async def leave(self, tokens: int) -> None:
        """Use up the bucket of Ann's requests but for so many tokens, over REST."""
        caller, taken = UserCaller(ANN, None, 0), limits.USER_REQUESTS_BURST - tokens
        check(await self.limits.request(caller, None, taken))


COLD = [
    {"op": "fetch", "id": "x", "after": 0},
    {"op": "received", "sequence": 2**50},
    {"op": "read", "sequence": 2**50},
    {"op": "typing"},
]


@pytest.mark.attack("S10", "F04")
@pytest.mark.parametrize("frame", COLD)
async def test_what_is_read_for_a_frame_is_taken_from_the_users_requests(
    bench: GatewayBench, frame: Frame
) -> None:
    await bench.group(ANN, BOB)
    counted = CountedReads(bench)
    line = await counted.line.live(ANN)
    await counted.leave(3)
    for _ in range(5):
        line.say(**frame, chat=NOWHERE)
    refused = await answers(line, "refused", 5)
    codes = sorted(told["code"] for told in refused)
    assert codes == ["chat.not_found"] * 3 + ["rate.limited"] * 2
    limited = [told for told in refused if told["code"] == "rate.limited"]
    assert {(told["retryable"], told["retry_after_ms"]) for told in limited} == {
        (True, 1_000 // limits.USER_REQUESTS_PER_SECOND)
    }
    assert line.closes == []


@pytest.mark.attack("S10")
async def test_a_long_page_costs_more_than_a_short_one(bench: GatewayBench) -> None:
    chat = await bench.group(ANN, BOB)
    counted = CountedReads(bench)
    line = await counted.line.live(ANN)
    await counted.leave(3)
    line.say("fetch", id="long", chat=chat, after=0, limit=100)
    line.say("fetch", id="too long", chat=chat, after=0, limit=100)
    line.say("fetch", id="short", chat=chat, after=0, limit=50)
    assert [told["id"] for told in await answers(line, "page", 2)] == ["long", "short"]
    assert [told["id"] for told in line.of("refused")] == ["too long"]


@pytest.mark.attack("S10")
@pytest.mark.parametrize("frame", COLD)
async def test_who_does_not_stop_reading_is_sent_away(bench: GatewayBench, frame: Frame) -> None:
    chat = await bench.group(ANN, BOB)
    counted = CountedReads(bench)
    line = await counted.line.live(ANN)
    await counted.leave(0)
    for number in range(limits.SENDS_REFUSED_MAX):
        line.say("send", id=f"{number}", chat=chat, client_message_id=f"m{number}", content="x")
        line.say(**frame, chat=NOWHERE)
    await line.until(lambda: line.closes)
    assert line.closes == [Close.TOO_FAST]
    assert {told["code"] for told in line.of("refused")} == {"rate.limited"}


async def test_what_is_at_hand_costs_nothing(bench: GatewayBench) -> None:
    chat = await bench.group(ANN, BOB)
    counted = CountedReads(bench)
    line, bob = await counted.line.live(ANN), await bench.line().live(BOB)
    await bench.post(BOB, chat)
    await line.until_entries(chat, 2)
    await counted.leave(0)
    for op in ("received", "read"):
        line.say(op, chat=chat, sequence=2)
    line.say("typing", chat=chat)
    assert len(await answers(bob, "typing")) == 1
    assert line.of("refused") == []


# Typing.


async def test_typing_is_told_to_the_others_at_most_every_three_seconds(
    bench: GatewayBench,
) -> None:
    chat = await bench.group(ANN, BOB)
    ann, second, bob = [await bench.line().live(user) for user in (ANN, ANN, BOB)]
    await bench.post(ANN, chat)
    for time in (0, limits.TYPING_MS_MIN - 1, limits.TYPING_MS_MIN, limits.TYPING_MS_MIN + 1):
        ann.time = time
        ann.say("typing", chat=chat)
    assert bob.of("typing") == [{"op": "typing", "chat": chat, "user": "ann"}] * 2
    assert ann.of("typing") == second.of("typing") == []


async def test_a_chat_that_is_not_at_hand_is_typed_in_too_and_no_more_often(
    bench: GatewayBench,
) -> None:
    chat = await bench.group(ANN, BOB)
    assert bench.core.appender.state_nowait(chat) is None
    ann, bob = await bench.line().live(ANN), await bench.line().live(BOB)
    for _ in range(5):
        ann.say("typing", chat=chat)
    ann.say("typing", chat=NOWHERE)
    await answers(ann, "refused")
    await bench.post(ANN, chat)
    await bob.until_entries(chat, 2)
    assert len(await answers(bob, "typing")) == 1


# Receipts.


@pytest.mark.attack("C11", "D24")
async def test_a_receipt_of_what_the_log_does_not_hold_is_refused(bench: GatewayBench) -> None:
    chat = await bench.group(ANN, BOB)
    line = await bench.line().live(BOB)
    for op in ("received", "read"):
        line.say(op, chat=chat, sequence=2)
    refused = await answers(line, "refused", 2)
    assert {told["code"] for told in refused} == {"receipt.beyond_head"}
    receipts = await bench.core.verbs.receipts(BOB, chat)
    assert all(max(receipt.delivered, receipt.read) <= 1 for receipt in receipts)


# Fetching.


@pytest.mark.parametrize("bounds", [{}, {"after": 1, "before": 9}])
async def test_fetch_goes_one_way(bench: GatewayBench, bounds: dict[str, int]) -> None:
    chat = await bench.group(ANN, BOB)
    line = await bench.line().live(ANN)
    line.say("fetch", id="7", chat=chat, **bounds)
    assert [(t["id"], t["code"]) for t in await answers(line, "refused")] == [
        ("7", "request.invalid")
    ]


async def test_pages_wait_until_the_socket_takes_them(bench: GatewayBench) -> None:
    chat = await bench.group(ANN, BOB)
    await bench.post(ANN, chat, 3)
    line = await bench.line().live(ANN)
    line.pause()
    for number in range(10):
        line.say("fetch", id=f"{number}", chat=chat, after=0)
    line.say("send", id="x", chat=chat, client_message_id="x", content="hi")
    await answers(line, "sent")
    assert line.of("page") == []
    line.resume()
    assert [told["id"] for told in await answers(line, "page", 10)] == [str(n) for n in range(10)]


def page_of(*sizes: int, down: bool = False) -> Page:
    entries = [
        Entry(
            chat_id=NOWHERE,
            kind="message",
            sender=ANN,
            sequence=number,
            client_message_id="m",
            content_type="text/plain",
            content="x" * size,
        )
        for number, size in enumerate(sizes, 1)
    ]
    if down:
        entries.reverse()
    return Page(
        entries=entries,
        head=Head(sequence=len(sizes)),
        next=None,
        role="member",
        member_count=2,
        receipts=(),
    )


def sequences(frame: msgspec.Struct) -> list[int]:
    told = msgspec.json.decode(encode(frame))
    return [entry["sequence"] for entry in told["entries"]]


def test_a_page_holds_what_fits_and_says_that_there_is_more() -> None:
    quarter = limits.PAGE_FRAME_BYTES_MAX // 4
    up = page_frame(Fetch("1", NOWHERE, after=0), page_of(*[quarter] * 6))
    assert (sequences(up), up.more, up.head) == ([1, 2, 3], True, 6)
    down = page_frame(Fetch("1", NOWHERE, before=7), page_of(*[quarter] * 6, down=True))
    assert (sequences(down), down.more) == ([4, 5, 6], True)
    whole = page_frame(Fetch("1", NOWHERE, after=0), page_of(*[quarter] * 3))
    assert (sequences(whole), whole.more) == ([1, 2, 3], False)
    assert sum(len(raw) for raw in up.entries) <= limits.PAGE_FRAME_BYTES_MAX


def test_a_page_with_a_next_one_says_so() -> None:
    page = page_of(1, 1)
    page.next = 2
    assert page_frame(Fetch("1", NOWHERE, after=0), page).more


def test_a_page_goes_on_by_at_least_one_entry() -> None:
    made = page_frame(Fetch("1", NOWHERE, after=0), page_of(2 * limits.PAGE_FRAME_BYTES_MAX, 1))
    assert (sequences(made), made.more) == ([1], True)


# Who may not.


@pytest.mark.attack("D01")
@pytest.mark.parametrize(
    "frame",
    [
        {"op": "send", "id": "x", "client_message_id": "m", "content": "hi"},
        {"op": "fetch", "id": "x", "after": 0},
        {"op": "received", "sequence": 1},
        {"op": "read", "sequence": 1},
        {"op": "typing"},
    ],
)
async def test_an_outsider_is_told_the_same_as_of_a_chat_that_is_not_there(
    bench: GatewayBench, frame: Frame
) -> None:
    chat = await bench.group(ANN, BOB)
    await bench.group(CAT)
    line = await bench.line().live(CAT)
    for name in (chat, NOWHERE, "nonsense", ""):
        line.say(**frame, chat=name)
    refused = await answers(line, "refused", 4)
    expected = {"op": "refused", "code": "chat.not_found", "detail": "No such chat"}
    named = {"id": frame["id"]} if "id" in frame else {}
    assert refused == [expected | named | {"retryable": False}] * 4


# The log.


async def test_a_failed_write_is_logged_with_the_names_of_its_requests(
    bench: GatewayBench, monkeypatch: pytest.MonkeyPatch, json_lines: list[dict[str, object]]
) -> None:
    chat = await bench.group(ANN, BOB)
    line = await bench.line().live(ANN)

    def fails(*_: object) -> None:
        raise ValueError("a bug")

    monkeypatch.setattr(RunJob, "bulk", fails)
    monkeypatch.setattr(RunJob, "write", fails)
    for number in ("1", "2"):
        line.say("send", id=number, chat=chat, client_message_id=f"m{number}", content="x")
    await answers(line, "refused", 2)

    (failed,) = [told for told in json_lines if told["action"] == "write_failed"]
    connection = line.of("welcome")[0]["connection"]
    assert failed["requests"] == [f"{connection}/1", f"{connection}/2"]

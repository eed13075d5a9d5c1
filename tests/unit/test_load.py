# SPDX-License-Identifier: Apache-2.0
"""The parts of a load: its REST calls, its talkers, its watch."""

import asyncio
import resource
from typing import Any, cast

import msgspec
import pytest
from picows import WSFrame, WSMsgType, WSTransport
from picows.picows import _make_test_ws_frame

from tests.unit.stub_server import Asked, stub_server
from tidings.tools.load_crowd import SPARE, People, Watch, allow_connections, side_by_side
from tidings.tools.load_talker import LoadStopped, Rest, Talker, connect


class Wire:
    """A transport that writes into a list."""

    def __init__(self) -> None:
        self.told: list[dict[str, Any]] = []
        self.is_cut = False

    def send(self, kind: WSMsgType, payload: bytes) -> None:
        assert kind == WSMsgType.TEXT
        self.told.append(msgspec.json.decode(payload))

    def disconnect(self, graceful: bool) -> None:
        self.is_cut = not graceful


class Talking:
    """A talker on a wire by hand."""

    def __init__(self) -> None:
        self.wire = Wire()
        self.troubles: list[str] = []
        self.talker = Talker("A-CHAT", "a-token", "a-device", self.troubles.append)
        self.talker.on_ws_connected(cast(WSTransport, self.wire))

    def hear(self, kind: WSMsgType = WSMsgType.TEXT, **frame: Any) -> None:
        made: WSFrame = _make_test_ws_frame(kind, msgspec.json.encode(frame), True, False)
        self.talker.on_ws_frame(cast(WSTransport, self.wire), made)

    def said(self, op: str) -> list[dict[str, Any]]:
        return [frame for frame in self.wire.told if frame["op"] == op]


async def test_a_talker_keeps_its_window_full_until_it_is_told_to_stop() -> None:
    talking = Talking()
    talking.hear(op="welcome")
    talking.hear(op="entry", sequence=1)
    talking.hear(op="live")
    assert talking.talker.is_live
    talking.talker.start(2)
    assert [frame["id"] for frame in talking.said("send")] == ["1", "2"]
    talking.hear(op="sent", id="1", sequence=2)
    assert [frame["id"] for frame in talking.said("send")] == ["1", "2", "3"]
    talking.talker.stop()
    talking.hear(op="sent", id="2", sequence=3)
    assert talking.talker.unanswered == 1
    assert talking.talker.acknowledged == len(talking.talker.latencies_ms) == 2
    names = {frame["client_message_id"] for frame in talking.said("send")}
    assert len(names) == 3


async def test_a_talker_says_received_every_hundred_entries() -> None:
    talking = Talking()
    talking.hear(op="live")
    for sequence in range(1, 251):
        talking.hear(op="entry", sequence=sequence, sender="bob")
    assert [frame["sequence"] for frame in talking.said("received")] == [100, 200]
    assert talking.talker.delivered == 250


async def test_a_talker_counts_neither_its_own_entries_nor_one_that_comes_again() -> None:
    talking = Talking()
    talking.hear(op="welcome", user="alice")
    talking.hear(op="live")
    for sequence, sender in ((1, "bob"), (2, "alice"), (1, "bob"), (3, "bob"), (3, "bob")):
        talking.hear(op="entry", sequence=sequence, sender=sender)
    assert talking.talker.delivered == 2


async def test_a_send_that_may_be_repeated_is_repeated_under_its_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tidings.tools.load_talker.AGAIN_SECONDS", 0.0)
    talking = Talking()
    talking.talker.send()
    talking.hear(op="refused", code="rate.limited", retryable=True, id="1")
    while len(talking.said("send")) < 2:
        await asyncio.sleep(0)
    first, again = talking.said("send")
    assert first == again
    assert (talking.talker.refused, talking.troubles) == (1, [])


async def test_what_a_talker_cannot_put_right_is_trouble() -> None:
    talking = Talking()
    talking.hear(op="refused", code="chat.not_found", retryable=False, id="7")
    talking.hear(op="bye", code=1012)
    talking.hear(kind=WSMsgType.PING)
    talking.talker.on_ws_disconnected(cast(WSTransport, talking.wire))
    talking.talker.close()
    assert ["chat.not_found" in talking.troubles[0], "bye" in talking.troubles[1]] == [True] * 2
    assert talking.troubles[2:] == ["the server closed a connection"]


async def test_hanging_up_is_no_trouble() -> None:
    talking = Talking()
    talking.talker.expire_after(5)
    talking.talker.send()
    assert talking.said("send")[0]["ttl_seconds"] == 5
    talking.talker.close()
    talking.talker.on_ws_disconnected(cast(WSTransport, talking.wire))
    talking.talker.send()
    assert (talking.troubles, talking.wire.is_cut) == ([], True)


async def test_nobody_there() -> None:
    with pytest.raises(LoadStopped, match="is not an address"):
        Rest("ftp://example.com")
    rest = Rest("http://127.0.0.1:1")
    with pytest.raises(LoadStopped, match="does not answer"):
        await rest.call("GET", "/", "key")
    rest.close()
    with pytest.raises(LoadStopped, match="cannot be opened"):
        await connect(Talking().talker, "http://127.0.0.1:1")


async def test_calls_carry_the_key_and_the_path_of_the_address() -> None:
    def answer(asked: Asked) -> tuple[int, object]:
        return (403, {"detail": "no"}) if asked.path.endswith("/keys") else (200, {"fine": True})

    with stub_server(answer) as stub:
        rest = Rest(f"{stub.url}/under/")
        assert await rest.call("PUT", "/v1/x", "secret", {"a": 1}) == {"fine": True}
        assert stub.asked == [Asked("PUT", "/under/v1/x", "secret", {"a": 1})]
        with pytest.raises(LoadStopped, match="refused with 403"):
            await rest.call("POST", "/v1/keys", "secret")
        rest.close()


async def test_a_large_group_is_made_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidings.tools.load_crowd.GROUP_STEP", 2)

    def answer(asked: Asked) -> tuple[int, object]:
        return (200, {"token": "t"}) if asked.path.endswith("/tokens") else (201, {"chat_id": "C"})

    with stub_server(answer) as stub:
        rest = Rest(stub.url)
        people = People(rest, "root", "acme")
        users = await people.users(range(5))
        assert await people.group(users) == "C"
        rest.close()
    made, *added = [asked for asked in stub.asked if "/chats" in asked.path]
    assert made.body["members"] == [user.name for user in users[1:3]]
    assert [asked.path for asked in added] == [
        f"/v1/chats/C/members/{user.name}" for user in users[3:]
    ]


async def test_side_by_side_tells_the_first_failure_itself() -> None:
    async def work(number: int) -> int:
        await asyncio.sleep(0)
        if number == 2:
            raise LoadStopped("two")
        return number

    assert await side_by_side([work(number) for number in (4, 3, 1)], 2) == [4, 3, 1]
    with pytest.raises(LoadStopped, match="two"):
        await side_by_side([work(number) for number in range(10)], 1)


async def test_a_watch_ends_with_the_first_trouble() -> None:
    watch, ticks = Watch(), []
    await watch.wait(0.01, lambda: ticks.append(1))
    assert ticks
    assert await watch.until(lambda: True, 0)
    assert not await watch.until(lambda: False, 0)
    watch.stopped("first")
    watch.stopped("second")
    with pytest.raises(LoadStopped, match="first"):
        await watch.wait(60)


def test_connections_need_files(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1_024, 4_096))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: asked.append(limits))
    allow_connections(100)
    allow_connections(2_000)
    assert asked == [(2_000 + SPARE, 4_096)]

    def refuse(_: int, __: tuple[int, int]) -> None:
        raise PermissionError

    monkeypatch.setattr(resource, "setrlimit", refuse)
    with pytest.raises(LoadStopped, match="ulimit"):
        allow_connections(10_000)

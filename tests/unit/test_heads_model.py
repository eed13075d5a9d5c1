# SPDX-License-Identifier: Apache-2.0
"""A device that follows by heads ends with the logs of one that gets all."""

import random
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.users import ANN, BOB
from tests.unit.fake_connection import FakeConnection, Frame
from tests.unit.gateway_bench import GatewayBench, a_gateway
from tidings.model import limits
from tidings.model.ids import ChatId

NOWHERE = ChatId("01HZZZZZZZZZZZZZZZZZZZZZZZ")


@pytest.fixture
async def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[GatewayBench]:
    monkeypatch.setattr(limits, "HEADS_MS", 1)
    async with a_gateway(tmp_path / "data") as made:
        yield made


@dataclass
class Phone:
    """A device that keeps the client's rule, over any number of connections."""

    bench: GatewayBench
    is_by_heads: bool
    logs: dict[str, list[Frame]] = field(default_factory=dict)
    heads: dict[str, int] = field(default_factory=dict)
    line: FakeConnection | None = None
    heard: int = 0

    async def connect(self) -> None:
        if self.line is not None:
            self.hear()
            await self.line.hang_up()
        have = {chat: log[-1]["sequence"] for chat, log in self.logs.items() if log}
        catch_up = "heads" if self.is_by_heads else "all"
        self.line, self.heard, self.heads = self.bench.line(window=20), 0, {}
        self.line.say("hello", token=BOB, device="phone", catch_up=catch_up, have=have)
        await self.line.until(lambda: {"op": "live"} in self.hear())

    def hear(self) -> list[Frame]:
        """Apply what has come, and confirm it; everything that came on this connection."""
        assert self.line is not None
        came, self.heard = self.line.frames[self.heard :], len(self.line.frames)
        for frame in came:
            chat = frame.get("chat")
            match frame["op"]:
                case "entry":
                    self.take(frame)
                    self.line.say("received", chat=chat, sequence=frame["sequence"])
                case "gone":
                    self.logs.pop(chat or "", None)
                    self.heads.pop(chat or "", None)
                case "heads":
                    self.heads |= frame["chats"]
                case op:
                    assert op != "resync", "so much is never missing here"
        return self.line.frames

    def take(self, entry: Frame) -> None:
        log = self.logs.setdefault(entry["chat"], [])
        self.heads.pop(entry["chat"], None)
        assert not log or entry["sequence"] == log[-1]["sequence"] + 1, "no gap, nothing twice"
        log.append(entry)
        if entry["kind"] == "removed" and "bob" in entry["users"]:
            del self.logs[entry["chat"]]

    def follow(self, chat: str) -> None:
        assert self.line is not None
        log = self.logs.get(chat)
        self.line.say("follow", chat=chat, after=log[-1]["sequence"] if log else None)


@pytest.mark.parametrize("seed", range(4))
async def test_following_by_heads_ends_with_the_logs_of_a_device_that_gets_all(
    bench: GatewayBench, seed: int
) -> None:
    chance = random.Random(seed)
    chats = [await bench.group(ANN, BOB) for _ in range(3)]
    members = set(chats)
    phones = [Phone(bench, is_by_heads=False), Phone(bench, is_by_heads=True)]
    for phone in phones:
        await phone.connect()
    for _ in range(50):
        chat = chance.choice(chats)
        match chance.choice(["post", "post", "post", "move", "follow", "connect", "pause"]):
            case "post":
                await bench.post(ANN, chat, chance.randint(1, 8))
            case "move" if chat in members:
                await bench.core.verbs.remove_member(ANN, chat, BOB)
                members.discard(chat)
            case "move":
                await bench.core.verbs.put_member(ANN, chat, BOB, None)
                members.add(chat)
            case "follow":
                phones[1].follow(chat)
            case "connect":
                await chance.choice(phones).connect()
            case _:
                line = phones[1].line
                assert line is not None
                (line.resume if line.progress.is_paused else line.pause)()
        for phone in phones:
            phone.hear()
    await _agree(bench, phones, members)


async def _agree(bench: GatewayBench, phones: list[Phone], members: set[ChatId]) -> None:
    """At last the second device follows every chat; then both have every log to its end."""
    for phone in phones:
        assert phone.line is not None
        phone.line.resume()
    ends = {}
    for chat in sorted(members):
        phones[1].follow(chat)
        await bench.post(ANN, chat)
        ends[chat] = (await bench.core.verbs.read.entries(ANN, chat, after=0, limit=1)).head
    for phone in phones:
        line = phone.line
        assert line is not None
        for chat, head in ends.items():
            await line.until(
                lambda: phone.hear() and _end(phone, chat) == head.sequence  # noqa: B023
            )
    both = [phone.logs for phone in phones]
    assert both[0].keys() == both[1].keys() == members
    for chat in members:
        shorter, longer = sorted((log[chat] for log in both), key=len)
        assert longer[-len(shorter) :] == shorter


def _end(phone: Phone, chat: str) -> int:
    log = phone.logs.get(chat)
    return log[-1]["sequence"] if log else 0

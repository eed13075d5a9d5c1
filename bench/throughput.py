# SPDX-License-Identifier: Apache-2.0
"""Durable 1:1 throughput: pairs of users, each side sending with a window of unanswered sends."""

import asyncio
import time
from collections import deque
from itertools import count

import msgspec
from picows import WSFrame, WSListener, WSMsgType, WSTransport, ws_connect

from bench.server import Target, make_pairs

CONTENT = "The quick brown fox jumps over the lazy dog, and nobody knows why."
ACK_EVERY = 100


class _Frame(msgspec.Struct):
    op: str
    sequence: int = 0


_decode = msgspec.json.Decoder(_Frame).decode


class Result(msgspec.Struct):
    """What one run came to."""

    pairs: int
    window: int
    seconds: float
    acknowledged: int
    delivered: int
    server_cpu_seconds: float
    latencies_ms: list[float]

    def row(self) -> str:
        """One line of the table."""
        rate = self.acknowledged / self.seconds
        cost = self.server_cpu_seconds / max(self.acknowledged, 1) * 1e6
        ordered = sorted(self.latencies_ms)
        p50, p99 = (ordered[int(len(ordered) * q)] if ordered else 0.0 for q in (0.5, 0.99))
        return (
            f"{self.pairs:6} {self.window:7} {rate:10,.0f} {self.delivered / self.seconds:12,.0f}"
            f" {cost:9.1f} {p50:8.1f} {p99:8.1f}"
        )

    HEADER = " pairs  window      sent/s  delivered/s  µs/sent   p50 ms   p99 ms"


class _Side(WSListener):
    """One of a pair: keeps a window of sends open, acknowledges what it gets."""

    def __init__(self, chat: str, token: str, device: str) -> None:
        self.live = asyncio.Event()
        self.latencies: list[float] = []
        self.acknowledged = self.delivered = 0
        self.is_sending = False
        self._chat = chat
        self._hello = msgspec.json.encode({"op": "hello", "token": token, "device": device})
        self._names = count()
        self._sent_at: deque[float] = deque()
        self._transport: WSTransport | None = None

    def on_ws_connected(self, transport: WSTransport) -> None:
        self._transport = transport
        transport.send(WSMsgType.TEXT, self._hello)

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        if frame.msg_type != WSMsgType.TEXT:
            return
        got = _decode(frame.get_payload_as_memoryview())
        if got.op == "sent":
            self.acknowledged += 1
            self.latencies.append((time.perf_counter() - self._sent_at.popleft()) * 1e3)
            if self.is_sending:
                self.send()
        elif got.op == "entry":
            self.delivered += 1
            if self.delivered % ACK_EVERY == 0:
                self._say({"op": "received", "chat": self._chat, "sequence": got.sequence})
        elif got.op == "live":
            self.live.set()
        elif got.op in ("refused", "bye"):
            raise SystemExit(f"the server said {frame.get_payload_as_utf8_text()}")

    def send(self) -> None:
        """Send one more message."""
        self._sent_at.append(time.perf_counter())
        name = f"{id(self):x}-{next(self._names)}"
        self._say(
            {
                "op": "send",
                "id": name,
                "chat": self._chat,
                "client_message_id": name,
                "content": CONTENT,
            }
        )

    def _say(self, frame: dict[str, object]) -> None:
        assert self._transport is not None
        self._transport.send(WSMsgType.TEXT, msgspec.json.encode(frame))

    def close(self) -> None:
        """Hang up."""
        assert self._transport is not None
        self._transport.disconnect(False)


async def throughput(target: Target, pairs: int, window: int, seconds: float) -> Result:
    """Run the load for some seconds and count."""
    sides = await _connect(target, pairs)
    used, started = target.cpu_seconds(), time.perf_counter()
    for side in sides:
        side.is_sending = True
        for _ in range(window):
            side.send()
    await asyncio.sleep(seconds)
    elapsed, used = time.perf_counter() - started, target.cpu_seconds() - used
    result = Result(
        pairs,
        window,
        elapsed,
        sum(side.acknowledged for side in sides),
        sum(side.delivered for side in sides),
        used,
        [latency for side in sides for latency in side.latencies],
    )
    for side in sides:
        side.close()
    return result


async def _connect(target: Target, pairs: int) -> list[_Side]:
    sides = []
    url = target.url.replace("http", "ws", 1) + "/v1/ws"
    for number, (chat, *tokens) in enumerate(await make_pairs(target, pairs)):
        for letter, token in zip("ab", tokens, strict=True):
            side = _Side(chat, token, f"bench-{letter}{number}")
            await ws_connect(lambda side=side: side, url)
            sides.append(side)
    for side in sides:
        await side.live.wait()
    return sides

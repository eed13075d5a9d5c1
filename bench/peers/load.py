# SPDX-License-Identifier: Apache-2.0
"""The parts of a load on the other server that pairs and groups share: senders, counts and
times."""

import asyncio
from array import array
from collections import deque
from collections.abc import Sequence
from itertools import count
from time import perf_counter, process_time
from typing import Final

from bench.peers.ejabberd import Ejabberd
from bench.peers.outcome import Outcome, Rows
from bench.peers.xmpp import Connection
from tidings.tools.load_runs import latency_of, merge_samples
from tidings.tools.load_talker import CONTENT

WARM_UP_SECONDS: Final = 1.0  # as the load on our own server does
SETTLING_SECONDS_MAX: Final = 30.0
# Every message of the load has exactly one body, and nothing else has one.
END_OF_BODY: Final = b"</body>"


class Sender:
    """A user who keeps a number of messages unconfirmed."""

    def __init__(self, connection: Connection, to: str, kind: str, ending: str = "") -> None:
        """Create a sender; `ending` is added to the end of each body, so that its messages can be
        recognised."""
        self.sent = 0
        self.latencies_ms = array("d")
        self._connection = connection
        self._is_sending = False
        self._sent_at: deque[float] = deque()
        self._ids = count()
        head = f"<message to='{to}' type='{kind}' id='%x'>"
        self._stanza = f"{head}<body>{CONTENT}{ending}</body></message>".encode()

    def start(self, window: int) -> None:
        """Keep this many messages unconfirmed from now on."""
        self._is_sending = True
        self._send(window)

    def stop(self) -> None:
        """Stop sending."""
        self._is_sending = False

    def on_arrived(self, messages: int) -> None:
        """Record that this many messages have arrived; messages arrive in the order in which they
        were sent."""
        now, times = perf_counter(), self._sent_at
        self.latencies_ms.extend([(now - times.popleft()) * 1e3 for _ in range(messages)])
        if self._is_sending:
            self._send(messages)

    def _send(self, messages: int) -> None:
        self.sent += messages
        self._sent_at.extend([perf_counter()] * messages)
        self._connection.write(b"".join([self._stanza % next(self._ids) for _ in range(messages)]))


class Load:
    """Connected users, some or all of whom send."""

    def __init__(
        self, connections: Sequence[Connection], senders: Sequence[Sender], copies: int, rows: int
    ) -> None:
        """Set up the load. A message arrives `copies` times, and the archive stores it `rows`
        times."""
        self._connections = connections
        self._senders = senders
        self._copies = copies
        self._rows = rows
        self._delivered = 0
        for connection in connections:
            connection.count(END_OF_BODY, self._on_delivered)

    async def measured(self, node: Ejabberd, who: str, window: int, seconds: float) -> Outcome:
        """Send as fast as the window allows; return the outcome."""
        for sender in self._senders:
            sender.start(window)
        await asyncio.sleep(WARM_UP_SECONDS)
        for sender in self._senders:
            sender.latencies_ms = array("d")
        started, delivered, load_cpu = perf_counter(), self._delivered, process_time()
        cpu = node.cpu_seconds()
        await asyncio.sleep(seconds)
        elapsed, delivered = perf_counter() - started, self._delivered - delivered
        load_cpu, cpu_now = process_time() - load_cpu, node.cpu_seconds()
        latency = latency_of(merge_samples(sender.latencies_ms for sender in self._senders))
        missing = await self._settle()
        return Outcome(
            who=who,
            seconds=elapsed,
            sent=delivered // self._copies,
            delivered=delivered,
            missing=missing,
            latency=latency,
            cpu_seconds={name: cpu_now[name] - cpu[name] for name in cpu},
            load_cpu=load_cpu / elapsed,
            rows=Rows(expected=self._sent * self._rows, found=node.archived()),
            errors=node.errors(),
        )

    def close(self) -> None:
        """Close all connections."""
        for connection in self._connections:
            connection.close()

    @property
    def _sent(self) -> int:
        return sum(sender.sent for sender in self._senders)

    def _on_delivered(self, messages: int) -> None:
        self._delivered += messages

    async def _settle(self) -> int:
        """Stop sending, and wait for pending deliveries; return how many are missing."""
        for sender in self._senders:
            sender.stop()
        deadline = perf_counter() + SETTLING_SECONDS_MAX
        while (
            missing := self._sent * self._copies - self._delivered
        ) and perf_counter() < deadline:
            for connection in self._connections:
                if connection.failure is not None:
                    raise connection.failure
            await asyncio.sleep(0.05)
        return missing

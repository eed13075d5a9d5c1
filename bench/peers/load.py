# SPDX-License-Identifier: Apache-2.0
"""The load, which is the same for every server: senders, receipts, counts and times."""

import asyncio
from array import array
from collections import deque
from collections.abc import Sequence
from time import perf_counter, process_time
from typing import Final

from bench.peers.member import Member, Server
from bench.peers.outcome import Outcome
from bench.peers.shapes import Shape
from tidings.tools.load_runs import (
    FIRST_ANSWER_SECONDS_MAX,
    PACE_SECONDS,
    latency_of,
    merge_samples,
)

WARM_UP_SECONDS: Final = 1.0  # as the load of `make bench` does
SETTLING_SECONDS_MAX: Final = 30.0


class Sender:
    """A user who keeps a number of messages unanswered."""

    def __init__(self, member: Member) -> None:
        self.sent = 0
        self.answered = 0
        self.latencies_ms = array("d")
        self._member = member
        self._is_sending = False
        self._sent_at: deque[float] = deque()

    def start(self, window: int) -> None:
        """Keep this many messages unanswered from now on."""
        self._is_sending = True
        self.send(window)

    def stop(self) -> None:
        """Stop sending."""
        self._is_sending = False

    def on_answered(self, messages: int) -> None:
        """Record that this many messages are answered; they are answered in the order in which they
        were sent."""
        now, times = perf_counter(), self._sent_at
        self.answered += messages
        self.latencies_ms.extend([(now - times.popleft()) * 1e3 for _ in range(messages)])
        if self._is_sending:
            self.send(messages)

    def send(self, messages: int = 1) -> None:
        """Send messages, each in a frame of its own."""
        numbers = range(self.sent, self.sent + messages)
        self.sent += messages
        self._sent_at.extend([perf_counter()] * messages)
        self._member.connection.write(self._member.messages(numbers))


class _Receipts:
    """Sends a receipt after every so many messages that have arrived."""

    def __init__(self, member: Member, every: int) -> None:
        self._member = member
        self._every = every
        self._due = every

    def feed(self, data: bytes) -> None:
        """Count the messages in the bytes; one that is not complete counts with a later one."""
        self._due -= data.count(self._member.arrival)
        if self._due > 0 or self._member.receipt is None:
            return
        if (receipt := self._member.receipt(data)) is not None:
            self._due = self._every
            self._member.connection.write(receipt)


class Load:
    """Connected users, some or all of whom send."""

    def __init__(
        self, members: Sequence[Member], senders: Sequence[Sender], copies: int, receipts: int
    ) -> None:
        """Set up the load. A message arrives `copies` times, and users confirm every so many
        messages."""
        self._members = members
        self._senders = senders
        self._copies = copies
        self._delivered = 0
        for member in members:
            member.connection.count(member.arrival, self._on_delivered)
            if member.echo:
                member.connection.count(member.echo, self._on_echo)
            if member.receipt is not None:
                member.connection.listen(_Receipts(member, receipts))

    async def full(self, server: Server, who: str, window: int, seconds: float) -> Outcome:
        """Send as fast as the window allows; return the outcome."""
        for sender in self._senders:
            sender.start(window)
        return await self._measured(server, who, seconds)

    async def paced(self, server: Server, who: str, rate: float, seconds: float) -> Outcome:
        """Send this many messages a second, evenly, without waiting for answers."""
        pacing = asyncio.create_task(self._pace(rate))
        try:
            return await self._measured(server, who, seconds, pacing)
        finally:
            pacing.cancel()

    @property
    def sent(self) -> int:
        """Number of messages that were sent."""
        return sum(sender.sent for sender in self._senders)

    def close(self) -> None:
        """Close all connections."""
        for member in self._members:
            member.connection.close()

    async def _pace(self, rate: float) -> None:
        started, sent, senders = perf_counter(), 0, self._senders
        while True:
            due = int((perf_counter() - started) * rate)
            for number in range(sent, due):
                senders[number % len(senders)].send()
            sent = due
            await asyncio.sleep(PACE_SECONDS)

    async def _measured(
        self, server: Server, who: str, seconds: float, pacing: asyncio.Task[None] | None = None
    ) -> Outcome:
        await self._warmed_up()
        for sender in self._senders:
            sender.latencies_ms = array("d")
        started, load_cpu, cpu = perf_counter(), process_time(), server.cpu_seconds()
        answered, delivered = self._answered, self._delivered
        await asyncio.sleep(seconds)
        answered, delivered = self._answered - answered, self._delivered - delivered
        elapsed, cpu_now = perf_counter() - started, server.cpu_seconds()
        load_cpu = process_time() - load_cpu
        latency = latency_of(merge_samples(sender.latencies_ms for sender in self._senders))
        if pacing is not None:
            pacing.cancel()
        return Outcome(
            who=who,
            seconds=elapsed,
            sent=answered,
            delivered=delivered,
            missing=await self._settled(),
            latency=latency,
            cpu_seconds={name: cpu_now[name] - cpu[name] for name in cpu},
            load_cpu=load_cpu / elapsed,
        )

    async def _warmed_up(self) -> None:
        """Wait until every sender has got an answer, then a little longer. The first messages are
        slower on every server, and all of them come at once."""
        deadline = perf_counter() + FIRST_ANSWER_SECONDS_MAX
        while perf_counter() < deadline and not all(one.answered for one in self._senders):
            await asyncio.sleep(0.05)
        await asyncio.sleep(WARM_UP_SECONDS)

    @property
    def _answered(self) -> int:
        return sum(sender.answered for sender in self._senders)

    def _on_delivered(self, messages: int) -> None:
        self._delivered += messages

    def _on_echo(self, messages: int) -> None:
        self._delivered -= messages

    async def _settled(self) -> int:
        """Stop sending, and wait for pending deliveries; return how many are missing, or too
        many."""
        for sender in self._senders:
            sender.stop()
        deadline = perf_counter() + SETTLING_SECONDS_MAX
        while self._missing() and perf_counter() < deadline:
            for member in self._members:
                if member.connection.failure is not None:
                    raise member.connection.failure
            await asyncio.sleep(0.05)
        return self._missing()

    def _missing(self) -> int:
        return abs(self.sent * self._copies - self._delivered) + self.sent - self._answered


async def pairs_load(server: Server, shape: Shape) -> Load:
    """Connect pairs of users, one or both of whom send."""
    pairs, senders = await server.pairs(shape.pairs), []
    for left, right in pairs:
        for member, other in ((left, right), (right, left))[: 2 if shape.both_write else 1]:
            sender = Sender(member)
            if member.answer:
                member.connection.count(member.answer, sender.on_answered)
            else:
                other.connection.count(other.arrival, sender.on_answered)
            senders.append(sender)
    return Load([one for pair in pairs for one in pair], senders, 1, shape.receipt_every)


async def group_load(server: Server, shape: Shape) -> Load:
    """Connect the members of a group, some of whom send."""
    members = await server.group(shape.members, shape.senders)
    senders = []
    for member in members[: shape.senders]:
        sender = Sender(member)
        member.connection.count(member.answer, sender.on_answered)
        senders.append(sender)
    copies = shape.members - 1 + server.copies_to_sender
    return Load(members, senders, copies, shape.receipt_every)

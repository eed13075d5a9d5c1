# SPDX-License-Identifier: Apache-2.0
"""Runs of a load: as fast as the server answers, or at a given rate."""

import asyncio
from collections.abc import Callable
from time import perf_counter, process_time
from typing import Final

import msgspec

from tidings.tools.load.crowd import Crowd
from tidings.tools.load.results import Result, latency_of, together
from tidings.tools.load.talker import Talker

PACE_SECONDS: Final = 0.002
FIRST_ANSWER_SECONDS_MAX: Final = 30.0

Clock = Callable[[], float]
"""Returns the CPU seconds used until now."""
Tick = Callable[[int, float], None]
"""Called about twice per second with the messages acknowledged until now, and the seconds."""


class _Mark(msgspec.Struct, frozen=True):
    """Values of all counters at one moment."""

    at: float
    sent: int
    delivered: int
    refused: int
    load_cpu: float
    server_cpu: float | None


async def throughput(
    crowd: Crowd,
    pairs: int,
    window: int,
    seconds: float,
    *,
    warm_up_seconds: float = 1.0,
    server_cpu: Clock | None = None,
    tick: Tick | None = None,
) -> Result:
    """Measure a run in which every user keeps a window of sends unanswered."""
    talkers = await crowd.talkers(pairs)
    already = [talker.acknowledged for talker in talkers]
    for talker in talkers:
        talker.start(window)
    await _warmed_up(crowd, talkers, already, warm_up_seconds)
    result = await _measured(crowd, talkers, seconds, server_cpu, tick)
    return await _ended(crowd, talkers, result, window)


async def paced(
    crowd: Crowd,
    pairs: int,
    rate: float,
    seconds: float,
    *,
    warm_up_seconds: float = 1.0,
    server_cpu: Clock | None = None,
    tick: Tick | None = None,
) -> Result:
    """Measure a run that sends `rate` messages per second, evenly, without waiting for answers."""
    talkers = await crowd.talkers(pairs)
    already = [talker.acknowledged for talker in talkers]
    pacing = asyncio.create_task(_pace(talkers, rate))
    try:
        await _warmed_up(crowd, talkers, already, warm_up_seconds)
        result = await _measured(crowd, talkers, seconds, server_cpu, tick)
    finally:
        pacing.cancel()
    return await _ended(crowd, talkers, result, 0)


async def _warmed_up(
    crowd: Crowd, talkers: list[Talker], already: list[int], seconds: float
) -> None:
    """Wait until every user has got an answer, and some seconds more.

    A user's first message also creates a data key and loads the chat, which later messages do
    not pay for.
    """

    def everyone_was_answered() -> bool:
        pairs = zip(talkers, already, strict=True)
        return all(talker.acknowledged > before for talker, before in pairs)

    await crowd.watch.until(everyone_was_answered, FIRST_ANSWER_SECONDS_MAX)
    await crowd.watch.wait(seconds)


async def _pace(talkers: list[Talker], rate: float) -> None:
    started, sent = perf_counter(), 0
    while True:
        due = int((perf_counter() - started) * rate)
        for number in range(sent, due):
            talkers[number % len(talkers)].send()
        sent = due
        await asyncio.sleep(PACE_SECONDS)


async def _measured(
    crowd: Crowd,
    talkers: list[Talker],
    seconds: float,
    server_cpu: Clock | None,
    tick: Tick | None,
) -> Result:
    for talker in talkers:
        talker.forget_latencies()
    start = _mark(talkers, server_cpu)

    def report() -> None:
        if tick is not None:
            sent = sum(talker.acknowledged for talker in talkers)
            tick(sent - start.sent, perf_counter() - start.at)

    await crowd.watch.wait(seconds, report)
    end = _mark(talkers, server_cpu)
    elapsed = end.at - start.at
    is_known = start.server_cpu is not None and end.server_cpu is not None
    return Result(
        pairs=len(talkers) // 2,
        window=0,
        seconds=elapsed,
        sent=end.sent - start.sent,
        delivered=end.delivered - start.delivered,
        missing=0,
        refused=end.refused - start.refused,
        latency=latency_of(together(talker.latencies_ms for talker in talkers)),
        load_cpu=(end.load_cpu - start.load_cpu) / elapsed,
        server_cpu=((end.server_cpu or 0) - (start.server_cpu or 0)) / elapsed
        if is_known
        else None,
    )


async def _ended(crowd: Crowd, talkers: list[Talker], result: Result, window: int) -> Result:
    for talker in talkers:
        talker.stop()
    missing = await crowd.settle(talkers)
    return msgspec.structs.replace(result, window=window, missing=missing)


def _mark(talkers: list[Talker], server_cpu: Clock | None) -> _Mark:
    return _Mark(
        at=perf_counter(),
        sent=sum(talker.acknowledged for talker in talkers),
        delivered=sum(talker.delivered for talker in talkers),
        refused=sum(talker.refused for talker in talkers),
        load_cpu=process_time(),
        server_cpu=server_cpu() if server_cpu is not None else None,
    )

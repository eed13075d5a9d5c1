# SPDX-License-Identifier: Apache-2.0
"""Measures a hot chat on DynamoDB: two gateways offer it more messages than one log can take.

A log accepts one write at a time, of a message or of a pack. Messages beyond that must be refused
soon, as retryable, and must not slow down other chats.
"""

import asyncio
from argparse import ArgumentParser, Namespace
from contextlib import AsyncExitStack
from time import perf_counter
from typing import Final

import msgspec

from bench.gathering import Gathering
from bench.scale import deployment
from bench.server import Target, own_folder, unpin
from bench.steadiness import Span, spans_of, told, took_ms, witnessed
from tidings.tools import load_runs
from tidings.tools.load_crowd import Crowd
from tidings.tools.load_runs import Latency, latency_of

PACE_SECONDS: Final = 0.01
OTHERS_RATE: Final = 20.0
OTHERS_PAIRS: Final = 10


class HotChatResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result for the hot chat, and for the other chats."""

    seconds: float
    accepted: int
    refused: int
    """Number of sends that were refused as retryable."""
    missing: int
    alone: Latency
    """Latency of messages in other chats before the chat is hot."""
    beside: Latency
    """Latency of messages in other chats while the chat is hot."""
    steady_alone: Latency
    steady_beside: Latency
    """Latency of the messages in `beside` that no slow core delayed."""
    slow_alone: float
    slow_beside: float
    """Share of the time in which a core of the machine was slow."""


def add_options(parser: ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--senders", type=int, default=20)
    parser.add_argument("--rate", type=float, default=200, help="messages/s offered")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--gateways", type=int, default=2, choices=(1, 2))
    parser.add_argument("--after", action="store_true", help="sends name the last known sequence")


async def run(options: Namespace) -> HotChatResult:
    """Measure the other chats alone, and then while one chat is hot."""
    unpin()
    with own_folder() as folder:
        async with deployment(folder, is_many=True) as targets:
            result = await _hot(targets, options)
    print(
        f"{options.rate:.0f} messages/s offered to one chat by {options.senders} senders on "
        f"{options.gateways} gateway(s): {result.accepted / result.seconds:.0f}/s accepted, "
        f"{result.refused / result.seconds:.0f}/s told to come again, {result.missing} missing\n"
        f"other chats: p99 {result.alone.p99:.1f} ms before, {result.beside.p99:.1f} ms beside it\n"
        f"A core of the machine was slow for {result.slow_alone:.0%} and {result.slow_beside:.0%} "
        "of the time; otherwise\n"
        f"  before: {told(result.steady_alone, result.alone.count)}\n"
        f"  beside: {told(result.steady_beside, result.beside.count)}",
        flush=True,
    )
    return result


async def _hot(targets: list[Target], options: Namespace) -> HotChatResult:
    url, key = targets[0].url, targets[0].root_key
    gateways = [target.url for target in targets[: options.gateways]]
    senders = options.senders
    async with AsyncExitStack() as stack:
        others = await stack.enter_async_context(Crowd(url, key, gateways=gateways))
        hot = await stack.enter_async_context(Gathering(url, key, senders, senders, gateways))
        hot.give_up_when_refused()
        if options.after:
            hot.name_after()
        steadiness = await stack.enter_async_context(witnessed())
        alone = await _spans(others, options.seconds)
        offering = asyncio.create_task(_offer(hot, options.rate))
        try:
            sent, refused, started = hot.sent, hot.refused, perf_counter()
            beside = await _spans(others, options.seconds)
            accepted, again, elapsed = hot.sent, hot.refused, perf_counter() - started
        finally:
            offering.cancel()
        missing = await hot.settle()
    return HotChatResult(
        seconds=elapsed,
        accepted=accepted - sent,
        refused=again - refused,
        missing=missing,
        alone=latency_of(took_ms(alone)),
        beside=latency_of(took_ms(beside)),
        steady_alone=latency_of(took_ms(filter(steadiness.was_steady, alone))),
        steady_beside=latency_of(took_ms(filter(steadiness.was_steady, beside))),
        slow_alone=steadiness.slow_share((alone[0][0], alone[-1][1])),
        slow_beside=steadiness.slow_share((beside[0][0], beside[-1][1])),
    )


async def _spans(others: Crowd, seconds: float) -> list[Span]:
    """Run the load on the other chats; return when each message was sent and answered."""
    await load_runs.paced(others, OTHERS_PAIRS, OTHERS_RATE, seconds)
    return sorted(spans_of(await others.talkers(OTHERS_PAIRS)))


async def _offer(hot: Gathering, rate: float) -> None:
    started, sent = perf_counter(), 0
    while True:
        due = int((perf_counter() - started) * rate)
        for number in range(sent, due):
            hot.send(number)
        sent = due
        await asyncio.sleep(PACE_SECONDS)

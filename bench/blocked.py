# SPDX-License-Identifier: Apache-2.0
"""Measures whether a sender can tell from the time of answers that somebody blocks them.

Two senders write to two others in turn, in random order. One of the others blocks the sender. The
times of the answers are compared by a rank test, which does not depend on a few slow answers.
"""

import math
import random
import statistics
from argparse import ArgumentParser, Namespace
from time import perf_counter_ns
from typing import Final

import aiohttp
import msgspec

from bench.server import Target, own_server

TRIES: Final = 1_000
WARM_UP: Final = 50
SIGNIFICANT_Z: Final = 3.3
"""Two equal servers differ by more in one of a thousand runs."""


class BlockFigures(msgspec.Struct, frozen=True):
    """Times of the answers to sends, in microseconds."""

    blocked_us: float
    """Median of the answers to the sender who is blocked."""
    plain_us: float
    rank_z: float
    """How far the ranks of both are apart, in standard deviations; equal ones are between -2 and 2
    in 19 of 20 runs."""
    higher_share: float
    """Share of all pairs of answers in which the blocked sender waited longer; a half if nothing
    can be told."""


def add_options(parser: ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--tries", type=int, default=TRIES, help="messages of each sender")


async def run(options: Namespace) -> BlockFigures:
    """Send messages to somebody who blocks the sender, and to somebody who does not."""
    async with own_server() as target, aiohttp.ClientSession() as http:
        pair = [await _pair(http, target, name, is_blocked=name == "b") for name in ("b", "p")]
        times: tuple[list[int], list[int]] = ([], [])
        chance = random.Random(1)
        for number in range(-WARM_UP, options.tries):
            for place in chance.sample((0, 1), 2):
                taken = await _send(http, *pair[place], number)
                if number >= 0:
                    times[place].append(taken)
    z, higher = rank_test(*times)
    figures = BlockFigures(
        statistics.median(times[0]) / 1e3, statistics.median(times[1]) / 1e3, z, higher
    )
    print(figures)
    verdict = "can" if abs(z) > SIGNIFICANT_Z else "cannot"
    print(f"{options.tries:,} messages each: the sender {verdict} tell who blocks them")
    return figures


def rank_test(one: list[int], other: list[int]) -> tuple[float, float]:
    """Return how far the ranks of two samples are apart (the test of Mann and Whitney), and the
    share of all pairs in which the value of `one` is higher."""
    ranked = sorted([(value, True) for value in one] + [(value, False) for value in other])
    ranks, start = 0.0, 0
    while start < len(ranked):
        end = start
        while end < len(ranked) and ranked[end][0] == ranked[start][0]:
            end += 1
        # Equal values share the mean of their ranks.
        ranks += (start + end + 1) / 2 * sum(is_one for _, is_one in ranked[start:end])
        start = end
    higher = ranks - len(one) * (len(one) + 1) / 2
    pairs = len(one) * len(other)
    deviation = math.sqrt(pairs * (len(one) + len(other) + 1) / 12)
    return (higher - pairs / 2) / deviation, higher / pairs


async def _pair(
    http: aiohttp.ClientSession, target: Target, name: str, *, is_blocked: bool
) -> tuple[str, str]:
    """Create two users and their direct chat; return the address for messages, and the token of the
    sender."""

    async def call(method: str, path: str, key: str, body: object = None) -> dict[str, str]:
        headers = {"Authorization": f"Bearer {key}"}
        async with http.request(method, target.url + path, headers=headers, json=body) as answer:
            answer.raise_for_status()
            return dict(await answer.json()) if answer.content_type.endswith("json") else {}

    tenant = f"/v1/tenants/{name}"
    await call("PUT", tenant, target.root_key, {})
    key = (await call("POST", f"{tenant}/keys", target.root_key))["key"]
    tokens = [
        (await call("POST", f"{tenant}/tokens", key, {"user_id": user}))["token"]
        for user in ("sender", "reader")
    ]
    chat = await call("POST", "/v1/chats", tokens[0], {"type": "direct", "members": ["reader"]})
    if is_blocked:
        await call("PUT", "/v1/me/blocks/sender", tokens[1])
    return f"{target.url}/v1/chats/{chat['chat_id']}/messages", tokens[0]


async def _send(http: aiohttp.ClientSession, url: str, token: str, number: int) -> int:
    """Send a message; return the nanoseconds until its answer."""
    body = {"client_message_id": f"m{number}", "content": "hello"}
    began = perf_counter_ns()
    async with http.post(url, headers={"Authorization": f"Bearer {token}"}, json=body) as answer:
        await answer.read()
        answer.raise_for_status()
    return perf_counter_ns() - began

# SPDX-License-Identifier: Apache-2.0
"""Large posts: few at once for a tenant, and what waits has not been read."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from tests.integration.inbox_world import Newsroom, open_newsroom, to_users
from tests.integration.rest_world import Rest, open_rest, problem
from tidings.model import limits

LARGE = {"content-type": "application/json", "content-length": "6500000"}
BODY = json.dumps(to_users(["ann"], "x")).encode()


class SlowBody(httpx.AsyncByteStream):
    """A body of which nothing comes until it is let go; tells whether anybody began to read."""

    def __init__(self) -> None:
        self.is_read = asyncio.Event()
        self.goes_on = asyncio.Event()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        self.is_read.set()
        await self.goes_on.wait()
        yield BODY


@pytest.fixture
async def rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Rest]:
    monkeypatch.setattr(limits, "LARGE_BODY_WAIT_MS_MAX", 60_000)  # on a busy machine
    async with open_rest(tmp_path) as opened:
        yield opened


class Posts:
    """Large posts of a tenant that have begun."""

    def __init__(self, news: Newsroom) -> None:
        self._news = news
        self.bodies: list[SlowBody] = []
        self.answers: list[asyncio.Task[httpx.Response]] = []

    def begin(self, headers: dict[str, str] | None = None) -> None:
        """Begin another one."""
        body = SlowBody()
        path = f"{self._news.path}/notifications"
        own = {"authorization": f"Bearer {self._news.actor.credential}", **(headers or LARGE)}
        sent = self._news.actor.http.request("POST", path, headers=own, content=body)
        self.bodies.append(body)
        self.answers.append(asyncio.create_task(sent))

    @property
    def read(self) -> list[bool]:
        """Which of them are being read."""
        return [body.is_read.is_set() for body in self.bodies]

    async def end(self) -> list[int]:
        """Let all come to an end, and see what they are answered."""
        for body in self.bodies:
            body.goes_on.set()
        return [(await answer).status_code for answer in self.answers]


async def turns() -> None:
    """Let everybody get as far as they can without anything happening."""
    for _ in range(200):
        await asyncio.sleep(0)


@pytest.mark.attack("S16", "F06", "F10")
async def test_two_large_posts_of_a_tenant_are_read_at_once_and_few_wait(rest: Rest) -> None:
    posts = Posts(await open_newsroom(rest, "large"))
    most = limits.TENANT_LARGE_BODIES_MAX + limits.LARGE_BODIES_WAITING_MAX
    for _ in range(most):
        posts.begin()
    await asyncio.gather(*(body.is_read.wait() for body in posts.bodies[:2]))
    await turns()
    assert posts.read == [True] * 2 + [False] * (most - 2)
    posts.begin()
    refused = await posts.answers.pop()
    assert problem(refused) == (429, "rate.limited")
    assert refused.headers["retry-after"] == "1"
    assert posts.bodies.pop().is_read.is_set() is False
    posts.bodies[0].goes_on.set()
    assert (await posts.answers[0]).status_code == 202
    await posts.bodies[2].is_read.wait()
    assert posts.read[:4] == [True, True, True, False]
    assert await posts.end() == [202] * most


@pytest.mark.attack("S16", "D21")
async def test_small_posts_and_other_tenants_do_not_wait_for_them(rest: Rest) -> None:
    news, others = await open_newsroom(rest, "large"), await open_newsroom(rest, "other", "others")
    posts = Posts(news)
    for _ in range(4):
        posts.begin()
    await posts.bodies[1].is_read.wait()
    await news.post(to_users(["ann"], "small"))
    elsewhere = Posts(others)
    elsewhere.begin()
    await elsewhere.bodies[0].is_read.wait()
    assert await elsewhere.end() == [202]
    assert await posts.end() == [202] * 4


@pytest.mark.attack("S16")
async def test_a_body_without_a_length_counts_as_large(rest: Rest) -> None:
    posts = Posts(await open_newsroom(rest, "large"))
    for _ in range(3):
        posts.begin({"content-type": "application/json", "transfer-encoding": "chunked"})
    await asyncio.gather(*(body.is_read.wait() for body in posts.bodies[:2]))
    await turns()
    assert posts.read == [True, True, False]
    assert await posts.end() == [202] * 3


@pytest.mark.attack("S16")
async def test_whoever_waits_too_long_is_told_to_come_back(
    rest: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LARGE_BODY_WAIT_MS_MAX", 1)
    posts = Posts(await open_newsroom(rest, "large"))
    for _ in range(3):
        posts.begin()
    await asyncio.gather(*(body.is_read.wait() for body in posts.bodies[:2]))
    assert problem(await posts.answers[2]) == (429, "rate.limited")
    assert await posts.end() == [202, 202, 429]
    posts.begin()
    assert (await posts.end())[-1] == 202, "a slot is free again"


async def test_a_post_that_breaks_off_gives_its_slot_back(rest: Rest) -> None:
    posts = Posts(await open_newsroom(rest, "large"))
    for _ in range(3):
        posts.begin()
    await posts.bodies[1].is_read.wait()
    posts.answers[0].cancel()
    await posts.bodies[2].is_read.wait()
    posts.bodies.pop(0), posts.answers.pop(0)
    assert await posts.end() == [202, 202]

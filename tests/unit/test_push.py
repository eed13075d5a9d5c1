# SPDX-License-Identifier: Apache-2.0
"""Push adapters: signed, bounded, patient for a while, and without a word of content."""

import asyncio
import hashlib
import hmac
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.unit.worlds import ALICE, BOB, CHAT, NOW, HandClock
from tidings.ports.push import PushNotice
from tidings.push import webhook
from tidings.push.log import LogPush
from tidings.push.webhook import WebhookPush

SECRET = b"shared secret"
NOTICE = PushNotice(chat_id=CHAT, sequence=7, sender=ALICE, users=(BOB,))


async def at_once(attempt: int) -> None:
    del attempt
    await asyncio.sleep(0)


class Receiver:
    """A webhook that answers as it is told to, and keeps what it gets."""

    def __init__(self) -> None:
        self.answers: list[int] = []
        self.bodies: list[bytes] = []
        self.signatures: list[str] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def answer(self, request: web.Request) -> web.Response:
        self.bodies.append(await request.read())
        self.signatures.append(request.headers["Tidings-Signature"])
        await self.may_answer.wait()
        return web.Response(status=self.answers.pop(0) if self.answers else 204)


@asynccontextmanager
async def serving(receiver: Receiver) -> AsyncIterator[WebhookPush]:
    app = web.Application()
    app.router.add_post("/push", receiver.answer)
    async with TestServer(app) as server:
        push = WebhookPush(
            url=str(server.make_url("/push")), secret=SECRET, clock=HandClock(), back_off=at_once
        )
        push.start()
        try:
            yield push
        finally:
            await push.close()


async def settled(push: WebhookPush, count: int = 1) -> None:
    async with asyncio.timeout(60):
        while push.posted + push.failed < count:
            await asyncio.sleep(0.01)


@pytest.mark.attack("W09")
async def test_a_notice_is_posted_and_signed() -> None:
    receiver = Receiver()
    async with serving(receiver) as push:
        await push.send([NOTICE])
        await settled(push)
    (body,), (signature,) = receiver.bodies, receiver.signatures
    assert msgspec.json.decode(body) == {
        "notices": [
            {
                "tenant": "acme",
                "chat": CHAT,
                "sequence": 7,
                "message_id": f"{CHAT}.7",
                "sender": "alice",
                "users": ["bob"],
            }
        ]
    }
    seconds = NOW // 1_000
    mac = hmac.new(SECRET, f"{seconds}.".encode() + body, hashlib.sha256).hexdigest()
    assert signature == f"t={seconds},v1={mac}"
    assert push.posted == 1


async def test_it_is_tried_again_a_few_times() -> None:
    receiver = Receiver()
    receiver.answers = [500, 429, 200]
    async with serving(receiver) as push:
        await push.send([NOTICE])
        await settled(push)
        assert (push.posted, push.failed) == (1, 0)
        receiver.answers = [503, 503, 503, 200]
        await push.send([NOTICE])
        await settled(push, 2)
        assert (push.posted, push.failed) == (1, 1)
    assert len(receiver.bodies) == 6


async def test_a_refusal_is_final(caplog: pytest.LogCaptureFixture) -> None:
    receiver = Receiver()
    receiver.answers = [403]
    async with serving(receiver) as push:
        await push.send([NOTICE])
        await settled(push)
    assert (push.failed, len(receiver.bodies)) == (1, 1)
    assert "status 403" in caplog.text
    assert SECRET.decode() not in caplog.text


async def test_nobody_waits_for_a_webhook_and_its_line_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(webhook, "BATCHES_MAX", 2)
    monkeypatch.setattr(webhook, "CLOSE_SECONDS_MAX", 0.05)
    receiver = Receiver()
    receiver.may_answer.clear()
    async with serving(receiver) as push:
        for _ in range(10):
            await push.send([NOTICE])
        assert push.dropped == 8
        receiver.may_answer.set()
        await settled(push, 2)


async def test_without_a_webhook_there_is_a_failure_and_no_more() -> None:
    push = WebhookPush(
        url="http://127.0.0.1:1/", secret=SECRET, clock=HandClock(), back_off=at_once
    )
    push.start()
    await push.send([NOTICE])
    await settled(push)
    await push.close()
    assert push.failed == 1


async def test_the_log_says_who_would_have_been_told(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="tidings.push"):
        await LogPush().send([NOTICE, NOTICE])
    (line,) = caplog.records
    told = {"chat": CHAT, "sequence": 7, "sender": ALICE, "users": [BOB]}
    assert line.__dict__["notices"] == [told, told]

# SPDX-License-Identifier: Apache-2.0
"""Push adapters: signed, bounded, patient for a while, and without a word of content."""

import asyncio
import hashlib
import hmac
import logging
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.support.clock import NOW, ManualClock
from tests.support.users import BOB
from tests.support.waiting import until
from tests.unit.small_deployment import ALICE, CHAT
from tidings.model.ids import user_key
from tidings.phones import push_webhook
from tidings.phones.log import LogPush
from tidings.phones.push_webhook import WebhookPush
from tidings.ports.delivery import MessageNotice

SECRET = b"shared secret"
NOTICE = MessageNotice(chat_id=CHAT, sequence=7, sender=ALICE, users=(BOB,))


async def at_once(attempt: int) -> None:
    del attempt
    await asyncio.sleep(0)


def of_tenant(tenant: str) -> MessageNotice:
    sender, to = user_key(tenant, "alice"), user_key(tenant, "bob")
    return MessageNotice(chat_id=CHAT, sequence=7, sender=sender, users=(to,))


def tenants_in(receiver: "Receiver") -> list[str]:
    """Of whom each request was."""
    return [msgspec.json.decode(body)["notices"][0]["tenant"] for body in receiver.bodies]


def _example() -> Callable[[bytes, str, bytes, float], bool]:
    """The check that the documentation shows, as it stands there."""
    page = Path(__file__).parents[2] / "docs/how-to/receive-webhooks.md"
    [code] = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)
    check: Callable[[bytes, str, bytes, float], bool] = names["is_genuine"]
    return check


is_genuine = _example()


class Receiver:
    """A webhook that answers as it is told to, and keeps what it gets."""

    def __init__(self) -> None:
        self.answers: list[int] = []
        self.bodies: list[bytes] = []
        self.signatures: list[str] = []
        self.deliveries: list[str] = []
        self.results: list[str] = []
        """What became of each batch, as the journal is told."""
        self.tail: bytes | None = None
        """What the body of each answer consists of, again and again without an end."""
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    def ended(self, notices: Sequence[MessageNotice], result: str, reason: str) -> None:
        """Take what became of a batch."""
        assert notices
        assert (reason == "") is (result in ("sent", "dropped"))
        self.results.append(result)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.bodies.append(await request.read())
        self.signatures.append(request.headers["Tidings-Signature"])
        self.deliveries.append(request.headers["Tidings-Delivery"])
        await self.may_answer.wait()
        status = self.answers.pop(0) if self.answers else 204
        if self.tail is None:
            return web.Response(status=status, headers={"Location": "/elsewhere"})
        response = web.StreamResponse(status=status)
        await response.prepare(request)
        with suppress(ConnectionError):
            while True:
                await response.write(self.tail)
        return response


@asynccontextmanager
async def serving(
    receiver: Receiver, secrets: Sequence[bytes] = (SECRET,), seconds_max: float = 60
) -> AsyncIterator[WebhookPush]:
    app = web.Application()
    app.router.add_post("/push", receiver.answer)
    app.router.add_route("*", "/elsewhere", receiver.answer)
    async with TestServer(app) as server:
        push = WebhookPush(
            url=str(server.make_url("/push")),
            secrets=secrets,
            clock=ManualClock(),
            back_off=at_once,
            ended=receiver.ended,
            seconds_max=seconds_max,
        )
        push.start()
        try:
            yield push
        finally:
            await push.close()


async def settled(push: WebhookPush, count: int = 1) -> None:
    await until(lambda: push.posted + push.failed >= count)


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
    assert receiver.results == ["sent", "not_sent"]


async def test_a_refusal_is_final(caplog: pytest.LogCaptureFixture) -> None:
    receiver = Receiver()
    receiver.answers = [403]
    async with serving(receiver) as push:
        await push.send([NOTICE])
        await settled(push)
    assert (push.failed, len(receiver.bodies)) == (1, 1)
    assert receiver.results == ["refused"]
    assert "status 403" in caplog.text
    assert SECRET.decode() not in caplog.text


async def test_nobody_waits_for_a_webhook_and_its_line_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(push_webhook, "TENANT_BATCHES_MAX", 2)
    monkeypatch.setattr(push_webhook, "CLOSE_SECONDS_MAX", 0.05)
    receiver = Receiver()
    receiver.may_answer.clear()
    async with serving(receiver) as push:
        for _ in range(10):
            await push.send([NOTICE])
        assert push.dropped == 8
        assert receiver.results == ["dropped"] * 8
        receiver.may_answer.set()
        await settled(push, 2)


@pytest.mark.attack("S26", "D21")
async def test_a_loud_tenant_drops_only_its_own_and_takes_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(push_webhook, "TENANT_BATCHES_MAX", 20)
    monkeypatch.setattr(push_webhook, "BATCHES_MAX", 20)
    receiver = Receiver()
    receiver.may_answer.clear()
    async with serving(receiver) as push:
        for _ in range(push_webhook.TENANT_POSTS_AT_ONCE):
            await push.send([NOTICE])
        await until(lambda: len(receiver.bodies) >= push_webhook.TENANT_POSTS_AT_ONCE)
        for _ in range(100):
            await push.send([NOTICE])
        dropped = push.dropped
        assert dropped == 80
        for _ in range(3):
            await push.send([of_tenant("beta")])
        assert push.dropped == dropped + 3, "and each time it was one of the loud tenant's"
        # The quiet one is posted while all that the loud one may have at once wait for an answer.
        await until(lambda: tenants_in(receiver).count("beta") >= 3)
        assert tenants_in(receiver).count("acme") == push_webhook.TENANT_POSTS_AT_ONCE
        receiver.may_answer.set()
        await settled(push, push_webhook.TENANT_POSTS_AT_ONCE + 20)
        assert tenants_in(receiver).count("beta") == 3


@pytest.mark.attack("S26")
async def test_a_batch_is_of_one_tenant() -> None:
    receiver = Receiver()
    async with serving(receiver) as push:
        await push.send([NOTICE, of_tenant("beta"), NOTICE])
        await settled(push, 2)
    sizes = [len(msgspec.json.decode(body)["notices"]) for body in receiver.bodies]
    assert sorted(zip(tenants_in(receiver), sizes, strict=True)) == [("acme", 2), ("beta", 1)]


@pytest.mark.attack("S26", "W07")
async def test_a_delivery_keeps_its_id_however_often_it_is_tried() -> None:
    receiver = Receiver()
    receiver.answers = [500, 500, 200]
    async with serving(receiver) as push:
        await push.send([NOTICE])
        await settled(push)
        await push.send([of_tenant("beta")])
        await settled(push, 2)
    first, *repeats, other = receiver.deliveries
    assert repeats == [first, first] and other != first
    assert first == hashlib.sha256(receiver.bodies[0]).hexdigest()


@pytest.mark.attack("S26", "W07")
async def test_while_a_secret_is_replaced_both_are_signed_with() -> None:
    receiver, newer = Receiver(), b"the secret that comes next"
    async with serving(receiver, [newer, SECRET]) as push:
        await push.send([NOTICE])
        await settled(push)
    (body,), (header,) = receiver.bodies, receiver.signatures
    for secret in (newer, SECRET):
        assert is_genuine(secret, header, body, NOW / 1_000)
    assert not is_genuine(b"a third one", header, body, NOW / 1_000)
    assert not is_genuine(newer, header, body + b" ", NOW / 1_000)
    assert not is_genuine(newer, header, body, NOW / 1_000 + 301), "a request that comes again"


@pytest.mark.attack("W06")
@pytest.mark.parametrize("tail", [b"x", b"x" * 65_536])
async def test_an_answer_without_an_end_is_not_read(tail: bytes) -> None:
    receiver = Receiver()
    receiver.answers, receiver.tail = [200], tail
    async with serving(receiver) as push:
        await push.send([NOTICE])
        await settled(push)
        assert (push.posted, push.failed) == (1, 0)


@pytest.mark.attack("W06")
async def test_an_answer_that_does_not_come_is_given_up() -> None:
    receiver = Receiver()
    receiver.may_answer.clear()
    async with serving(receiver, seconds_max=0.05) as push:
        await push.send([NOTICE])
        await settled(push)
        assert push.failed == 1
        receiver.may_answer.set()


@pytest.mark.attack("W03")
async def test_nobody_goes_where_a_redirect_points() -> None:
    receiver = Receiver()
    receiver.answers = [302, 307, 308]
    async with serving(receiver) as push:
        await push.send([NOTICE])
        await settled(push)
        assert push.failed == 1
    assert len(receiver.bodies) == 3, "three attempts, all at the address that was set"


async def test_without_a_webhook_there_is_a_failure_and_no_more() -> None:
    receiver = Receiver()
    push = WebhookPush(
        url="http://127.0.0.1:1/",
        secrets=[SECRET],
        clock=ManualClock(),
        back_off=at_once,
        ended=receiver.ended,
    )
    push.start()
    await push.send([NOTICE])
    await settled(push)
    await push.close()
    assert push.failed == 1
    assert receiver.results == ["unknown"]


async def test_the_log_says_who_would_have_been_told(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="tidings.push"):
        await LogPush(Receiver().ended).send([NOTICE, NOTICE])
    (line,) = caplog.records
    told = {"chat": CHAT, "sequence": 7, "sender": ALICE, "users": [BOB]}
    assert line.__dict__["notices"] == [told, told]

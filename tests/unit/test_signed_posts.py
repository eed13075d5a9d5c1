# SPDX-License-Identifier: Apache-2.0
"""Requests to addresses of tenants: signed, guarded, bounded in time and size."""

import asyncio
import ipaddress
import socket
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator
from time import time
from typing import Any

import pytest
from aiohttp import web
from standardwebhooks import Webhook, WebhookVerificationError

from tests.support.clock import ManualClock
from tests.support.hook_server import HookServer, open_hook
from tidings.assembly.system import SystemChance
from tidings.model.addresses import Networks
from tidings.outgoing import signed_posts
from tidings.outgoing.guard import may_connect
from tidings.outgoing.signed_posts import ANSWER_BYTES_MAX, HttpSignedPosts
from tidings.ports.outgoing import PostFailed
from tidings.wire.events import signed_headers, webhook_headers

HERE: Networks = (ipaddress.ip_network("127.0.0.1"),)
BODY = b'{"data": {"content": "hello"}}'
MOST_MS = 60_000


@pytest.fixture
async def hook() -> AsyncIterator[HookServer]:
    async with open_hook() as opened:
        yield opened


async def posted(url: str, allowed: Networks = HERE, timeout_ms: int = MOST_MS) -> bytes:
    posts = HttpSignedPosts(allowed, ManualClock(), SystemChance())
    try:
        return await posts.post(url, BODY, [b"secret"], timeout_ms)
    finally:
        await posts.close()


def test_a_signature_is_that_of_the_specification() -> None:
    secret = b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    headers = webhook_headers(
        [secret, b"old"],
        "msg_p5jXN8AQM9LWM0D4loKWxJek",
        1_614_265_330,
        b'{"test": 2432232314}',
    )
    first, second = headers["webhook-signature"].split(" ")
    assert first == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    assert second.startswith("v1,") and second != first
    assert headers["webhook-timestamp"] == "1614265330"


async def test_an_answer_is_read(hook: HookServer) -> None:
    hook.answer = {"verdict": "allow"}
    assert await posted(hook.url) == b'{"verdict": "allow"}'
    assert hook.bodies == [BODY]
    assert hook.headers[0]["webhook-id"].startswith("msg_")


@pytest.mark.attack("W03")
@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (web.Response(status=500), "status 500"),
        (web.Response(status=302, headers={"Location": "/hook"}), "status 302"),
        (web.Response(body=b"x" * (ANSWER_BYTES_MAX + 1)), "too long"),
    ],
)
async def test_other_answers_are_failures(
    hook: HookServer, answer: web.Response, reason: str
) -> None:
    hook.answer = answer
    with pytest.raises(PostFailed, match=reason):
        await posted(hook.url)
    assert len(hook.asked) == 1, "a redirect is not followed"


async def test_nobody_waits_longer_than_agreed(hook: HookServer) -> None:
    hook.held["hello"] = asyncio.Event()
    with pytest.raises(PostFailed, match="no answer in time"):
        await posted(hook.url, timeout_ms=1)


@pytest.mark.attack("W01")
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0.0.0.0"])
async def test_an_internal_address_is_not_reached(hook: HookServer, host: str) -> None:
    for allowed in ((), (ipaddress.ip_network("10.0.0.0/8"),)):
        with pytest.raises(PostFailed):
            await posted(hook.url.replace("127.0.0.1", host), allowed)
    assert hook.asked == []


@pytest.mark.attack("W02")
async def test_a_name_is_checked_each_time(
    hook: HookServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook.answer = web.Response(headers={"Connection": "close"})
    resolved = ["127.0.0.1", "127.0.0.2"]

    async def resolve(host: str, port: int, **_: Any) -> list[Any]:
        found = ipaddress.ip_address(host) if host[0].isdigit() else resolved.pop(0)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (str(found), port))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolve)
    posts = HttpSignedPosts(HERE, ManualClock(), SystemChance())
    url = hook.url.replace("127.0.0.1", "hook.example")
    assert await posts.post(url, BODY, [b"secret"], MOST_MS) == b""
    with pytest.raises(PostFailed):
        await posts.post(url, BODY, [b"secret"], MOST_MS)
    await posts.close()
    assert resolved == [] and len(hook.asked) == 1


async def test_requests_share_a_lookup_that_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    lookups: list[str] = []

    async def resolve(host: str, _port: int, **_: Any) -> None:
        lookups.append(host)
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolve)
    posts = HttpSignedPosts(HERE, ManualClock(), SystemChance())
    for _ in range(3):
        with pytest.raises(PostFailed, match="no answer in time"):
            await posts.post("https://hook.example/", BODY, [b"secret"], 1)
    await posts.close()
    assert lookups == ["hook.example"]


@pytest.mark.attack("W01")
@pytest.mark.parametrize(
    "host",
    [
        "10.1.2.3", "172.16.0.1", "192.168.1.1", "127.0.0.1", "169.254.169.254", "100.64.0.1",
        "0.0.0.0", "224.0.0.1", "255.255.255.255", "240.0.0.1", "::1", "::", "fe80::1%eth0",
        "fd00:ec2::254", "::ffff:10.0.0.1", "64:ff9b::10.0.0.1", "2002:a00:1::1", "ff02::1",
        "192.0.0.192", "168.63.129.16", "100.100.100.200", "192.88.99.1", "198.18.0.1", "fc00::1",
        "fec0::1", "3fff::1", "::10.0.0.1", "::ffff:0:10.0.0.1", "64:ff9b:1::a00:1",
        "2001:0:a00:1::1", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1",
    ],
)  # fmt: skip
def test_addresses_that_are_not_public(host: str) -> None:
    assert not may_connect(host, (), is_secure=True)


def test_addresses_that_are() -> None:
    for host in ("93.184.216.34", "2606:4700::1111", "64:ff9b::5db8:d822"):
        assert may_connect(host, (), is_secure=True)
        assert not may_connect(host, (), is_secure=False), "content needs TLS on its way"
    inside = (ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_network("fd00::/8"))
    for host in ("10.1.2.3", "::ffff:10.1.2.3", "fd00::1"):
        assert may_connect(host, inside, is_secure=False)


async def test_what_is_no_address_fails() -> None:
    for url in ("http://127.0.0.1:1/hook", "https://127.0.0.1:1/hook", "http://[::1/hook"):
        with pytest.raises(PostFailed):
            await posted(url)
    assert signed_posts.MS_PER_SECOND == 1_000


def test_webhooks_of_the_operator_are_signed_by_the_specification_too() -> None:
    body, now = b'{"notices":[]}', int(time() * 1_000)
    headers = signed_headers([b"newest secret", b"previous secret"], now, body)
    for secret in (b"newest secret", b"previous secret"):
        Webhook(f"whsec_{b64encode(secret).decode()}").verify(body, headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(f"whsec_{b64encode(b'other').decode()}").verify(body, headers)
    assert headers["Tidings-Signature"].startswith(f"t={now // 1_000},v1=")

# SPDX-License-Identifier: Apache-2.0
"""Web Push: what reaches a browser, what a push service answers, and who may be written to."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer, unused_port

from tests.support.clock import ManualClock
from tests.support.push_tls import LOOPBACK, ServiceTls
from tests.support.web_push_service import Browser, WebPushService, open_web_push_service
from tidings.assembly.system import SystemChance
from tidings.model.addresses import Networks
from tidings.model.refusals import Invalid
from tidings.outgoing.push.guarded_posts import GuardedPosts
from tidings.outgoing.push.web_push import WebPushProvider, topic_of
from tidings.ports.push import PushNotice, PushTarget

NOTICE = PushNotice(
    kind="message",
    data={"chat_id": "c1", "sequence": "7", "message_id": "c1:7"},
    collapse_key="chat:c1",
    badge=3,
    title="Ann",
    body="Grüße 🎈",
    ttl_seconds=3_600,
)


@dataclass
class Setting:
    service: WebPushService
    provider: WebPushProvider
    posts: GuardedPosts
    credentials: Any
    clock: ManualClock
    tls: ServiceTls

    def target(self, name: str) -> PushTarget:
        body = {"provider": "webpush", "subscription": self.service.subscribe(name)}
        return self.provider.accept_target(body)

    def provider_with(self, posts: GuardedPosts, allowed: Networks = LOOPBACK) -> WebPushProvider:
        return WebPushProvider(posts, self.clock, SystemChance(), allowed)


@pytest.fixture
async def setting(tmp_path: Path) -> AsyncIterator[Setting]:
    clock = ManualClock()
    tls = ServiceTls(tmp_path)
    posts = GuardedPosts(LOOPBACK, tls=tls.client, seconds_max=60)
    provider = WebPushProvider(posts, clock, SystemChance(), LOOPBACK)
    credentials = provider.accept_credentials({"subject": "mailto:ops@example.com"}, None)
    async with open_web_push_service(tls.server) as service:
        service.now = lambda: clock.time / 1_000
        yield Setting(service, provider, posts, credentials, clock, tls)
    await posts.close()


async def test_a_browser_reads_the_notice(setting: Setting) -> None:
    outcome = await setting.provider.send(setting.credentials, setting.target("ann"), NOTICE)
    assert outcome.kind == "sent", outcome
    [(name, message, headers)] = setting.service.received
    assert name == "ann"
    assert message == {
        "kind": "message",
        "collapse_key": "chat:c1",
        "data": {"chat_id": "c1", "sequence": "7", "message_id": "c1:7"},
        "badge": 3,
        "title": "Ann",
        "body": "Grüße 🎈",
    }
    assert headers["ttl"] == "3600"
    assert headers["urgency"] == "high"
    assert headers["topic"] == topic_of("chat:c1") != topic_of("chat:c2")
    assert headers["sub"] == "mailto:ops@example.com"
    assert setting.service.paddings[0] > 0


async def test_a_token_is_used_for_hours_and_then_replaced(setting: Setting) -> None:
    target = setting.target("ann")
    seen = []
    for hours in (0, 5, 7, -20):
        setting.clock.time += hours * 3_600_000
        assert (await setting.provider.send(setting.credentials, target, NOTICE)).kind == "sent"
        seen.append(setting.service.received[-1][2]["authorization"])
    assert seen[0] == seen[1]
    assert len(set(seen)) == 3


async def test_a_body_that_is_too_long_is_cut(setting: Setting) -> None:
    long = PushNotice(kind="message", data={}, collapse_key="c", title="Ann", body="ä" * 5_000)
    outcome = await setting.provider.send(setting.credentials, setting.target("ann"), long)
    assert outcome.kind == "sent", outcome
    body = setting.service.received[0][1]["body"]
    assert body.endswith("ä…")
    assert 500 < len(body) < 2_000


async def test_a_notice_that_cannot_be_cut_is_refused(setting: Setting) -> None:
    long = PushNotice(kind="message", data={"x": "y" * 5_000}, collapse_key="c", body="ä")
    outcome = await setting.provider.send(setting.credentials, setting.target("ann"), long)
    assert (outcome.kind, outcome.reason) == ("refused", "too large")
    assert setting.service.received == []


@pytest.mark.parametrize(
    ("status", "retry_after", "expected"),
    [
        (200, None, ("sent", "", None)),
        (202, None, ("sent", "", None)),
        (404, None, ("gone", "status 404", None)),
        (410, None, ("gone", "status 410", None)),
        (429, "120", ("not_sent", "status 429", 120_000)),
        (503, "Fri, 15 Jan 2027 08:01:00 GMT", ("not_sent", "status 503", 60_000)),
        (503, "Fri, 15 Jan 2021 08:01:00 GMT", ("not_sent", "status 503", 0)),
        (429, "999999999", ("not_sent", "status 429", 86_400_000)),
        (503, "soon", ("not_sent", "status 503", None)),
        (503, None, ("not_sent", "status 503", None)),
        (400, None, ("refused", "status 400", None)),
        (403, None, ("refused", "status 403", None)),
        (413, None, ("refused", "status 413", None)),
        (500, None, ("unknown", "status 500", None)),
    ],
)
async def test_what_the_push_service_answers_decides(
    setting: Setting, status: int, retry_after: str | None, expected: tuple[str, str, int | None]
) -> None:
    headers = {} if retry_after is None else {"Retry-After": retry_after}
    setting.service.answer = web.Response(status=status, headers=headers, body=b"x" * 100_000)
    outcome = await setting.provider.send(setting.credentials, setting.target("ann"), NOTICE)
    assert (outcome.kind, outcome.reason, outcome.retry_after_ms) == expected


async def test_redirects_are_not_followed(setting: Setting) -> None:
    other = setting.target("bob")
    setting.service.answer = web.Response(status=307, headers={"Location": other.address})
    outcome = await setting.provider.send(setting.credentials, setting.target("ann"), NOTICE)
    assert (outcome.kind, outcome.reason) == ("refused", "status 307")
    assert [name for name, _, _ in setting.service.received] == ["ann"]


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
async def test_nothing_goes_to_an_address_that_is_not_public(setting: Setting, host: str) -> None:
    posts = GuardedPosts((), tls=setting.tls.client)
    target = setting.target("ann")
    address = target.address.replace("127.0.0.1", host)
    inside = PushTarget(provider="webpush", address=address, keys=target.keys)
    outcome = await setting.provider_with(posts).send(setting.credentials, inside, NOTICE)
    await posts.close()
    assert (outcome.kind, outcome.reason) == ("refused", "the address is not public")
    assert setting.service.received == []


async def test_a_service_that_is_down_was_not_sent_anything(setting: Setting) -> None:
    target = setting.target("ann")
    down = f"https://127.0.0.1:{unused_port()}/push/ann"
    closed = PushTarget(provider="webpush", address=down, keys=target.keys)
    outcome = await setting.provider.send(setting.credentials, closed, NOTICE)
    assert (outcome.kind, outcome.reason) == ("not_sent", "no connection")


async def test_a_certificate_of_a_stranger_is_not_trusted(setting: Setting) -> None:
    posts = GuardedPosts(LOOPBACK)
    outcome = await setting.provider_with(posts).send(
        setting.credentials, setting.target("ann"), NOTICE
    )
    await posts.close()
    assert outcome.kind == "refused"
    assert setting.service.received == []


async def test_without_an_answer_nobody_knows(setting: Setting) -> None:
    asked = asyncio.Event()

    async def never(request: web.Request) -> web.StreamResponse:
        asked.set()
        await asyncio.Event().wait()
        return web.Response()

    app = web.Application()
    app.router.add_post("/push", never)
    posts = GuardedPosts(LOOPBACK, seconds_max=1)
    async with TestServer(app) as server:
        target = PushTarget(
            provider="webpush",
            address=str(server.make_url("/push")),
            keys=setting.target("ann").keys,
        )
        outcome = None
        while not asked.is_set():  # a slow machine may not even have sent it in time
            outcome = await setting.provider_with(posts).send(setting.credentials, target, NOTICE)
    await posts.close()
    assert outcome is not None
    assert (outcome.kind, outcome.reason) == ("unknown", "no answer in time")


# --- Credentials ---


def test_keys_are_made_and_kept(setting: Setting) -> None:
    provider = setting.provider
    made = provider.accept_credentials({}, None)
    other = provider.accept_credentials({}, None)
    assert made["public_key"] != other["public_key"]
    again = provider.accept_credentials({"subject": "https://example.com"}, made)
    assert again == {**made, "subject": "https://example.com"}
    assert provider.accept_credentials({"public_key": made["public_key"]}, made) == made
    assert provider.public(again) == {"vapid_public_key": made["public_key"]}
    assert provider.shown(again) == {
        "public_key": made["public_key"],
        "subject": "https://example.com",
    }


def test_a_tenant_brings_its_own_keys(setting: Setting) -> None:
    made = dict(setting.provider.accept_credentials({}, None))
    assert setting.provider.accept_credentials(made, None) == made
    only_private = {"private_key": made["private_key"]}
    assert setting.provider.accept_credentials(only_private, None) == made


@pytest.mark.parametrize(
    ("given", "pointer"),
    [
        ({"subject": "ops@example.com"}, "/webpush/subject"),
        ({"subject": 7}, "/webpush/subject"),
        ({"private_key": "AAAA"}, "/webpush/private_key"),
        ({"private_key": "A" * 43}, "/webpush/private_key"),
        ({"private_key": "not base64"}, "/webpush/private_key"),
        ({"public_key": "B" + "A" * 86}, "/webpush/private_key"),
        ({"secret": "x"}, "/webpush/secret"),
    ],
)
def test_keys_of_a_tenant_are_checked(
    setting: Setting, given: dict[str, object], pointer: str
) -> None:
    with pytest.raises(Invalid) as refused:
        setting.provider.accept_credentials(given, None)
    assert refused.value.pointer == pointer


def test_keys_that_do_not_belong_together_are_refused(setting: Setting) -> None:
    one = setting.provider.accept_credentials({}, None)
    two = setting.provider.accept_credentials({}, None)
    mixed = {"public_key": one["public_key"], "private_key": two["private_key"]}
    with pytest.raises(Invalid) as refused:
        setting.provider.accept_credentials(mixed, None)
    assert refused.value.pointer == "/webpush/public_key"


# --- Subscriptions ---


def test_what_a_browser_gives_is_taken(setting: Setting) -> None:
    given = Browser.new().subscription("https://push.example.com/x?y=1")
    target = setting.provider.accept_target({"provider": "webpush", "subscription": given})
    assert target.address == "https://push.example.com/x?y=1"
    assert target.keys == (given["keys"]["p256dh"], given["keys"]["auth"])
    json.dumps(given)


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"endpoint": "http://push.example.com/x"}, "/subscription/endpoint"),
        ({"endpoint": "http://192.0.2.1/x"}, "/subscription/endpoint"),
        ({"endpoint": "ftp://push.example.com/x"}, "/subscription/endpoint"),
        ({"endpoint": "https:///x"}, "/subscription/endpoint"),
        ({"endpoint": "https://[x/"}, "/subscription/endpoint"),
        ({"endpoint": "https://a:0/"}, "/subscription/endpoint"),
        ({"endpoint": "https://user@push.example.com/"}, "/subscription/endpoint"),
        ({"endpoint": "https://push.example.com/#x"}, "/subscription/endpoint"),
        ({"endpoint": "https://push.example.com/ x"}, "/subscription/endpoint"),
        ({"endpoint": "https://push.example.com/" + "x" * 2_048}, "/subscription/endpoint"),
        ({"endpoint": None}, "/subscription/endpoint"),
        ({"keys": None}, "/subscription/keys"),
        ({"keys": {"auth": "c2l4dGVlbiBieXRlcyBvaw"}}, "/subscription/keys/p256dh"),
        ({"keys": {"p256dh": "BAAA", "auth": "c2l4"}}, "/subscription/keys/p256dh"),
    ],
)
def test_other_subscriptions_are_refused(
    setting: Setting, change: dict[str, object], pointer: str
) -> None:
    given = {**Browser.new().subscription("https://push.example.com/x"), **change}
    with pytest.raises(Invalid) as refused:
        setting.provider.accept_target({"provider": "webpush", "subscription": given})
    assert refused.value.pointer == pointer


def test_a_secret_of_another_length_is_refused(setting: Setting) -> None:
    given = Browser.new().subscription("https://push.example.com/x")
    given["keys"]["auth"] = "AAAA"
    with pytest.raises(Invalid) as refused:
        setting.provider.accept_target({"provider": "webpush", "subscription": given})
    assert refused.value.pointer == "/subscription/keys/auth"


def test_without_tls_only_networks_of_the_operator_are_taken(setting: Setting) -> None:
    given = Browser.new().subscription("http://127.0.0.1:81/x")
    body = {"provider": "webpush", "subscription": given}
    assert setting.provider.accept_target(body).address == "http://127.0.0.1:81/x"
    with pytest.raises(Invalid):
        setting.provider_with(setting.posts, ()).accept_target(body)

# SPDX-License-Identifier: Apache-2.0
"""FCM: the token of the service account, what a phone gets, and what FCM answers."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import unused_port
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.support.clock import ManualClock
from tests.support.fcm_server import (
    EMAIL,
    KEY_ID,
    PROJECT,
    FcmServer,
    fcm_error,
    open_fcm,
    service_account,
)
from tests.support.push_tls import LOOPBACK
from tidings.model.refusals import Invalid
from tidings.outgoing.push.fcm import FcmProvider
from tidings.outgoing.push.guarded_posts import GuardedPosts
from tidings.ports.push import PushNotice, PushTarget

NOTICE = PushNotice(
    kind="message",
    data={"chat_id": "c1", "sequence": "7"},
    collapse_key="chat:c1",
    badge=3,
    title="Ann",
    body="Hello",
    ttl_seconds=3_600,
)
TARGET = PushTarget(provider="fcm", address="phone:1", app="com.example")


@dataclass
class Setting:
    fcm: FcmServer
    provider: FcmProvider
    posts: GuardedPosts
    credentials: Any
    clock: ManualClock

    async def send(self, notice: PushNotice = NOTICE) -> tuple[str, str, int | None]:
        outcome = await self.provider.send(self.credentials, TARGET, notice)
        return outcome.kind, outcome.reason, outcome.retry_after_ms


@pytest.fixture
async def setting() -> AsyncIterator[Setting]:
    clock = ManualClock()
    posts = GuardedPosts(LOOPBACK, seconds_max=60)
    async with open_fcm() as fcm:
        fcm.now = lambda: clock.time / 1_000
        provider = FcmProvider(posts, clock, url=fcm.url, token_url=fcm.token_url)
        credentials = provider.accept_credentials({"service_account": service_account()}, None)
        yield Setting(fcm, provider, posts, credentials, clock)
    await posts.close()


async def test_a_phone_gets_the_notice(setting: Setting) -> None:
    assert await setting.send() == ("sent", "", None)
    [message] = setting.fcm.messages
    assert message == {
        "token": "phone:1",
        "data": {
            "chat_id": "c1",
            "sequence": "7",
            "kind": "message",
            "collapse_key": "chat:c1",
            "badge": "3",
        },
        "notification": {"title": "Ann", "body": "Hello"},
        "android": {
            "collapse_key": "chat:c1",
            "priority": "HIGH",
            "ttl": "3600s",
            "notification": {"tag": "chat:c1", "notification_count": 3},
        },
        "apns": {
            "headers": {"apns-collapse-id": "chat:c1", "apns-priority": "10"},
            "payload": {
                "aps": {
                    "thread-id": "chat:c1",
                    "alert": {"title": "Ann", "body": "Hello"},
                    "sound": "default",
                    "mutable-content": 1,
                    "badge": 3,
                }
            },
        },
    }


async def test_without_content_the_app_decides_what_is_shown(setting: Setting) -> None:
    await setting.send(PushNotice(kind="message", data={}, collapse_key="c"))
    [message] = setting.fcm.messages
    assert "notification" not in message
    assert "notification" not in message["android"]
    assert message["apns"]["payload"]["aps"]["alert"] == {"body": "New message"}


async def test_a_clearing_notice_shows_nothing(setting: Setting) -> None:
    await setting.send(PushNotice(kind="clear", data={}, collapse_key="c", badge=0))
    [message] = setting.fcm.messages
    assert message["data"] == {"kind": "clear", "collapse_key": "c", "badge": "0"}
    assert message["android"]["priority"] == "NORMAL"
    assert message["apns"]["payload"]["aps"] == {
        "thread-id": "c",
        "content-available": 1,
        "badge": 0,
    }
    assert "notification" not in message


async def test_notices_share_a_token_until_shortly_before_its_end(setting: Setting) -> None:
    async with asyncio.TaskGroup() as group:
        for _ in range(5):
            group.create_task(setting.send())
    assert setting.fcm.tokens == 1
    setting.clock.time += 54 * 60_000
    await setting.send()
    assert setting.fcm.tokens == 1
    setting.clock.time += 60_000
    assert await setting.send() == ("sent", "", None)
    assert setting.fcm.tokens == 2
    assert len(setting.fcm.messages) == 7


async def test_an_answer_is_understood_however_it_comes(setting: Setting) -> None:
    setting.fcm.is_frugal = True
    assert await setting.send() == ("sent", "", None)


async def test_a_token_that_is_not_accepted_is_replaced(setting: Setting) -> None:
    await setting.send()
    setting.fcm.tokens += 1  # the server accepts only the newest
    assert await setting.send() == ("not_sent", "status 401", None)
    assert await setting.send() == ("sent", "", None)


async def test_a_service_account_that_is_refused_is_not_asked_for_again_at_once(
    setting: Setting,
) -> None:
    setting.fcm.token_status = 400
    for _ in range(3):
        assert await setting.send() == ("refused", "token: status 400", None)
    assert setting.fcm.tokens == 1
    setting.fcm.token_status = 200
    setting.clock.time += 60_000
    assert await setting.send() == ("sent", "", None)


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_without_a_token_nothing_was_sent(setting: Setting, status: int) -> None:
    setting.fcm.token_status = status
    assert await setting.send() == ("not_sent", f"token: status {status}", None)
    setting.fcm.token_status = 200
    assert await setting.send() == ("sent", "", None)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (fcm_error(404, "UNREGISTERED"), ("gone", "UNREGISTERED", None)),
        (fcm_error(404, None), ("refused", "status 404", None)),
        (fcm_error(400, "INVALID_ARGUMENT"), ("refused", "INVALID_ARGUMENT", None)),
        (fcm_error(403, "SENDER_ID_MISMATCH"), ("refused", "SENDER_ID_MISMATCH", None)),
        (
            fcm_error(429, "QUOTA_EXCEEDED", **{"Retry-After": "9"}),
            ("not_sent", "QUOTA_EXCEEDED", 9_000),
        ),
        (fcm_error(503, "UNAVAILABLE"), ("not_sent", "UNAVAILABLE", None)),
        (fcm_error(500, "INTERNAL"), ("unknown", "INTERNAL", None)),
    ],
)
async def test_what_fcm_answers_decides(
    setting: Setting, answer: web.Response, expected: tuple[str, str, int | None]
) -> None:
    setting.fcm.error = answer
    assert await setting.send() == expected


async def test_a_server_that_is_down_was_not_sent_anything(setting: Setting) -> None:
    down = f"http://127.0.0.1:{unused_port()}"
    for url, token_url, reason in (
        (down, setting.fcm.token_url, "no connection"),
        (setting.fcm.url, down, "token: no connection"),
    ):
        provider = FcmProvider(setting.posts, setting.clock, url=url, token_url=token_url)
        outcome = await provider.send(setting.credentials, TARGET, NOTICE)
        assert (outcome.kind, outcome.reason) == ("not_sent", reason)


async def test_a_notice_that_is_too_long_is_cut_or_refused(setting: Setting) -> None:
    long = PushNotice(kind="message", data={}, collapse_key="c", title="Ann", body="x" * 9_000)
    assert await setting.send(long) == ("sent", "", None)
    assert len(setting.fcm.messages[0]["notification"]["body"]) < 2_048
    endless = PushNotice(kind="message", data={"x": "y" * 9_000}, collapse_key="c")
    assert await setting.send(endless) == ("refused", "too large", None)


# --- Credentials and registrations ---


def test_only_what_is_needed_of_the_account_is_stored(setting: Setting) -> None:
    account = {"project_id": PROJECT, "client_email": EMAIL, "private_key_id": KEY_ID}
    key = service_account()["private_key"]
    assert setting.credentials == {"service_account": {**account, "private_key": key}}
    assert setting.provider.shown(setting.credentials) == {"service_account": account}
    assert setting.provider.public(setting.credentials) == {}
    again = {"service_account": account}
    assert setting.provider.accept_credentials(again, setting.credentials) == setting.credentials
    with pytest.raises(Invalid):  # another key has another id
        other = {"service_account": {**account, "private_key_id": "other"}}
        setting.provider.accept_credentials(other, setting.credentials)


def pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"project_id": None}, "project_id"),
        ({"project_id": "../x"}, "project_id"),
        ({"client_email": "nobody"}, "client_email"),
        ({"private_key_id": 7}, "private_key_id"),
        ({"private_key": None}, "private_key"),
        ({"private_key": "-----BEGIN PRIVATE KEY-----\nAA==\n-----END PRIVATE KEY-----\n"},
         "private_key"),
        ({"private_key": pem(ec.generate_private_key(ec.SECP256R1()))}, "private_key"),
        ({"private_key": pem(rsa.generate_private_key(65_537, 1_024))}, "private_key"),
    ],
)  # fmt: skip
def test_other_accounts_are_refused(setting: Setting, change: Any, name: str) -> None:
    given = {"service_account": {**service_account(), **change}}
    with pytest.raises(Invalid) as refused:
        setting.provider.accept_credentials(given, None)
    assert refused.value.pointer == f"/fcm/service_account/{name}"


def test_other_bodies_are_refused(setting: Setting) -> None:
    for given, pointer in (
        ({}, "/fcm/service_account"),
        ({"service_account": "x"}, "/fcm/service_account"),
        ({"key": "x"}, "/fcm/key"),
    ):
        with pytest.raises(Invalid) as refused:
            setting.provider.accept_credentials(given, None)
        assert refused.value.pointer == pointer


def test_registrations_are_checked(setting: Setting) -> None:
    body = {"provider": "fcm", "token": "abc:D-e_f", "app": "com.example"}
    target = setting.provider.accept_target(body)
    assert target == PushTarget(provider="fcm", address="abc:D-e_f", app="com.example")
    for wrong, pointer in (
        ({"token": "a b"}, "/token"),
        ({"token": ""}, "/token"),
        ({"token": None}, "/token"),
        ({"token": "x" * 4_001}, "/token"),
        ({"app": "a/b"}, "/app"),
        ({"subscription": {}}, "/subscription"),
    ):
        with pytest.raises(Invalid) as refused:
            setting.provider.accept_target({**body, **wrong})
        assert refused.value.pointer == pointer

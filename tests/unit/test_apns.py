# SPDX-License-Identifier: Apache-2.0
"""APNs: what an app gets over HTTP/2, how connections are shared, and what Apple answers."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp.test_utils import unused_port
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.support.apns_server import TOPIC, ApnsServer, apns_credentials, open_apns
from tests.support.clock import ManualClock
from tests.support.push_tls import LOOPBACK, ServiceTls
from tests.support.waiting import until
from tidings.model.outgoing_refusals import ProviderMissing
from tidings.model.refusals import Invalid
from tidings.outgoing.push import http2, http2_links, loading
from tidings.outgoing.push.answers import NoAnswer
from tidings.outgoing.push.apns import ApnsProvider
from tidings.outgoing.push.apns_credentials import ApnsCredentials
from tidings.ports.push import PushNotice, PushOutcome, PushTarget

NOTICE = PushNotice(
    kind="message",
    data={"chat_id": "c1", "sequence": "7"},
    collapse_key="chat:c1",
    badge=3,
    title="Ann",
    body="Hello",
    ttl_seconds=3_600,
)
TARGET = PushTarget(provider="apns", address="00fc13adff785122")


@dataclass
class Setting:
    apns: ApnsServer
    provider: ApnsProvider
    clock: ManualClock
    tls: ServiceTls
    credentials: Any

    async def send(self, notice: PushNotice = NOTICE, target: PushTarget = TARGET) -> PushOutcome:
        return await self.provider.send(self.credentials, target, notice)

    def sending(self) -> asyncio.Task[PushOutcome]:
        return asyncio.create_task(self.send())


@pytest.fixture
async def setting(tmp_path: Path) -> AsyncIterator[Setting]:
    clock = ManualClock()
    tls = ServiceTls(tmp_path)
    async with open_apns(tls.server) as apns:
        apns.now = lambda: clock.time / 1_000
        provider = ApnsProvider(clock, LOOPBACK, url=apns.url, tls=tls.client, seconds_max=60)
        credentials = provider.accept_credentials(apns_credentials(), None)
        yield Setting(apns, provider, clock, tls, credentials)
        await provider.close()


async def test_an_app_gets_the_notice(setting: Setting) -> None:
    assert await setting.send() == PushOutcome("sent")
    [request] = setting.apns.requests
    assert request.token == TARGET.address
    assert request.payload == {
        "aps": {
            "thread-id": "chat:c1",
            "alert": {"title": "Ann", "body": "Hello"},
            "sound": "default",
            "mutable-content": 1,
            "badge": 3,
        },
        "chat_id": "c1",
        "sequence": "7",
        "kind": "message",
        "collapse_key": "chat:c1",
        "badge": "3",
    }
    assert request.headers["apns-topic"] == TOPIC
    assert request.headers["apns-push-type"] == "alert"
    assert request.headers["apns-priority"] == "10"
    assert request.headers["apns-collapse-id"] == "chat:c1"
    assert request.headers["apns-expiration"] == str(setting.clock.time // 1_000 + 3_600)


async def test_without_content_general_words_are_shown(setting: Setting) -> None:
    for kind, words in (("message", "New message"), ("notification", "New notification")):
        await setting.send(PushNotice(kind=kind, data={}, collapse_key="c"))  # type: ignore[arg-type]
        assert setting.apns.requests[-1].payload["aps"]["alert"] == {"body": words}


async def test_a_clearing_notice_shows_nothing_but_the_badge(setting: Setting) -> None:
    for badge, push_type in ((0, "alert"), (None, "background")):
        notice = PushNotice(kind="clear", data={}, collapse_key="c", badge=badge)
        assert await setting.send(notice) == PushOutcome("sent")
        request = setting.apns.requests[-1]
        assert request.headers["apns-push-type"] == push_type
        assert request.headers["apns-priority"] == "5"
        assert "alert" not in request.payload["aps"]


async def test_an_app_with_a_bundle_id_is_its_topic(setting: Setting) -> None:
    for app, topic in (("com.example.other", "com.example.other"), ("phone", TOPIC)):
        await setting.send(target=PushTarget(provider="apns", address="aa", app=app))
        assert setting.apns.requests[-1].headers["apns-topic"] == topic


async def test_a_notice_that_is_too_long_is_cut_or_refused(setting: Setting) -> None:
    long = PushNotice(kind="message", data={}, collapse_key="c", body="x" * 9_000)
    assert await setting.send(long) == PushOutcome("sent")
    endless = PushNotice(kind="message", data={"x": "y" * 9_000}, collapse_key="c")
    assert await setting.send(endless) == PushOutcome("refused", "PayloadTooLarge")


async def test_the_sandbox_is_another_server(setting: Setting) -> None:
    provider = ApnsProvider(
        setting.clock, LOOPBACK, sandbox_url=setting.apns.url, tls=setting.tls.client
    )
    credentials = provider.accept_credentials(apns_credentials(sandbox=True), None)
    assert await provider.send(credentials, TARGET, NOTICE) == PushOutcome("sent")
    await provider.close()


async def test_a_provider_token_is_used_for_a_while(setting: Setting) -> None:
    for minutes in (0, 39, 1):
        setting.clock.time += minutes * 60_000
        assert await setting.send() == PushOutcome("sent")
        assert len(setting.apns.provider_tokens) == (2 if minutes == 1 else 1)


async def test_a_token_that_expired_is_replaced_if_it_is_not_too_new(setting: Setting) -> None:
    setting.apns.answer = 403, {}, {"reason": "ExpiredProviderToken"}
    for minutes, tokens in ((0, 1), (19, 1), (2, 1), (0, 2)):
        setting.clock.time += minutes * 60_000
        assert await setting.send() == PushOutcome("not_sent", "ExpiredProviderToken")
        assert len(setting.apns.provider_tokens) == tokens


@pytest.mark.parametrize(
    ("status", "headers", "reason", "expected"),
    [
        (400, {}, "BadDeviceToken", PushOutcome("refused", "BadDeviceToken")),
        (403, {}, "InvalidProviderToken", PushOutcome("refused", "InvalidProviderToken")),
        (404, {}, "BadPath", PushOutcome("refused", "BadPath")),
        (410, {}, "Unregistered", PushOutcome("gone", "Unregistered")),
        (413, {}, "PayloadTooLarge", PushOutcome("refused", "PayloadTooLarge")),
        (429, {}, "TooManyRequests", PushOutcome("not_sent", "TooManyRequests")),
        (503, {"retry-after": "3"}, "Shutdown", PushOutcome("not_sent", "Shutdown", 3_000)),
        (500, {}, "InternalServerError", PushOutcome("unknown", "InternalServerError")),
        (418, {}, "", PushOutcome("refused", "status 418")),
    ],
)
async def test_what_apple_answers_decides(
    setting: Setting, status: int, headers: dict[str, str], reason: str, expected: PushOutcome
) -> None:
    setting.apns.answer = status, headers, {"reason": reason} if reason else {}
    assert await setting.send() == expected


# --- Connections ---


async def test_notices_share_a_connection_and_its_streams(setting: Setting) -> None:
    setting.apns.streams_max = 3
    setting.apns.answer = None
    sent = [setting.sending() for _ in range(10)]
    for count in (3, 6, 9, 10):
        await until(lambda count=count: len(setting.apns.requests) == count)  # type: ignore[misc]
        [connection] = setting.apns.connections
        waiting, connection.unanswered = connection.unanswered, []
        for stream in waiting:
            connection.respond(stream, 200, {}, {})
    assert [await one for one in sent] == [PushOutcome("sent")] * 10
    assert setting.apns.most_at_once == 3


async def test_a_body_waits_for_the_window_of_the_server(setting: Setting) -> None:
    setting.apns.window = 100
    long = PushNotice(kind="message", data={}, collapse_key="c", body="x" * 3_000)
    assert await setting.send(long) == PushOutcome("sent")
    assert len(setting.apns.requests[0].payload["aps"]["alert"]["body"]) == 3_000


async def test_an_answer_before_the_whole_body_ends_the_stream(setting: Setting) -> None:
    setting.apns.streams_max = 2
    setting.apns.window = 10
    setting.apns.answer = 403, {}, {"reason": "InvalidProviderToken"}
    setting.apns.answers_early = True
    for _ in range(5):
        assert await setting.send() == PushOutcome("refused", "InvalidProviderToken")
    assert len(setting.apns.connections) == 1


async def test_tenants_do_not_share_a_connection(setting: Setting) -> None:
    await setting.send()
    other = setting.provider.accept_credentials(apns_credentials(topic="com.example.b"), None)
    await setting.provider.send(other, TARGET, NOTICE)
    assert [request.connection for request in setting.apns.requests] == [0, 1]


async def test_when_the_server_goes_away_earlier_requests_are_still_answered(
    setting: Setting,
) -> None:
    setting.apns.answer = None
    early = setting.sending()
    await until(lambda: len(setting.apns.requests) == 1)
    late = setting.sending()
    await until(lambda: len(setting.apns.requests) == 2)
    [connection] = setting.apns.connections
    first, _ = connection.unanswered
    connection.go_away(last=first)
    assert await late == PushOutcome("not_sent", "the server went away")
    setting.apns.answer = 200, {}, {}
    assert await setting.send() == PushOutcome("sent")
    assert setting.apns.requests[-1].connection == 1
    connection.respond(first, 410, {}, {"reason": "Unregistered"})
    assert await early == PushOutcome("gone", "Unregistered")
    await until(connection.transport.is_closing)


async def test_a_refused_stream_was_not_sent(setting: Setting) -> None:
    setting.apns.refuses_streams = True
    assert await setting.send() == PushOutcome("not_sent", "the stream was reset")
    setting.apns.refuses_streams = False
    assert await setting.send() == PushOutcome("sent")
    assert len(setting.apns.connections) == 1


async def test_a_lost_connection_is_replaced(setting: Setting) -> None:
    setting.apns.answer = None
    task = setting.sending()
    await until(lambda: len(setting.apns.requests) == 1)
    setting.apns.connections[0].transport.abort()
    assert await task == PushOutcome("unknown", "the connection was lost")
    setting.apns.answer = 200, {}, {}
    assert await setting.send() == PushOutcome("sent")
    assert setting.apns.requests[-1].connection == 1


async def test_after_a_request_without_an_answer_the_connection_is_replaced(
    setting: Setting,
) -> None:
    assert await setting.send() == PushOutcome("sent"), "it is connected"
    setting.apns.answer = None
    credentials = msgspec.convert(setting.credentials, ApnsCredentials)
    link = await setting.provider._link(credentials)
    headers = setting.provider._headers(credentials, TARGET, NOTICE, setting.clock.now())
    with pytest.raises(NoAnswer) as failure:
        await link.post(headers, b'{"aps": {}}', 1)
    assert failure.value.outcome == PushOutcome("unknown", "no answer in time")
    setting.apns.answer = 200, {}, {}
    assert await setting.send() == PushOutcome("sent")
    assert setting.apns.requests[-1].connection == 1


async def test_a_connection_that_was_quiet_is_asked_first(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    await setting.send()
    monkeypatch.setattr(http2, "QUIET_SECONDS", -1.0)
    assert await setting.send() == PushOutcome("sent")
    [connection] = setting.apns.connections
    assert connection.pings == 1
    connection.transport.pause_reading()  # from now on, nobody answers
    monkeypatch.setattr(http2, "PING_SECONDS_MAX", 0.05)
    assert await setting.send() == PushOutcome("sent")
    assert setting.apns.requests[-1].connection == 1


async def test_a_connection_that_nobody_uses_is_closed(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http2, "IDLE_SECONDS_MAX", 0.0)
    await setting.send()
    await until(setting.apns.connections[0].transport.is_closing)


@pytest.mark.parametrize("nonsense", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0\0\0\x09\0\0\0\0\1"])
async def test_a_server_that_speaks_nonsense_is_left(setting: Setting, nonsense: bytes) -> None:
    setting.apns.answer = None
    task = setting.sending()
    await until(lambda: setting.apns.requests)
    setting.apns.connections[0].transport.write(nonsense)
    assert (await task).kind == "unknown"
    await until(setting.apns.connections[0].transport.is_closing)


async def test_only_servers_with_http2_are_spoken_to(setting: Setting) -> None:
    setting.tls.server.set_alpn_protocols(["http/1.1"])
    outcome = await setting.send()
    assert outcome == PushOutcome("refused", "the server does not speak HTTP/2")


async def test_a_server_that_is_down_was_not_sent_anything(setting: Setting) -> None:
    url = f"https://127.0.0.1:{unused_port()}"
    provider = ApnsProvider(setting.clock, LOOPBACK, url=url, tls=setting.tls.client)
    outcome = await provider.send(setting.credentials, TARGET, NOTICE)
    assert outcome == PushOutcome("not_sent", "no connection")


async def test_a_certificate_of_a_stranger_is_not_trusted(setting: Setting) -> None:
    provider = ApnsProvider(setting.clock, LOOPBACK, url=setting.apns.url)
    outcome = await provider.send(setting.credentials, TARGET, NOTICE)
    assert outcome == PushOutcome("refused", ssl.SSLCertVerificationError.__name__)


async def test_nothing_goes_to_an_address_that_is_not_public(setting: Setting) -> None:
    provider = ApnsProvider(setting.clock, (), url=setting.apns.url, tls=setting.tls.client)
    outcome = await provider.send(setting.credentials, TARGET, NOTICE)
    assert outcome == PushOutcome("refused", "the address is not public")
    assert setting.apns.connections == []


async def test_connecting_has_a_time_limit(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(http2_links, "_connected_socket", never)
    link = http2_links.Http2Link(setting.apns.url, LOOPBACK, setting.tls.client)
    with pytest.raises(NoAnswer) as failure:
        await link.post([], b"", 0.05)
    assert failure.value.outcome == PushOutcome("not_sent", "no connection in time")


# --- Credentials and registrations ---


def test_the_private_key_is_kept_and_not_shown(setting: Setting) -> None:
    assert setting.credentials == apns_credentials(sandbox=False)
    again = apns_credentials(topic="com.example.new")
    del again["private_key"]
    kept = setting.provider.accept_credentials(again, setting.credentials)
    assert kept == apns_credentials(topic="com.example.new", sandbox=False)
    assert setting.provider.shown(kept) == {**again, "sandbox": False}
    assert setting.provider.public(kept) == {}


def other_curve() -> str:
    key = ec.generate_private_key(ec.SECP384R1())
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"private_key": None}, "private_key"),
        ({"private_key": "secret"}, "private_key"),
        ({"private_key": other_curve()}, "private_key"),
        ({"key_id": "short"}, "key_id"),
        ({"team_id": None}, "team_id"),
        ({"topic": "com example"}, "topic"),
        ({"sandbox": "yes"}, "sandbox"),
        ({"password": "x"}, "password"),
    ],
)
def test_other_credentials_are_refused(setting: Setting, change: Any, name: str) -> None:
    with pytest.raises(Invalid) as refused:
        setting.provider.accept_credentials(apns_credentials(**change), None)
    assert refused.value.pointer == f"/apns/{name}"


def test_without_the_library_the_tenant_learns_it(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "find_spec", lambda _: None)
    with pytest.raises(ProviderMissing, match="h2 is not installed"):
        setting.provider.accept_credentials(apns_credentials(), None)


def test_registrations_are_checked(setting: Setting) -> None:
    body = {"provider": "apns", "token": "00aa", "app": "com.example"}
    target = setting.provider.accept_target(body)
    assert target == PushTarget(provider="apns", address="00aa", app="com.example")
    for wrong, pointer in (
        ({"token": "../x"}, "/token"),
        ({"token": None}, "/token"),
        ({"app": "a b"}, "/app"),
        ({"keys": {}}, "/keys"),
    ):
        with pytest.raises(Invalid) as refused:
            setting.provider.accept_target({**body, **wrong})
        assert refused.value.pointer == pointer

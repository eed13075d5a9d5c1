# SPDX-License-Identifier: Apache-2.0
"""A real server sends notices to push services that check everything, as the real ones do."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest_asyncio

from tests.support.apns_server import TOPIC, ApnsServer, apns_credentials, open_apns
from tests.support.fcm_server import FcmServer, fcm_error, open_fcm, service_account
from tests.support.people import Person, Town
from tests.support.push_tls import ServiceTls
from tests.support.server import ServerProcess
from tests.support.waiting import until
from tests.support.web_push_service import WebPushService, open_web_push_service


@dataclass
class Services:
    web: WebPushService
    fcm: FcmServer
    apns: ApnsServer
    town: Town
    ann: Person

    async def tenant(self, method: str, path: str, body: object) -> dict[str, Any]:
        """Send a request with the key of the tenant."""
        answer = await self.town.http.request(
            method,
            f"/v1/tenants/{self.town.tenant}/push{path}",
            json=body,
            headers={"Authorization": f"Bearer {await self.town.tenant_key()}"},
        )
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    async def register(self, device: str, **target: object) -> None:
        await self.ann.call("PUT", f"/v1/me/devices/{device}/push", target)

    async def test(self) -> dict[str, tuple[str, str]]:
        """Send a test notice; return outcome and reason for each device."""
        found = await self.tenant("POST", "/test", {"user_id": self.ann.user_id})
        return {one["device"]: (one["outcome"], one["reason"]) for one in found["data"]}


@pytest_asyncio.fixture
async def services(tmp_path: Path) -> AsyncIterator[Services]:
    tls = ServiceTls(tmp_path)
    async with (
        open_web_push_service(tls.server) as web,
        open_fcm() as fcm,
        open_apns(tls.another_server()) as apns,
    ):
        settings = {
            "SSL_CERT_FILE": str(tls.authority),
            "TIDINGS_OUTGOING_ALLOW": "127.0.0.1/32",
            "TIDINGS_FCM_URL": fcm.url,
            "TIDINGS_FCM_TOKEN_URL": fcm.token_url,
            "TIDINGS_APNS_URL": apns.url,
        }
        async with (
            ServerProcess(tmp_path / "data", environment=settings) as server,
            Town(server.url, server.root_key) as town,
        ):
            yield Services(web, fcm, apns, town, await town.user("ann"))


async def test_every_push_service_gets_a_notice(services: Services) -> None:
    shown = await services.tenant(
        "PUT",
        "",
        {
            "webpush": {"subject": "mailto:ops@example.com"},
            "fcm": {"service_account": service_account()},
            "apns": apns_credentials(),
        },
    )
    assert "PRIVATE KEY" not in str(shown)
    offered = await services.ann.call("GET", "/v1/push")
    assert offered["providers"] == ["webpush", "fcm", "apns"]
    assert offered["vapid_public_key"] == shown["webpush"]["public_key"]
    # What is shown can be put again: secrets stay as they are.
    assert await services.tenant("PUT", "", {name: shown[name] for name in offered["providers"]})

    await services.register(
        "browser", provider="webpush", subscription=services.web.subscribe("ann")
    )
    await services.register("android", provider="fcm", token="phone-1", app="chat")
    await services.register("iphone", provider="apns", token="00ff", app=TOPIC)
    sent = ("sent", "")
    assert await services.test() == {"browser": sent, "android": sent, "iphone": sent}

    [(_, message, headers)] = services.web.received
    assert message["kind"] == "test"
    assert headers["authorization"].endswith(f"k={offered['vapid_public_key']}")
    assert services.fcm.messages[0]["token"] == "phone-1"
    assert services.apns.requests[0].token == "00ff"


async def test_a_device_that_is_gone_is_removed(services: Services) -> None:
    accounts = {"fcm": {"service_account": service_account()}, "apns": apns_credentials()}
    await services.tenant("PUT", "", accounts)
    await services.register("android", provider="fcm", token="phone-1", app="chat")
    await services.register("iphone", provider="apns", token="00ff", app=TOPIC)
    services.fcm.error = fcm_error(404, "UNREGISTERED")
    services.apns.answer = 400, {}, {"reason": "BadDeviceToken"}
    assert await services.test() == {
        "android": ("gone", "UNREGISTERED"),
        "iphone": ("refused", "BadDeviceToken"),
    }
    assert list(await services.test()) == ["iphone"]


async def test_a_message_reaches_a_closed_browser_with_its_content(services: Services) -> None:
    await services.tenant("PUT", "", {"webpush": {}, "content": "preview"})
    subscription = services.web.subscribe("ann")
    await services.register("browser", provider="webpush", subscription=subscription)
    bob = await services.town.user("bob")
    chat = await bob.create_direct(services.ann)
    sent = await bob.send(chat, "Lunch at one?")

    _, message, headers = await until(lambda: next(iter(services.web.received), None))

    assert message["kind"] == "message"
    assert (message["title"], message["body"], message["badge"]) == ("bob", "Lunch at one?", 1)
    assert message["data"]["chat_id"] == chat
    assert message["data"]["sequence"] == str(sent["sequence"])
    assert int(headers["ttl"]) > 0

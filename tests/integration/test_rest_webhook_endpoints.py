# SPDX-License-Identifier: Apache-2.0
"""Which webhook endpoints a tenant may have, and the events that are in no chat's log."""

from typing import Any

import pytest

from tests.integration.engines import long_engine as long_engine
from tests.integration.inbox_world import to_everyone
from tests.integration.rest_world import Rest
from tests.integration.webhook_town import a_town
from tests.integration.webhook_town import receiver as receiver
from tests.integration.webhook_town import rest as rest
from tests.support.waiting import until
from tests.support.webhook_receiver import WebhookReceiver
from tidings.model import webhooks

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"url": "ftp://example.com", "events": ["message.created"]}, "/url"),
        ({"url": "https://example.com", "events": []}, "/events"),
        ({"url": "https://example.com", "events": ["message.lost"]}, "/events"),
        ({"url": "https://example.com", "events": ["message.created"] * 2}, "/events"),
    ],
)
async def test_malformed_endpoints(rest: Rest, body: dict[str, Any], pointer: str) -> None:
    backend = await rest.tenant("malformed")
    answer = await backend.call("PUT", "/v1/tenants/malformed/webhooks/main", body)
    assert answer.status_code == 400
    assert pointer in answer.text


async def test_how_many_endpoints_a_tenant_has(rest: Rest) -> None:
    backend = await rest.tenant("many")
    body = {"url": "https://example.com", "events": ["message.created"], "enabled": False}
    for number in range(webhooks.ENDPOINTS_MAX):
        await backend.ok("PUT", f"/v1/tenants/many/webhooks/w{number}", body)
    refused = await backend.refused("PUT", "/v1/tenants/many/webhooks/more", body)
    assert refused == (409, "limit.reached")
    assert (await backend.call("PUT", "/v1/tenants/many/webhooks/w0", body)).status_code == 200
    assert (await backend.refused("PUT", "/v1/tenants/many/webhooks/a.b", body))[0] == 400


async def test_an_internal_address_is_never_asked(rest: Rest) -> None:
    backend = await rest.tenant("inside")
    path = "/v1/tenants/inside/webhooks/main"
    for url in (
        "http://127.0.0.2/",
        "http://169.254.169.254/",
        "https://[::1]/",
        "http://10.0.0.1",
    ):
        await backend.ok("PUT", path, {"url": url, "events": ["message.created"]})
        made = await backend.ok("POST", f"{path}/test")
        assert (made["state"], made["status"]) == ("failed", None), url


async def test_what_is_in_no_log_comes_in_the_order_of_the_tenants_own_log(
    rest: Rest, receiver: WebhookReceiver
) -> None:
    town = await a_town(rest, "own", receiver)
    await town.put(
        "report.created", "session.revoked", "user.deleted", "notification.delivered",
        "notification.read", "receipt.read",
    )  # fmt: skip
    ann, bob = await town.users("ann", "bob")
    chat = await ann.group("bob")
    await bob.send(chat, "m1")
    report = {"reason": "spam"}
    made = await ann.ok("POST", f"/v1/chats/{chat}/messages/2/report", report)
    tenant = f"/v1/tenants/{town.tenant}"
    await town.backend.ok("DELETE", f"{tenant}/users/bob/sessions")
    await town.backend.ok("PUT", f"{tenant}/inboxes/news", {"title": "News"})
    posted = await town.backend.ok(
        "POST", f"{tenant}/inboxes/news/notifications", to_everyone("Hello")
    )
    await ann.ok("PUT", f"/v1/chats/{chat}/receipt", {"read": 2})
    await rest.core.tenant_events(town.tenant, "notification.acted", {"id": "unwanted"})
    await until(lambda: len(receiver.taken) >= 3)
    assert [(one.type, one.data.get("report_id")) for one in receiver.taken[:3]] == [
        ("report.created", made["report_id"]),
        ("session.revoked", None),
        ("notification.delivered", None),
    ]
    assert receiver.taken[1].data == {"user_id": "bob", "session_id": None}
    assert receiver.taken[2].data["notification_id"] == posted["id"]
    assert {one.place[0] for one in receiver.taken} == {"events"}

# SPDX-License-Identifier: Apache-2.0
"""What a tenant's requests about its webhook endpoints look like."""

import json
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from clients.python.tests.test_api import Hurry
from tidings_client import TenantApi, Unavailable

AT = "2026-11-17T02:00:00.000Z"
ENDPOINT = {
    "webhook_id": "main",
    "url": "https://example.com/hook",
    "events": ["message.created"],
    "enabled": True,
    "disabled_by": None,
    "disabled_at": None,
    "failing_since": None,
    "previous_secret_until": None,
    "created_at": AT,
    "updated_at": AT,
    "secret": "whsec_x",
}
ATTEMPT = {"delivery_id": "c.2", "state": "failed", "status": None, "reason": "no answer in time"}
DELIVERY = {
    "delivery_id": "c.2",
    "state": "failed",
    "chat_id": "c",
    "sequence": 2,
    "type": "message.created",
    "status": 422,
    "attempts": 10,
    "failed_at": AT,
    "events_waiting": None,
}
PATH = "/v1/tenants/acme/webhooks"


async def test_what_returns_a_secret_only_once_is_not_repeated() -> None:
    asked: list[str] = []

    def lost(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.path)
        raise httpx.ReadError("the answer was lost")

    transport = httpx.MockTransport(lost)
    async with TenantApi("http://server", "acme", "k", world=Hurry(), transport=transport) as api:
        with pytest.raises(Unavailable):
            await api.webhooks.put("main", "https://example.com/hook", ["message.created"])
        with pytest.raises(Unavailable):
            await api.set_push(webhook={"url": "https://example.com/push"})
    assert asked == [f"{PATH}/main", "/v1/tenants/acme/push"]


async def test_every_request_about_endpoints() -> None:
    asked: list[tuple[str, str, object]] = []
    answers = iter(
        [ENDPOINT, ENDPOINT, {"data": [ENDPOINT], "next_cursor": None}, None, ENDPOINT,
         {"data": [DELIVERY], "next_cursor": None}, ATTEMPT, {"job": "j"}, ATTEMPT]
    )  # fmt: skip

    def answer(request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content) if request.content else None
        asked.append((request.method, request.url.raw_path.decode(), body))
        told = next(answers)
        return httpx.Response(204) if told is None else httpx.Response(200, json=told)

    transport = httpx.MockTransport(answer)
    async with TenantApi("http://server", "acme", "k", world=Hurry(), transport=transport) as api:
        made = await api.webhooks.put("main", "https://example.com/hook", ["message.created"])
        assert made.secret == "whsec_x"
        assert (await api.webhooks.get("main")).created_at == datetime(2026, 11, 17, 2, tzinfo=UTC)
        assert [one.webhook_id for one in await api.webhooks.list()] == ["main"]
        await api.webhooks.delete("main")
        await api.webhooks.rotate_secret("main")
        page = await api.webhooks.deliveries("main", "failed")
        assert [one.status for one in page.data] == [422]
        assert (await api.webhooks.replay("main", "c.2")).state == "failed"
        day = datetime(2026, 11, 17, tzinfo=UTC)
        assert await api.webhooks.replay_period("main", day, day) == "j"
        assert (await api.webhooks.test("main")).reason == "no answer in time"
    made_body = {
        "url": "https://example.com/hook",
        "events": ["message.created"],
        "enabled": True,
        "resume": "place",
    }
    time = "2026-11-17T00:00:00+00:00"
    assert asked == [
        ("PUT", f"{PATH}/main", made_body),
        ("GET", f"{PATH}/main", None),
        ("GET", PATH, None),
        ("DELETE", f"{PATH}/main", None),
        ("POST", f"{PATH}/main/secret", None),
        ("GET", f"{PATH}/main/deliveries?limit=50&state=failed", None),
        ("POST", f"{PATH}/main/deliveries/c.2/replay", None),
        ("POST", f"{PATH}/main/replay", {"from": time, "to": time}),
        ("POST", f"{PATH}/main/test", None),
    ]


async def test_events_are_pulled_and_confirmed() -> None:
    asked: list[Any] = []
    event = {
        "delivery_id": "c.2",
        "type": "message.created",
        "timestamp": "2026-11-17T02:00:00.000Z",
        "data": {"content": "hello"},
    }

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append((request.method, request.url.path, json.loads(request.content)))
        return httpx.Response(200, json={"data": [event] if len(asked) == 1 else []})

    transport = httpx.MockTransport(answer)
    async with TenantApi("http://server", "acme", "k", world=Hurry(), transport=transport) as api:
        (pulled,) = await api.webhooks.pull("dev")
        assert (pulled.delivery_id, pulled.data) == ("c.2", {"content": "hello"})
        assert list(await api.webhooks.pull("dev", [pulled.delivery_id])) == []
    path = f"{PATH}/dev/pull"
    assert asked == [("POST", path, {"done": []}), ("POST", path, {"done": ["c.2"]})]

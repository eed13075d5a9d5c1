# SPDX-License-Identifier: Apache-2.0
"""Events of an endpoint without an address: pulled in order, again and again until confirmed."""

from typing import Any

import pytest

from tests.integration.engines import long_engine as long_engine
from tests.integration.rest_world import Actor, Rest
from tests.integration.webhook_town import rest as rest
from tests.support.waiting import until
from tidings.model.webhooks import BACK_OFF_MS_MAX, TAKES_NOTHING_MS

pytestmark = pytest.mark.asyncio(loop_scope="module")

MESSAGES = ["message.created", "message.edited"]


async def pulled(backend: Actor, webhook: str, *done: str) -> list[dict[str, Any]]:
    path = f"/v1/tenants/acme/webhooks/{webhook}/pull"
    return list((await backend.ok("POST", path, {"done": list(done)}))["data"])


async def waited(backend: Actor, webhook: str, count: int) -> list[dict[str, Any]]:
    """The next events, once there are so many: a worker may find them a moment later."""
    found: list[dict[str, Any]] = []

    async def are_there() -> bool:
        found[:] = await pulled(backend, webhook)
        return len(found) >= count

    await until(are_there)
    return found


async def test_events_are_pulled_until_they_are_confirmed(rest: Rest) -> None:
    backend = await rest.tenant()
    ann, *_ = await rest.users("pl-ann", "pl-ben")
    body = {"url": None, "events": MESSAGES}
    made = await backend.ok("PUT", "/v1/tenants/acme/webhooks/dev", body)
    assert made["url"] is None and made["secret"].startswith("whsec_")
    chat = await ann.group("pl-ben")
    for number in (2, 3):
        await ann.send(chat, f"m{number}", f"text {number}")
    await ann.ok("PUT", f"/v1/chats/{chat}/messages/2/reactions/%E2%9B%B5")
    await ann.ok("PATCH", f"/v1/chats/{chat}/messages/3", {"content": "changed"})
    events = await waited(backend, "dev", 3)

    ids = [f"{chat}.{sequence}" for sequence in (2, 3, 5)]
    assert [one["delivery_id"] for one in events] == ids
    assert [one["type"] for one in events] == [*MESSAGES[:1] * 2, MESSAGES[1]]
    assert [one["data"].get("content") for one in events[:2]] == ["text 2", "changed"]
    assert await pulled(backend, "dev") == events, "nothing is confirmed yet"
    assert await pulled(backend, "dev", ids[0]) == events[1:]
    assert await pulled(backend, "dev", *ids) == []
    await ann.ok("DELETE", f"/v1/chats/{chat}/messages/2")
    await ann.send(chat, "m4", "text 7")
    (event,) = await waited(backend, "dev", 1)
    assert event["delivery_id"] == f"{chat}.7", "the endpoint does not get redactions"


async def test_what_was_redacted_meanwhile_is_not_pulled(rest: Rest) -> None:
    backend = await rest.tenant()
    cid, *_ = await rest.users("pl-cid", "pl-dot")
    await backend.ok("PUT", "/v1/tenants/acme/webhooks/red", {"url": None, "events": MESSAGES})
    chat = await cid.group("pl-dot")
    await cid.send(chat, "m1", "secret")
    await cid.ok("DELETE", f"/v1/chats/{chat}/messages/2")
    (event,) = await waited(backend, "red", 1)
    assert "content" not in event["data"] and event["data"]["redacted"] is True


async def test_an_endpoint_that_nobody_pulls_is_disabled(rest: Rest) -> None:
    backend = await rest.tenant()
    eve, *_ = await rest.users("pl-eve", "pl-fay")
    path = "/v1/tenants/acme/webhooks/left"
    await backend.ok("PUT", path, {"url": None, "events": MESSAGES})
    await eve.send(await eve.group("pl-fay"), "m1", "hello")
    couriers = rest.core.webhook_delivery.couriers

    async def shown(name: str) -> Any:
        return (await backend.ok("GET", path))[name]

    async def later(ms: int) -> None:
        rest.clock.time += ms
        couriers.wake(("acme", "left"))

    async def waits() -> bool:
        return await shown("failing_since") is not None

    await until(waits)
    await pulled(backend, "left")
    assert not await waits(), "somebody pulls"
    await later(BACK_OFF_MS_MAX)
    await until(waits)
    await later(TAKES_NOTHING_MS)

    async def is_disabled() -> bool:
        return bool(await shown("disabled_by") == "failing")

    await until(is_disabled)
    tried = await backend.ok("POST", f"{path}/test")
    assert (tried["state"], tried["reason"]) == ("failed", "its events are pulled")


async def test_only_endpoints_without_an_address_are_pulled(rest: Rest) -> None:
    backend = await rest.tenant()
    body = {"url": "https://example.com/hook", "events": MESSAGES}
    await backend.ok("PUT", "/v1/tenants/acme/webhooks/posted", body)
    path = "/v1/tenants/acme/webhooks/{}/pull"
    assert await backend.refused("POST", path.format("posted"), {}) == (400, "request.invalid")
    assert await backend.refused("POST", path.format("no"), {}) == (404, "webhook.not_found")
    await backend.ok("PUT", "/v1/tenants/acme/webhooks/dev", {"url": None, "events": MESSAGES})
    for done in (["x"], ["events.0"], ["a" * 26 + ".1"], ["events.1"] * 51):
        refused = await backend.refused("POST", path.format("dev"), {"done": done})
        assert refused == (400, "request.invalid")
    empty = {"url": "", "events": MESSAGES}
    refused = await backend.refused("PUT", "/v1/tenants/acme/webhooks/dev", empty)
    assert refused == (400, "request.invalid")

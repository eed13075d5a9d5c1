# SPDX-License-Identifier: Apache-2.0
"""Events of an endpoint without an address: pulled in order, again and again until confirmed."""

from typing import Any

import pytest

from tests.integration.engines import engine as engine
from tests.integration.rest_world import Actor, Rest
from tidings.model.webhooks import OwedStream

pytestmark = pytest.mark.asyncio(loop_scope="module")

MESSAGES = ["message.created", "message.edited"]


async def owed(rest: Rest, webhook: str, chat: str, head: int, sent: int = 1) -> None:
    """Have the entries of a chat owed to an endpoint, as a worker does where the log does not."""
    queue = rest.core.store.webhook_queue
    if not queue.is_fed_by_log:
        found = await rest.core.store.webhooks.of("acme")
        (place,) = [one.place for one in found if one.webhook_id == webhook]
        await queue.owe(place, OwedStream(chat, sent, head))


async def pulled(backend: Actor, webhook: str, *done: str) -> list[dict[str, Any]]:
    path = f"/v1/tenants/acme/webhooks/{webhook}/pull"
    return list((await backend.ok("POST", path, {"done": list(done)}))["data"])


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
    await owed(rest, "dev", chat, 5)

    events = await pulled(backend, "dev")

    ids = [f"{chat}.{sequence}" for sequence in (2, 3, 5)]
    assert [one["delivery_id"] for one in events] == ids
    assert [one["type"] for one in events] == [*MESSAGES[:1] * 2, MESSAGES[1]]
    assert [one["data"].get("content") for one in events[:2]] == ["text 2", "changed"]
    assert await pulled(backend, "dev") == events, "nothing is confirmed yet"
    assert await pulled(backend, "dev", ids[0]) == events[1:]
    assert await pulled(backend, "dev", *ids) == []
    await ann.ok("DELETE", f"/v1/chats/{chat}/messages/2")
    await owed(rest, "dev", chat, 6, sent=5)
    assert await pulled(backend, "dev") == [], "the endpoint does not get such events"


async def test_what_was_redacted_meanwhile_is_not_pulled(rest: Rest) -> None:
    backend = await rest.tenant()
    cid, *_ = await rest.users("pl-cid", "pl-dot")
    await backend.ok("PUT", "/v1/tenants/acme/webhooks/red", {"url": None, "events": MESSAGES})
    chat = await cid.group("pl-dot")
    await cid.send(chat, "m1", "secret")
    await cid.ok("DELETE", f"/v1/chats/{chat}/messages/2")
    await owed(rest, "red", chat, 3)
    (event,) = await pulled(backend, "red")
    assert "content" not in event["data"] and event["data"]["redacted"] is True


async def test_who_pulls_keeps_the_endpoint_alive(rest: Rest) -> None:
    backend = await rest.tenant()
    await backend.ok("PUT", "/v1/tenants/acme/webhooks/live", {"url": None, "events": MESSAGES})
    store = rest.core.store.webhooks
    (endpoint,) = [one for one in await store.of("acme") if one.webhook_id == "live"]
    failing = type(endpoint)(
        **{name: getattr(endpoint, name) for name in endpoint.__struct_fields__}
        | {"failing_since": rest.clock.now()}
    )
    assert await store.change(endpoint, failing)
    await pulled(backend, "live")
    assert (await backend.ok("GET", "/v1/tenants/acme/webhooks/live"))["failing_since"] is None
    tried = await backend.ok("POST", "/v1/tenants/acme/webhooks/live/test")
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

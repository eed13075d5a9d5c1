# SPDX-License-Identifier: Apache-2.0
"""The event `notification.read`: every way to read raises it, and nothing else does."""

import pytest

from tests.integration.engines import engine as engine
from tests.integration.inbox_world import delivering as delivering
from tests.integration.inbox_world import open_newsroom
from tests.integration.rest_world import Json, Rest
from tidings.assembly.system import wait_patiently
from tidings.delivery.webhook_events import BusEvents
from tidings.model.ids import rfc3339

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def raised(rest: Rest, events: BusEvents, tenant: str) -> list[str]:
    """The users of whose reading the tenant learns, once everything gathered is raised."""
    await events.raise_all()
    found, after = [], 0
    while (event := await rest.core.store.tenant_events.after(tenant, after)) is not None:
        assert event.type == "notification.read"
        found.append(str(event.data["user_id"]))
        after = event.sequence
    return found


async def test_every_way_to_read_raises_it_and_preferences_do_not(rest: Rest) -> None:
    news = await open_newsroom(rest, "read-events", "readers")
    hook = {"url": "https://acme.example/hook", "events": ["notification.read"]}
    await news.actor.call("PUT", "/v1/tenants/readers/webhooks/w1", hook)
    events = BusEvents(rest.core.tenant_events, rest.core.store.log, rest.clock, wait_patiently)
    events.listen(rest.core.bus)
    action = {"id": "ok", "label": "OK"}
    asked = await news.tell_everyone("asked", actions=[action])
    path = "/v1/inboxes/read-events"
    now = rfc3339(rest.clock.time)

    quiet = {"quiet_hours": {"from": "22:00", "to": "07:00", "timezone": "Europe/Berlin"}}
    ways: dict[str, tuple[str, str, Json | None]] = {
        "ids": ("PUT", f"{path}/state", {"ids": [asked], "read": True}),
        "before": ("PUT", f"{path}/state", {"before": now, "read": True}),
        "acts": ("POST", f"{path}/notifications/{asked}/actions/ok", None),
        "old": ("PUT", f"{path}/read", {"ids": [asked]}),
        "prefers": ("PUT", f"{path}/preferences", quiet),
        "archives": ("PUT", f"{path}/state", {"ids": [asked], "archived": True}),
        "unreads": ("PUT", f"{path}/state", {"ids": [asked], "read": False}),
    }
    for name, (method, url, body) in ways.items():
        await (await news.user(name)).actor.ok(method, url, body)
    assert await raised(rest, events, "readers") == ["ids", "before", "acts", "old"]

# SPDX-License-Identifier: Apache-2.0
"""Tenants with a webhook endpoint, over a real store, and a receiver; time moves by hand.

For suites: `from tests.integration.webhook_town import receiver as receiver, rest as rest`.
"""

import ipaddress
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
import pytest_asyncio

from tests.integration.rest_world import Actor, Rest, open_rest
from tests.support.engine import Settings
from tests.support.waiting import until
from tests.support.webhook_receiver import WebhookReceiver, open_receiver
from tidings.assembly.delivery import run_webhooks
from tidings.model.webhooks import BACK_OFF_MS_MAX, EVENT_TYPES


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rest(
    tmp_path_factory: pytest.TempPathFactory, core_settings: Settings
) -> AsyncIterator[Rest]:
    allowed = {"outgoing_allow": (ipaddress.ip_network("127.0.0.1"),)}
    folder = tmp_path_factory.mktemp("rest")
    async with (
        open_rest(folder, settings={**core_settings, **allowed}) as opened,
        AsyncExitStack() as stack,
    ):
        await run_webhooks(opened.core, None, stack)
        yield opened


@pytest_asyncio.fixture(loop_scope="module")
async def receiver() -> AsyncIterator[WebhookReceiver]:
    async with open_receiver() as opened:
        yield opened


class Town:
    """A tenant with one endpoint."""

    def __init__(self, rest: Rest, tenant: str, backend: Actor, receiver: WebhookReceiver) -> None:
        self.rest = rest
        self.tenant = tenant
        self.backend = backend
        self.receiver = receiver

    def path(self, more: str = "") -> str:
        return f"/v1/tenants/{self.tenant}/webhooks/main{more}"

    async def put(self, *events: str, **more: Any) -> dict[str, Any]:
        body = {"url": self.receiver.url, "events": list(events or EVENT_TYPES), **more}
        made: dict[str, Any] = await self.backend.ok("PUT", self.path(), body)
        self.receiver.secret = made.get("secret", self.receiver.secret)
        return made

    async def get(self) -> dict[str, Any]:
        found: dict[str, Any] = await self.backend.ok("GET", self.path())
        return found

    async def users(self, *names: str) -> list[Actor]:
        return [await self.rest.user(name, self.tenant) for name in names]

    async def later(self, ms: int) -> None:
        """Let time pass, and look at the endpoint."""
        self.rest.clock.time += ms
        self.rest.core.webhook_delivery.couriers.wake((self.tenant, "main"))

    async def got(self, *places: tuple[str, int]) -> None:
        """Wait until the receiver took these events."""
        await until(lambda: set(places) <= {one.place for one in self.receiver.taken})

    async def got_later(self, *places: tuple[str, int]) -> None:
        """Let time pass until the receiver took these events. The courier notes a failure at a time
        of its own, and waits from then on."""

        async def took_all() -> bool:
            await self.later(BACK_OFF_MS_MAX)
            return set(places) <= {one.place for one in self.receiver.taken}

        await until(took_all)

    async def deliveries(self, state: str = "") -> list[dict[str, Any]]:
        query = f"?state={state}" if state else ""
        found = await self.backend.ok("GET", self.path(f"/deliveries{query}"))
        listed: list[dict[str, Any]] = found["data"]
        return listed


async def a_town(rest: Rest, tenant: str, receiver: WebhookReceiver) -> Town:
    return Town(rest, tenant, await rest.tenant(tenant), receiver)

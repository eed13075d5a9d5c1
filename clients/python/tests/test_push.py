# SPDX-License-Identifier: Apache-2.0
"""Push through the client: the settings of a tenant, and the devices of a user."""

import pytest

from clients.python.tests.test_client import a_client
from tests.support.people import Town
from tidings_client import Refused, TenantApi

WEBHOOK = {"url": "https://push.example/notices", "secret": "a secret of twenty-four or more"}


async def test_a_tenant_sets_push_up_and_devices_register(town: Town) -> None:
    async with TenantApi(town.url, town.tenant, await town.tenant_key()) as tenant:
        made = await tenant.set_push(content="preview", webhook=WEBHOOK)
        assert (made.content, made.webhook, made.fcm) == ("preview", {"url": WEBHOOK["url"]}, None)
        assert await tenant.push_settings() == made
        await tenant.set_push()
        async with a_client(town) as client:
            found = await client.api.push()
            assert (found.providers, found.vapid_public_key) == ([], None)
            with pytest.raises(Refused, match=r"push\.off"):
                await client.api.register_push("phone", "fcm", token="t", app="news")
            await client.api.end_push("phone")
        assert await tenant.test_push("alice") == []

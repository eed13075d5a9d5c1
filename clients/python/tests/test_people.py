# SPDX-License-Identifier: Apache-2.0
"""What an operator and a backend do first and last, on a real server: tenants, users, tokens."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.support.people import Town
from tests.support.waiting import until
from tidings_client import Client, Quotas, Refused, RootApi, TenantApi, UserChange


async def test_a_tenant_from_its_creation_to_its_end(town: Town) -> None:
    name = f"{town.tenant}-shop"
    async with RootApi(town.url, town.root_key) as root:
        made = await root.put_tenant(name, name="Shop", quotas=Quotas(users=5))
        assert (made.name, made.quotas) == ("Shop", Quotas(users=5))
        assert (await root.tenants(limit=1)).data == [made]
        key = await root.create_key(name)
        async with TenantApi(town.url, name, key.key) as shop:
            assert (await shop.users()).data == []
            assert (await root.put_tenant(name, suspended=True)).suspended_at is not None
            assert (await root.put_tenant(name, suspended=False)).quotas == Quotas(users=5)
            await root.revoke_key(name, key.key_id)
            with pytest.raises(Refused, match=r"auth\.required"):
                await shop.users()
        job = await root.delete_tenant(name)
        assert (job.kind, (await root.delete_tenant(name)).job) == ("tenant.delete", job.job)
        async with TenantApi(town.url, name, town.root_key) as shop:

            async def state() -> str:
                return (await shop.job(job.job)).state

            await until(state, equals="done")
        assert name not in [one.tenant for one in (await root.tenants(limit=100)).data]


async def test_users_are_made_changed_let_in_and_out(town: Town) -> None:
    async with TenantApi(town.url, town.tenant, await town.tenant_key()) as tenant:
        change = UserChange(display_name="Ann", email="ann@example.org", metadata={"team": "red"})
        ann = await tenant.put_user("ann", change)
        assert (ann.display_name, ann.email, ann.metadata) == (
            "Ann", "ann@example.org", {"team": "red"},
        )  # fmt: skip
        changed = await tenant.put_user("ann", UserChange(email=None))
        assert (changed.display_name, changed.email) == ("Ann", None)
        assert changed == await tenant.user("ann")
        until_then = datetime.now(UTC) + timedelta(hours=1)
        banned = await tenant.put_user("ann", UserChange(banned_until=until_then))
        assert banned.banned_until is not None
        await tenant.put_user("ann", UserChange(banned_until=None))

        token = await tenant.token("ann", device="laptop", expires_in=60)
        assert token.expires_at < datetime.now(UTC) + timedelta(seconds=90)
        async with Client(town.url, token=lambda: token.token) as client:
            chat = await client.api.create_group("Alone", [])
            await client.send(chat.chat_id, "to be erased")
            assert await tenant.erase_content("ann") == 1
            assert (await client.api.message(chat.chat_id, 2)).erased
            await tenant.end_sessions("ann")

            async def is_out() -> bool:
                try:
                    await client.api.me()
                except Refused as refusal:
                    return refusal.code == "auth.required"
                return False

            await until(is_out)

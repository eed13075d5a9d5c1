# SPDX-License-Identifier: Apache-2.0
"""What tenants say about their inboxes, and how many users they have."""

import asyncio

from tests.contract.engines import Engine, Store
from tests.support.clock import NOW
from tests.support.users import some_users
from tests.support.waiting import until
from tidings.model.ids import user_key
from tidings.model.notifications import InboxConfig

WHOLE = InboxConfig(
    title="Newsletter 🌻",
    description="What is new",
    schema_version="2.1",
    categories=("offers", "a.b@c+d-e_f"),
    late_joiners=False,
    keep_days=30,
    message_schema={"type": "object", "properties": {"n": {"type": "integer"}}, "x": [1, None]},
)


# Settings.


async def test_a_tenant_that_never_said_any_has_none(store: Store) -> None:
    assert await store.inbox_settings.settings("acme") is None


async def test_settings_are_kept_as_they_were_said(store: Store) -> None:
    said: dict[str, object] = {
        "b": {"deep": [1, -2.5, None, True, "", {"": "ü\u0000"}]},
        "a": 2**64,
        "inbox": {"keep_days": 3, "late_joiners": False},
    }
    await store.inbox_settings.put_settings("acme", said)

    found = await store.inbox_settings.settings("acme")
    assert found == said
    assert list(found) == ["b", "a", "inbox"]


async def test_settings_are_replaced_as_a_whole(store: Store) -> None:
    await store.inbox_settings.put_settings("acme", {"a": 1, "b": 2})
    await store.inbox_settings.put_settings("acme-2", {"a": 5})
    await store.inbox_settings.put_settings("acme", {"b": 3})
    assert await store.inbox_settings.settings("acme") == {"b": 3}

    await store.inbox_settings.put_settings("acme", {})
    assert await store.inbox_settings.settings("acme") == {}
    assert await store.inbox_settings.settings("acme-2") == {"a": 5}


async def test_settings_of_the_largest_size_are_kept(store: Store) -> None:
    said: dict[str, object] = {"text": "x" * 16_000}
    await store.inbox_settings.put_settings("acme", said)
    assert await store.inbox_settings.settings("acme") == said


# Inboxes.


async def test_an_inbox_is_made_then_replaced(store: Store) -> None:
    assert await store.inbox_settings.config("acme", "news") is None
    assert await store.inbox_settings.put_config("acme", "news", WHOLE)
    assert await store.inbox_settings.config("acme", "news") == WHOLE

    assert not await store.inbox_settings.put_config("acme", "news", InboxConfig(title="Plain"))
    assert await store.inbox_settings.config("acme", "news") == InboxConfig(title="Plain")


async def test_no_categories_at_all_is_not_any_category(store: Store) -> None:
    await store.inbox_settings.put_config("acme", "news", InboxConfig(title="", categories=()))
    found = await store.inbox_settings.config("acme", "news")
    assert found is not None and found.categories == ()


async def test_inboxes_of_other_names_and_tenants_are_others(store: Store) -> None:
    places = [("acme", "news"), ("acme", "news.2"), ("acme", "News"), ("acme-2", "news")]
    for tenant, inbox in places:
        config = InboxConfig(title=f"{tenant} {inbox}")
        assert await store.inbox_settings.put_config(tenant, inbox, config)
    for tenant, inbox in places:
        found = await store.inbox_settings.config(tenant, inbox)
        assert found == InboxConfig(title=f"{tenant} {inbox}")
    assert await store.inbox_settings.settings("acme") is None


async def test_of_many_who_make_an_inbox_one_does(store: Store) -> None:
    made = await asyncio.gather(
        *(store.inbox_settings.put_config("acme", "news", WHOLE) for _ in range(5))
    )
    assert sorted(made) == [False, False, False, False, True]


async def test_settings_and_inboxes_are_there_after_a_restart(engine: Engine) -> None:
    async with engine.open() as store:
        await store.inbox_settings.put_settings("acme", {"a": 1})
        await store.inbox_settings.put_config("acme", "news", WHOLE)
    async with engine.open() as store:
        assert await store.inbox_settings.settings("acme") == {"a": 1}
        assert await store.inbox_settings.config("acme", "news") == WHOLE


# How many users.


async def count_soon(store: Store, tenant: str, count: int) -> None:
    """It is off for a moment, perhaps; with nobody in the way it comes right."""
    await until(lambda: store.users.about_how_many(tenant), equals=count)


async def test_users_are_counted_once_and_for_their_tenant(engine: Engine) -> None:
    async with engine.open() as store:
        assert await store.users.about_how_many("acme") == 0
        for user in some_users(12):
            await store.users.put(user, display_name=None, phone_number=None, now=NOW)
            await store.users.put(user, display_name="again", phone_number=None, now=NOW + 1)
        for tenant in ("acm", "acme-2", "acme-2"):
            other = user_key(tenant, "u1")
            await store.users.put(other, display_name=None, phone_number=None, now=NOW)
        await count_soon(store, "acme", 12)
        await count_soon(store, "acme-2", 1)
    async with engine.open() as store:
        assert await store.users.about_how_many("acme") == 12
        assert await store.users.about_how_many("acme2") == 0

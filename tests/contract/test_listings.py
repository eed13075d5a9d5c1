# SPDX-License-Identifier: Apache-2.0
"""Lists of what a deployment has: complete, in order, page by page."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec

from tests.contract.builders import a_chat, added, append, deleted, renamed
from tests.contract.engines import Engine, Store
from tests.contract.inbox_builders import a_claim, a_notification
from tests.contract.test_deletions import stepped
from tests.contract.test_people import a_signing_key, an_api_key
from tests.support.clock import NOW
from tests.support.users import ANN, BOB, CAT, DAN
from tidings.model.chats import TenantChat
from tidings.model.entries import Phase
from tidings.model.ids import ChatId, UserKey, user_id, user_key
from tidings.model.notifications import InboxConfig, Notification
from tidings.ports.people import Listed, Tenant

T = TypeVar("T")


async def walk(read: Callable[[str | None], Awaitable[Listed[T]]]) -> list[list[T]]:
    """All pages, from the first to the last."""
    pages, position = [], None
    while True:
        page = await read(position)
        pages.append(page.rows)
        position = page.end
        if position is None:
            return pages


async def make_tenant(store: Store, name: str, created_at: int = NOW) -> Tenant:
    tenant = Tenant(tenant=name, name=None, created_at=created_at)
    signing = msgspec.structs.replace(a_signing_key(f"s-{name}", created_at), tenant=name)
    await store.tenants.put(tenant, signing)
    return tenant


async def make_users(store: Store, *users: UserKey) -> None:
    for user in users:
        await store.users.put(user, display_name=None, phone_number=None, now=NOW)


async def names_of(store: Store, tenant: str, prefix: str = "", limit: int = 100) -> list[str]:
    pages = await walk(
        lambda after: store.users.by_id(tenant, prefix=prefix, after=after, limit=limit)
    )
    return [user_id(user.user) for page in pages for user in page]


# Tenants and keys.


async def test_tenants_are_listed_newest_first(store: Store) -> None:
    assert (await store.tenants.newest(below=None, limit=2)) == Listed([])
    created = {"old": NOW, "b": NOW + 2, "a": NOW + 2, "new": NOW + 3}
    made = {name: await make_tenant(store, name, at) for name, at in created.items()}

    pages = await walk(lambda below: store.tenants.newest(below=below, limit=2))

    assert pages == [[made["new"], made["b"]], [made["a"], made["old"]]]


async def test_a_tenant_is_listed_as_it_is_now(store: Store) -> None:
    await make_tenant(store, "acme")
    await store.tenants.put(
        Tenant(tenant="acme", name="Acme", created_at=NOW + 5), a_signing_key("s2")
    )
    suspended = await store.tenants.set_suspended("acme", True, NOW + 6)

    page = await store.tenants.newest(below=None, limit=10)

    assert page == Listed([suspended])


async def test_the_keys_of_a_tenant_are_listed_newest_first(store: Store) -> None:
    for tenant in ("acme", "acme-2"):
        await make_tenant(store, tenant)
    keys = [
        msgspec.structs.replace(an_api_key(f"key-{number}"), created_at=NOW + number)
        for number in range(5)
    ]
    for key in keys:
        await store.tenants.add_key(key)
    await store.tenants.add_key(an_api_key("key-9", "acme-2"))
    await store.tenants.revoke_key("acme", "key-2", NOW + 9)
    keys[2] = msgspec.structs.replace(keys[2], revoked_at=NOW + 9)

    pages = await walk(lambda below: store.tenants.newest_keys("acme", below=below, limit=2))

    assert pages == [[keys[4], keys[3]], [keys[2], keys[1]], [keys[0]]]
    assert await store.tenants.newest_keys("acme-3", below=None, limit=2) == Listed([])


# Users.


async def test_users_are_listed_by_id(store: Store) -> None:
    names = ["bob", "bob+1", "bob-2", "bobby", "Zoe", "+x", "al", "z_", "0"]
    await make_users(store, *(user_key("acme", name) for name in names))
    await make_users(store, user_key("acme-2", "bob"), user_key("acm", "bob"))

    assert await names_of(store, "acme") == sorted(names)
    for limit in (1, 3, 9):
        assert await names_of(store, "acme", limit=limit) == sorted(names)
    assert await names_of(store, "acme", "bob") == ["bob", "bob+1", "bob-2", "bobby"]
    assert await names_of(store, "acme", "bob", limit=1) == ["bob", "bob+1", "bob-2", "bobby"]
    assert await names_of(store, "acme", "bobby") == ["bobby"]
    assert await names_of(store, "acme", "c") == []
    assert await names_of(store, "nobody") == []


async def test_a_user_is_listed_with_the_profile_however_it_was_made(store: Store) -> None:
    named, _ = await store.users.put(ANN, display_name="Ann", phone_number=None, now=NOW)
    numbered, _ = await store.users.put(
        user_key("acme", "num"), display_name=None, phone_number="+491", now=NOW
    )
    logged_in, _ = await store.users.with_phone(user_key("acme", "phone"), "+492", NOW)

    page = await store.users.by_id("acme", prefix="", after=None, limit=10)

    expected = sorted([named, numbered, logged_in], key=lambda user: user.user)
    assert page == Listed(expected)


# Chats.


async def chats_of(store: Store, user: UserKey | None, limit: int) -> list[ChatId]:
    """The ids of a tenant's or of a user's chats, page by page."""
    pages = await walk(
        lambda below: (
            store.chats.of_tenant("acme", below=below, limit=limit)
            if user is None
            else store.chats.of_user(user, below=below, limit=limit)
        )
    )
    return [chat.chat_id for page in pages for chat in page]


async def test_the_chats_of_a_tenant_and_of_a_user_are_listed_newest_first(store: Store) -> None:
    first = await a_chat(store, ANN, BOB)
    second = await a_chat(store, ANN, CAT)
    third = await a_chat(store, BOB, CAT)
    await append(store, second, renamed("New name"))
    newest_first = [third.chat_id, second.chat_id, first.chat_id]

    for limit in (1, 2, 3):
        assert await chats_of(store, None, limit) == newest_first
        assert await chats_of(store, ANN, limit) == newest_first[1:]
    assert await store.chats.of_tenant("other", below=None, limit=9) == Listed([])
    assert await store.chats.of_user(DAN, below=None, limit=9) == Listed([])


async def test_a_chat_is_listed_as_it_is_now(store: Store) -> None:
    state = await a_chat(store, ANN, BOB)
    await append(store, state, renamed("New name"))
    await append(store, state, added(CAT))

    page = await store.chats.of_tenant("acme", below=None, limit=9)

    assert page == Listed(
        [
            TenantChat(
                chat_id=state.chat_id,
                tenant="acme",
                type="group",
                name="New name",
                creator=ANN,
                created_at=NOW,
                member_count=3,
            )
        ]
    )
    assert await store.chats.of_user(CAT, below=None, limit=9) == page


async def test_a_chat_that_ended_is_not_listed(store: Store) -> None:
    stays, goes = await a_chat(store), await a_chat(store)
    await append(store, goes, deleted())
    phases: tuple[Phase, ...] = ("started", "members_removed", "done")
    for phase in phases:
        await stepped(store, goes.chat_id, phase)
        page = await store.chats.of_tenant("acme", below=None, limit=9)
        assert [chat.chat_id for chat in page.rows] == [stays.chat_id]
        page = await store.chats.of_user(ANN, below=None, limit=9)
        assert [chat.chat_id for chat in page.rows] == [stays.chat_id]


# Inboxes and notifications.


async def inboxes_of(store: Store, limit: int) -> list[tuple[str, InboxConfig]]:
    """The inboxes of a tenant, page by page."""
    pages = await walk(lambda after: store.inbox_settings.configs("acme", after=after, limit=limit))
    return [row for page in pages for row in page]


async def test_inboxes_are_listed_by_name(store: Store) -> None:
    configs = {name: InboxConfig(title=name) for name in ("news", "a", "Z", "news-2", "n")}
    for name, config in configs.items():
        await store.inbox_settings.put_config("acme", name, config)
    await store.inbox_settings.put_config("acme-2", "other", InboxConfig(title="Other"))
    await store.inbox_settings.put_settings("acme", {})

    for limit in (1, 2, 5):
        assert await inboxes_of(store, limit) == sorted(configs.items())
    assert await store.inbox_settings.configs("nobody", after=None, limit=9) == Listed([])


async def test_notifications_for_listed_users_are_read_newest_first(store: Store) -> None:
    posted = [a_notification() for _ in range(4)]
    for one in posted:
        await store.notifications.put(one)
    await store.notifications.put(a_notification(inbox="other"))
    await store.notifications.claim_key("acme", "news", "key", a_claim())
    await store.notifications.finish_job("acme", "news", posted[0].notification_id, 0)
    posted.reverse()

    async def read(before: str | None, limit: int) -> list[Notification]:
        return await store.notifications.newest("acme", "news", before=before, limit=limit)

    assert await read(None, 9) == posted
    assert await read(None, 2) == posted[:2]
    assert await read(posted[1].notification_id, 9) == posted[2:]
    assert await read(posted[3].notification_id, 9) == []


# What is listed survives.


async def test_lists_are_there_after_a_restart(engine: Engine) -> None:
    async with engine.open() as store:
        tenant = await make_tenant(store, "acme")
        await store.tenants.add_key(an_api_key())
        await make_users(store, ANN)
        chat = await a_chat(store)

    async with engine.open() as store:
        assert await store.tenants.newest(below=None, limit=10) == Listed([tenant])
        assert await store.tenants.newest_keys("acme", below=None, limit=9) == Listed(
            [an_api_key()]
        )
        assert await names_of(store, "acme") == [user_id(ANN)]
        page = await store.chats.of_tenant("acme", below=None, limit=9)
        assert [one.chat_id for one in page.rows] == [chat.chat_id]

# SPDX-License-Identifier: Apache-2.0
"""Tenants with their keys, and users."""

import msgspec
import pytest

from tests.contract.builders import a_chat, append, removed
from tests.contract.engines import Engine, Store
from tests.support.clock import NOW
from tests.support.users import ANN, BOB, CAT, DAN, some_users
from tests.support.waiting import until
from tidings.model import limits
from tidings.model.ids import user_key
from tidings.ports.people import ProfileFields, SigningKey, Tenant, TenantKey, User


def a_tenant(name: str | None = "Acme", created_at: int = NOW) -> Tenant:
    return Tenant(tenant="acme", name=name, created_at=created_at)


def a_signing_key(key_id: str, created_at: int = NOW) -> SigningKey:
    return SigningKey(
        key_id=key_id,
        tenant="acme",
        public=b"public",
        sealed_private=b"sealed",
        master_key_id="master",
        created_at=created_at,
    )


def an_api_key(key_id: str = "key-1", tenant: str = "acme") -> TenantKey:
    return TenantKey(key_id=key_id, tenant=tenant, digest=b"digest", created_at=NOW)


# Tenants.


async def test_a_tenant_comes_with_a_signing_key(store: Store) -> None:
    assert await store.tenants.get("acme") is None
    assert await store.tenants.put(a_tenant(), a_signing_key("s1")) == (a_tenant(), True)

    assert await store.tenants.get("acme") == a_tenant()
    assert await store.tenants.signing_keys("acme") == [a_signing_key("s1")]
    assert await store.tenants.signing_keys("other") == []


@pytest.mark.parametrize(("name", "then"), [("New", "New"), (None, "Acme")])
async def test_a_tenant_put_again_may_change_its_name_only(
    store: Store, name: str | None, then: str
) -> None:
    await store.tenants.put(a_tenant(), a_signing_key("s1"))

    again = await store.tenants.put(a_tenant(name, NOW + 1), a_signing_key("s2", NOW + 1))

    assert again == (a_tenant(then), False)
    assert await store.tenants.get("acme") == a_tenant(then)
    assert await store.tenants.signing_keys("acme") == [a_signing_key("s1")]


async def test_a_key_is_found_by_its_id(store: Store) -> None:
    await store.tenants.put(a_tenant(), a_signing_key("s1"))
    assert await store.tenants.add_key(an_api_key())

    assert await store.tenants.find_key("key-1") == an_api_key()
    assert await store.tenants.find_key("key-2") is None


async def test_there_are_no_keys_without_a_tenant(store: Store) -> None:
    assert not await store.tenants.add_key(an_api_key())
    assert await store.tenants.find_key("key-1") is None


async def test_a_revoked_key_stays_revoked(store: Store) -> None:
    await store.tenants.put(a_tenant(), a_signing_key("s1"))
    await store.tenants.add_key(an_api_key())

    assert not await store.tenants.revoke_key("other", "key-1", NOW + 1)
    assert not await store.tenants.revoke_key("acme", "key-2", NOW + 1)
    assert await store.tenants.revoke_key("acme", "key-1", NOW + 2)
    assert not await store.tenants.revoke_key("acme", "key-1", NOW + 3)

    found = await store.tenants.find_key("key-1")
    assert found is not None
    assert found.revoked_at == NOW + 2


async def test_tenants_and_keys_are_there_after_a_restart(engine: Engine) -> None:
    async with engine.open() as store:
        await store.tenants.put(a_tenant(), a_signing_key("s1"))
        await store.tenants.add_key(an_api_key())
        await store.users.put(ANN, display_name="Ann", phone_number=None, now=NOW)

    async with engine.open() as store:
        assert await store.tenants.get("acme") == a_tenant()
        assert await store.tenants.find_key("key-1") == an_api_key()
        assert await store.users.missing([ANN, BOB]) == [BOB]


# Users.


async def test_a_user_is_made_then_changed(store: Store) -> None:
    made = await store.users.put(ANN, display_name="Ann", phone_number=None, now=NOW)
    ann = User(user=ANN, display_name="Ann", phone_number=None, created_at=NOW, updated_at=NOW)
    assert made == (ann, True)
    assert await store.users.get(ANN) == ann

    changed = await store.users.put(ANN, display_name=None, phone_number="+49", now=NOW + 5)
    ann = User(user=ANN, display_name="Ann", phone_number="+49", created_at=NOW, updated_at=NOW + 5)
    assert changed == (ann, False)
    assert await store.users.get(ANN) == ann
    assert await store.users.get(BOB) is None


async def test_a_user_put_with_nothing_to_say_stays_the_same(store: Store) -> None:
    before, _ = await store.users.put(ANN, display_name="Ann", phone_number="+49", now=NOW)
    again = await store.users.put(ANN, display_name=None, phone_number=None, now=NOW + 5)
    assert again == (before, False)


FIELDS = ProfileFields(
    avatar_url="https://a.example/1.png", metadata='{"team":"red"}', email="ann@a.example",
    hidden_at=NOW,
)  # fmt: skip


async def test_fields_of_a_profile_are_kept_changed_and_taken_away(engine: Engine) -> None:
    async with engine.open() as store:
        made, _ = await store.users.put(
            ANN, display_name="Ann", phone_number=None, now=NOW, fields=FIELDS
        )
        assert FIELDS.changes().items() <= msgspec.structs.asdict(made).items()
        some = ProfileFields(avatar_url=None, metadata="{}")
        changed, _ = await store.users.put(
            ANN, display_name=None, phone_number="+49", now=NOW + 1, fields=some
        )
        assert changed == msgspec.structs.replace(
            made, avatar_url=None, metadata="{}", phone_number="+49", updated_at=NOW + 1
        )
        none = ProfileFields(metadata=None, email=None, hidden_at=None)
        bare, _ = await store.users.put(
            ANN, display_name="Ann", phone_number="+41", now=NOW + 2, fields=none
        )
        assert (bare.metadata, bare.email, bare.hidden_at, bare.phone_number) == (
            None, None, None, "+41",
        )  # fmt: skip
        same, _ = await store.users.put(
            ANN, display_name="Ann", phone_number="+41", now=NOW + 9, fields=none
        )
        assert same == bare, "nothing changed, not even the time"

    async with engine.open() as store:
        assert await store.users.get(ANN) == bare
        await store.users.put(BOB, display_name="Bob", phone_number=None, now=NOW)
        found = await store.users.get_all([BOB, CAT, ANN])
        assert found.keys() == {ANN, BOB}
        assert found[ANN] == bare


async def test_a_number_is_verified_until_it_changes(store: Store) -> None:
    async def verified_at() -> int | None:
        found = await store.users.get(ANN)
        assert found is not None
        return found.phone_verified_at

    await store.users.put(ANN, display_name=None, phone_number="+49", now=NOW)
    await store.users.verify_phone(ANN, "+41", NOW + 1)
    assert await verified_at() is None, "that is not the number"
    await store.users.verify_phone(ANN, "+49", NOW + 1)
    assert await verified_at() == NOW + 1
    await store.users.put(ANN, display_name="Ann", phone_number="+49", now=NOW + 2)
    assert await verified_at() == NOW + 1
    await store.users.put(ANN, display_name=None, phone_number="+41", now=NOW + 3)
    assert await verified_at() is None
    await store.users.verify_phone(ANN, "+41", NOW + 4)
    await store.users.release_phone(ANN, NOW + 5)
    assert await verified_at() is None
    made, _ = await store.users.with_phone(BOB, "+49", NOW)
    assert made.phone_verified_at == NOW


async def test_the_missing_are_named_in_the_order_given(store: Store) -> None:
    for user in (BOB, DAN):
        await store.users.put(user, display_name=None, phone_number=None, now=NOW)

    assert await store.users.missing([DAN, CAT, BOB, ANN]) == [CAT, ANN]
    assert await store.users.missing([BOB]) == []
    assert await store.users.missing([]) == []
    crowd = some_users(limits.GROUP_MEMBERS_MAX)
    assert await store.users.missing([*crowd, BOB]) == crowd


@pytest.mark.attack("D12")
async def test_a_user_of_another_tenant_is_another_user(store: Store) -> None:
    await store.users.put(ANN, display_name=None, phone_number=None, now=NOW)
    other = user_key("other", "ann")
    assert await store.users.missing([ANN, other]) == [other]


# Peers and when they were seen.


async def seen_at(store: Store, user: str) -> int | None:
    found = await store.users.get(user_key("acme", user))
    assert found is not None
    return found.last_seen_at


async def wait_until_seen(store: Store, user: str, time: int) -> None:
    """It is kept soon, not at once."""
    await until(lambda: seen_at(store, user), equals=time)


async def test_when_a_user_was_seen_only_moves_forward(engine: Engine) -> None:
    async with engine.open() as store:
        await store.users.put(ANN, display_name=None, phone_number=None, now=NOW)
        assert await seen_at(store, "ann") is None
        store.users.seen({ANN: NOW + 5, BOB: NOW + 5})
        await wait_until_seen(store, "ann", NOW + 5)
        store.users.seen({ANN: NOW + 3, BOB: NOW + 3})

    async with engine.open() as store:  # closing waits for what was still to be kept
        assert await seen_at(store, "ann") == NOW + 5
        assert await store.users.get(BOB) is None


async def test_a_user_who_was_seen_is_otherwise_the_same(store: Store) -> None:
    before, _ = await store.users.put(ANN, display_name="Ann", phone_number="+49", now=NOW)
    store.users.seen({ANN: NOW + 5})
    await wait_until_seen(store, "ann", NOW + 5)
    assert await store.users.get(ANN) == msgspec.structs.replace(before, last_seen_at=NOW + 5)


@pytest.mark.attack("D18")
async def test_peers_are_those_in_small_chats_with_the_user(store: Store) -> None:
    await store.users.put(BOB, display_name=None, phone_number=None, now=NOW)
    store.users.seen({BOB: NOW + 5})
    await wait_until_seen(store, "bob", NOW + 5)
    await a_chat(store, ANN, BOB)
    shared = await a_chat(store, BOB, CAT, ANN)
    await a_chat(store, BOB, DAN)

    assert await store.users.visible_peers(ANN) == {BOB: NOW + 5, CAT: None}
    await append(store, shared, removed(CAT))
    assert await store.users.visible_peers(ANN) == {BOB: NOW + 5}
    assert await store.users.visible_peers(CAT) == {}


async def test_who_hides_is_no_visible_peer_and_has_none(store: Store) -> None:
    await store.users.put(BOB, display_name=None, phone_number=None, now=NOW, fields=FIELDS)
    await a_chat(store, ANN, BOB, CAT)
    assert set(await store.users.visible_peers(ANN)) == {CAT}
    assert await store.users.visible_peers(BOB) == {}
    assert set(await store.users.peers(BOB)) == {ANN, CAT}
    shown = ProfileFields(hidden_at=None)
    await store.users.put(BOB, display_name=None, phone_number=None, now=NOW, fields=shown)
    assert set(await store.users.visible_peers(ANN)) == {BOB, CAT}
    assert set(await store.users.visible_peers(BOB)) == {ANN, CAT}


async def test_peers_of_a_chat_too_large_for_its_own_item_to_name_them(store: Store) -> None:
    crowd = some_users(limits.LISTED_MEMBERS_MAX + 2)
    await a_chat(store, *crowd)
    assert set(await store.users.visible_peers(crowd[0])) == set(crowd[1:])


@pytest.mark.attack("S15")
async def test_so_many_peers_count_and_those_of_the_oldest_chats_first(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "PRESENCE_PEERS_MAX", 5)
    crowd = some_users(12)
    for start in range(0, 12, 4):
        await a_chat(store, ANN, *crowd[start : start + 4], now=NOW + start)
    peers = await store.users.visible_peers(ANN)
    assert len(peers) == 5
    assert set(peers) >= set(crowd[:4])


@pytest.mark.parametrize("extra", [0, 1])
async def test_a_large_chat_makes_no_peers(store: Store, extra: int) -> None:
    crowd = some_users(limits.SMALL_CHAT_MEMBERS_MAX + extra)
    await a_chat(store, *crowd)

    peers = await store.users.visible_peers(crowd[0])

    assert set(peers) == (set() if extra else set(crowd[1:]))

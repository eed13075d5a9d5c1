# SPDX-License-Identifier: Apache-2.0
"""What stops counting: users, tenants, signing keys; each together with its entry in the feed."""

from collections.abc import Awaitable, Callable

import msgspec
import pytest

from tests.contract.engines import Engine, Store
from tests.contract.identity_builders import (
    OTHER_PHONE,
    PHONE,
    an_issuer,
    at_once,
    make_tenant,
    make_user,
)
from tests.contract.test_people import a_signing_key, a_tenant
from tests.support.clock import NOW
from tests.support.users import ANN, BOB, some_users
from tidings.model.ids import UserKey, user_id
from tidings.ports.people import Quotas, Tenant, User
from tidings.ports.sessions import Revocation, RevokedKind


async def feed(store: Store) -> list[Revocation]:
    return await store.revocations.after(0)


def entry(kind: RevokedKind, subject: str, at: int) -> Revocation:
    return Revocation(kind=kind, subject=subject, at=at)


async def ann(store: Store) -> User:
    found = await store.users.get(ANN)
    assert found is not None
    return found


async def acme(store: Store) -> Tenant:
    found = await store.tenants.get("acme")
    assert found is not None
    return found


# Users.


async def test_a_user_is_deactivated_once_and_let_on_again(store: Store) -> None:
    made, _ = await store.users.put(ANN, display_name="Ann", phone_number=PHONE, now=NOW)
    inactive = msgspec.structs.replace(
        made, deactivated_at=NOW + 1, revoked_at=NOW + 1, updated_at=NOW + 1
    )

    assert await store.users.set_active(ANN, True, NOW) == made
    assert await store.users.set_active(ANN, False, NOW + 1) == inactive
    assert await store.users.set_active(ANN, False, NOW + 2) == inactive
    assert await ann(store) == inactive
    assert await feed(store) == [entry("user", ANN, NOW + 1)]

    again = msgspec.structs.replace(inactive, deactivated_at=None, updated_at=NOW + 3)
    assert await store.users.set_active(ANN, True, NOW + 3) == again
    assert await store.users.set_active(ANN, True, NOW + 4) == again
    assert await ann(store) == again, "what was given before does not count again"
    assert await feed(store) == [entry("user", ANN, NOW + 1)]


async def test_a_deactivated_user_keeps_profile_and_number(store: Store) -> None:
    await store.users.put(ANN, display_name="Ann", phone_number=PHONE, now=NOW)
    await store.users.set_active(ANN, False, NOW + 1)

    await store.users.put(ANN, display_name="Anna", phone_number=None, now=NOW + 2)
    found, is_new = await store.users.with_phone(BOB, PHONE, NOW + 3)

    assert (found, is_new) == (await ann(store), False)
    assert (found.display_name, found.deactivated_at) == ("Anna", NOW + 1)


async def test_tokens_made_up_to_now_are_revoked(store: Store) -> None:
    await make_user(store)
    before = await ann(store)
    assert before.revoked_at is None

    assert await store.users.revoke_tokens(ANN, NOW + 1)
    assert await ann(store) == msgspec.structs.replace(before, revoked_at=NOW + 1)
    assert await store.users.revoke_tokens(ANN, NOW + 5_000)
    assert (await ann(store)).revoked_at == NOW + 5_000
    assert await feed(store) == [entry("user", ANN, NOW + 1), entry("user", ANN, NOW + 5_000)]


ENDS: dict[str, Callable[[Store, UserKey, int], Awaitable[object]]] = {
    "revoke": lambda store, user, now: store.users.revoke_tokens(user, now),
    "deactivate": lambda store, user, now: store.users.set_active(user, False, now),
    "move": lambda store, user, now: store.users.put(
        user, display_name=None, phone_number=f"{OTHER_PHONE}{user_id(user)[1:]}", now=now
    ),
    "release": lambda store, user, now: store.users.release_phone(user, now),
}
LATER = (-3, 0, 1, 998, 999, 1_000, 1_001)


async def revoked_user(store: Store, user: UserKey, made_at: int, revoked_at: int) -> None:
    """A user with a number of their own, whose tokens were revoked."""
    number = f"{PHONE}{user_id(user)[1:]}"
    await store.users.put(user, display_name=None, phone_number=number, now=made_at)
    await store.users.revoke_tokens(user, revoked_at)


@pytest.mark.attack("A11")
@pytest.mark.parametrize("end", ENDS)
async def test_what_was_dated_ahead_after_a_revocation_ends_with_the_next(
    store: Store, end: str
) -> None:
    """What is made right after a revocation is dated the second after it, at the latest."""
    first = NOW - NOW % 1_000 + 1
    for user, later in zip(some_users(len(LATER)), LATER, strict=True):
        await revoked_user(store, user, first, first)

        assert await ENDS[end](store, user, first + later)

        at = max(first + later, first + 999)
        found = await store.users.get(user)
        assert found is not None and found.revoked_at == at
        told = [one for one in await feed(store) if one.subject == user]
        assert told == [entry("user", user, first), entry("user", user, at)]
    assert len(await feed(store)) == 2 * len(LATER)


async def test_a_clock_that_is_behind_lets_nothing_count_again(store: Store) -> None:
    for user, end in zip(some_users(len(ENDS)), ENDS, strict=True):
        await revoked_user(store, user, NOW, NOW + 5_000)
        await ENDS[end](store, user, NOW + 3)
        found = await store.users.get(user)
        assert found is not None
        assert found.revoked_at == (NOW + 5_000) // 1_000 * 1_000 + 1_000, end


async def test_nothing_of_who_is_not_there_is_revoked(store: Store) -> None:
    assert await store.users.set_active(ANN, False, NOW) is None
    assert await store.users.set_active(ANN, True, NOW) is None
    assert await store.users.release_phone(ANN, NOW) is None
    assert not await store.users.revoke_tokens(ANN, NOW)
    assert await store.users.get(ANN) is None
    assert await feed(store) == []


async def test_many_revoked_at_once_are_all_in_the_feed(store: Store) -> None:
    users = some_users(10)
    for user in users:
        await make_user(store, user)
    assert all(await at_once([store.users.revoke_tokens(user, NOW) for user in users]))
    assert {one.subject for one in await feed(store)} == set(users)
    assert await store.revocations.head() == 10


async def test_a_user_who_is_revoked_by_many_at_once_is_in_the_feed_up_to_the_last(
    store: Store,
) -> None:
    await make_user(store)
    assert all(await at_once([store.users.revoke_tokens(ANN, NOW) for _ in range(10)]))
    times = [one.at for one in await feed(store)]
    assert times[0] == NOW and times == sorted(set(times))
    assert times[-1] == (await ann(store)).revoked_at


async def test_a_user_who_is_revoked_and_deactivated_at_once_is_both(store: Store) -> None:
    await store.users.put(ANN, display_name=None, phone_number=PHONE, now=NOW)
    ends = [ENDS[end](store, ANN, NOW + age) for age in range(3) for end in ENDS]
    await at_once(ends)
    found = await ann(store)
    assert found.deactivated_at is not None
    assert found.revoked_at == max(one.at for one in await feed(store))


async def test_a_user_deactivated_by_many_at_once_is_in_the_feed_once(store: Store) -> None:
    await make_user(store)
    done = await at_once([store.users.set_active(ANN, False, NOW + age) for age in range(10)])
    since = (await ann(store)).deactivated_at
    assert since is not None
    assert {one.deactivated_at for one in done if one is not None} == {since}
    assert await feed(store) == [entry("user", ANN, since)]


# Tenants.


async def test_a_tenant_is_suspended_once_and_let_on_again(store: Store) -> None:
    await make_tenant(store)
    suspended = msgspec.structs.replace(a_tenant(), suspended_at=NOW + 1)

    assert await store.tenants.set_suspended("acme", False, NOW) == a_tenant()
    assert await store.tenants.set_suspended("acme", True, NOW + 1) == suspended
    assert await store.tenants.set_suspended("acme", True, NOW + 2) == suspended
    assert await acme(store) == suspended
    assert await feed(store) == [entry("tenant", "acme", NOW + 1)]

    assert await store.tenants.set_suspended("acme", False, NOW + 3) == a_tenant()
    assert await acme(store) == a_tenant()
    assert await feed(store) == [entry("tenant", "acme", NOW + 1)]


@pytest.mark.parametrize(
    "quotas", [Quotas(users=5), Quotas(users=0, chats_per_day=2, messages_per_day=3), Quotas()]
)
async def test_quotas_are_replaced_as_a_whole(store: Store, quotas: Quotas) -> None:
    await make_tenant(store)
    assert (await acme(store)).quotas == Quotas()
    await store.tenants.set_quotas("acme", Quotas(messages_per_day=9))

    expected = msgspec.structs.replace(a_tenant(), quotas=quotas)
    assert await store.tenants.set_quotas("acme", quotas) == expected
    assert await acme(store) == expected


async def test_what_holds_for_a_tenant_holds_when_it_is_put_again(store: Store) -> None:
    await make_tenant(store)
    await store.tenants.set_suspended("acme", True, NOW + 1)
    await store.tenants.set_quotas("acme", Quotas(users=5))

    again, is_new = await store.tenants.put(a_tenant("New"), a_signing_key("s2"))

    expected = Tenant(
        tenant="acme", name="New", created_at=NOW, suspended_at=NOW + 1, quotas=Quotas(users=5)
    )
    assert (again, is_new) == (expected, False)
    assert await acme(store) == expected


async def test_nothing_holds_for_a_tenant_that_is_not_there(store: Store) -> None:
    assert await store.tenants.set_suspended("acme", True, NOW) is None
    assert await store.tenants.set_quotas("acme", Quotas(users=5)) is None
    assert await store.tenants.get("acme") is None
    assert await feed(store) == []


# Signing keys.


async def test_the_newest_signing_key_comes_first(store: Store) -> None:
    await make_tenant(store)
    assert await store.tenants.add_signing_key(a_signing_key("a2", NOW + 1), most=2)
    assert not await store.tenants.add_signing_key(a_signing_key("a3", NOW + 2), most=2)
    keys = await store.tenants.signing_keys("acme")
    assert keys == [a_signing_key("a2", NOW + 1), a_signing_key("s1")]
    assert await feed(store) == []


async def test_there_is_no_signing_key_without_a_tenant(store: Store) -> None:
    assert not await store.tenants.add_signing_key(a_signing_key("s1"), most=2)
    assert await store.tenants.signing_keys("acme") == []


async def test_an_older_signing_key_is_forgotten_and_in_the_feed(store: Store) -> None:
    await make_tenant(store)
    newest = a_signing_key("a2", NOW + 1)
    await store.tenants.add_signing_key(newest, most=2)

    assert not await store.tenants.remove_signing_key("acme", "a2", NOW + 2)
    assert not await store.tenants.remove_signing_key("acme", "no", NOW + 2)
    assert not await store.tenants.remove_signing_key("other", "s1", NOW + 2)
    assert await store.tenants.remove_signing_key("acme", "s1", NOW + 3)
    assert not await store.tenants.remove_signing_key("acme", "s1", NOW + 4)

    assert await store.tenants.signing_keys("acme") == [newest]
    assert await feed(store) == [entry("signing_key", "s1", NOW + 3)]
    assert await store.tenants.add_signing_key(a_signing_key("a3", NOW + 5), most=2)


async def test_the_only_signing_key_stays(store: Store) -> None:
    await make_tenant(store)
    assert not await store.tenants.remove_signing_key("acme", "s1", NOW + 1)
    assert await store.tenants.signing_keys("acme") == [a_signing_key("s1")]


# A tenant's own keys.


@pytest.mark.parametrize("issuer", [None, "https://acme.example"])
async def test_a_tenant_registers_its_own_keys(store: Store, issuer: str | None) -> None:
    await make_tenant(store)
    assert await store.tenants.issuer("acme") is None
    await store.tenants.put_issuer(an_issuer(issuer=issuer), None, [])
    assert await store.tenants.issuer("acme") == an_issuer(issuer=issuer)
    assert await store.tenants.issuer("other") is None
    assert await feed(store) == []


async def test_keys_that_are_replaced_are_in_the_feed(store: Store) -> None:
    await make_tenant(store)
    await store.tenants.put_issuer(an_issuer(), None, [])
    newer = msgspec.structs.replace(an_issuer(), issuer=None, document=b"{}", updated_at=NOW + 1)

    removed = ["acme.own.a", "acme.own.b"]
    assert await store.tenants.put_issuer(newer, an_issuer(), removed)
    for earlier in (None, an_issuer(), msgspec.structs.replace(newer, issuer="https://x.example")):
        assert not await store.tenants.put_issuer(an_issuer(), earlier, ["acme.own.c"])
        if earlier is not None:
            assert not await store.tenants.remove_issuer(earlier, ["acme.own.c"], NOW + 2)

    assert await store.tenants.issuer("acme") == newer
    expected = [entry("signing_key", f"acme.own.{kid}", NOW + 1) for kid in "ab"]
    assert await feed(store) == expected


async def test_keys_that_are_forgotten_are_in_the_feed(store: Store) -> None:
    await make_tenant(store)
    await store.tenants.put_issuer(an_issuer(), None, [])

    assert not await store.tenants.remove_issuer(an_issuer("other"), ["other.own.a"], NOW + 1)
    assert await store.tenants.remove_issuer(an_issuer(), ["acme.own.a"], NOW + 1)
    assert not await store.tenants.remove_issuer(an_issuer(), ["acme.own.a"], NOW + 2)

    assert await store.tenants.issuer("acme") is None
    assert await feed(store) == [entry("signing_key", "acme.own.a", NOW + 1)]


async def test_what_was_said_outlives_a_restart(engine: Engine) -> None:
    async with engine.open() as store:
        await make_tenant(store)
        await make_user(store)
        await store.users.set_active(ANN, False, NOW + 1)
        await store.users.revoke_tokens(ANN, NOW + 2)
        await store.tenants.set_suspended("acme", True, NOW + 3)
        await store.tenants.set_quotas("acme", Quotas(users=5))
        await store.tenants.put_issuer(an_issuer(), None, [])
        before = await ann(store), await acme(store), await feed(store)
    async with engine.open() as store:
        assert (await ann(store), await acme(store), await feed(store)) == before
        assert await store.tenants.issuer("acme") == an_issuer()

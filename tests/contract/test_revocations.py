# SPDX-License-Identifier: Apache-2.0
"""The feed of revocations: in order, without a hole, for whoever reads on from a place."""

import asyncio

from tests.contract.engines import Engine, Store
from tests.contract.test_people import a_signing_key, a_tenant, an_api_key
from tests.support.clock import NOW
from tidings.ports.sessions import Revocation, RevokedKind


def a_revocation(subject: str, kind: RevokedKind = "user") -> Revocation:
    return Revocation(kind=kind, subject=subject, at=NOW)


async def test_an_empty_feed_ends_at_zero(store: Store) -> None:
    assert await store.revocations.head() == 0
    assert await store.revocations.after(0) == []


async def test_a_reader_gets_all_that_came_after_its_place(store: Store) -> None:
    appended = [a_revocation("acme:ann"), a_revocation("acme", "tenant"), a_revocation("acme:bob")]
    for one in appended:
        await store.revocations.append(one)

    assert await store.revocations.head() == 3
    assert await store.revocations.after(0) == appended
    assert await store.revocations.after(2) == appended[2:]
    assert await store.revocations.after(3) == []


async def test_places_keep_their_order_beyond_nine(store: Store) -> None:
    appended = [a_revocation(f"acme:u{number}") for number in range(11)]
    for one in appended:
        await store.revocations.append(one)

    assert await store.revocations.head() == 11
    assert await store.revocations.after(8) == appended[8:]


async def test_two_at_once_both_get_a_place(store: Store) -> None:
    async with asyncio.TaskGroup() as group:
        for name in ("ann", "bob", "cat"):
            group.create_task(store.revocations.append(a_revocation(name)))

    assert await store.revocations.head() == 3
    assert {one.subject for one in await store.revocations.after(0)} == {"ann", "bob", "cat"}


async def test_a_revoked_tenant_key_is_in_the_feed_once(store: Store) -> None:
    await store.tenants.put(a_tenant(), a_signing_key("s1"))
    await store.tenants.add_key(an_api_key())

    assert not await store.tenants.revoke_key("acme", "key-2", NOW)
    assert await store.tenants.revoke_key("acme", "key-1", NOW + 1)
    assert not await store.tenants.revoke_key("acme", "key-1", NOW + 2)

    expected = Revocation(kind="tenant_key", subject="key-1", at=NOW + 1)
    assert await store.revocations.after(0) == [expected]


async def test_a_tenants_erasures_are_read_without_the_rest_of_the_feed(store: Store) -> None:
    for subject, kind in (
        ("acme:ann", "author"),
        ("acme:bob", "user"),
        ("acme2:cat", "author"),
        ("acme:dan", "author"),
        ("acme:eve", "data_key"),
        ("acme:ann", "author"),
    ):
        await store.revocations.append(a_revocation(subject, kind))  # type: ignore[arg-type]

    async def erasures(after: int, limit: int) -> list[tuple[int, str]]:
        found = await store.revocations.erasures("acme", after, limit)
        assert {one.at for one in found} <= {NOW}
        return [(one.position, one.author) for one in found]

    assert await erasures(0, 10) == [(1, "acme:ann"), (4, "acme:dan"), (6, "acme:ann")]
    assert await erasures(1, 10) == [(4, "acme:dan"), (6, "acme:ann")]
    assert await erasures(0, 2) == [(4, "acme:dan"), (6, "acme:ann")], "the newest"
    assert await erasures(6, 10) == []
    assert await store.revocations.erasures("nobody", 0, 10) == []


async def test_the_feed_outlives_a_restart(engine: Engine) -> None:
    async with engine.open() as store:
        await store.revocations.append(a_revocation("acme:ann"))

    async with engine.open() as store:
        await store.revocations.append(a_revocation("acme:bob"))
        assert await store.revocations.after(1) == [a_revocation("acme:bob")]

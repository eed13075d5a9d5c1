# SPDX-License-Identifier: Apache-2.0
"""Notifications for listed users: their bodies, the keys of their requests, their progress."""

import asyncio

import msgspec

from tests.contract.engines import Engine, Store
from tests.contract.inbox_builders import (
    INBOX,
    TENANT,
    a_claim,
    a_notification,
    new_id,
)
from tests.support.clock import NOW
from tidings.model.notifications import Notification


async def found(store: Store, *notification_ids: str) -> list[Notification]:
    """Those with these ids, in the order of the ids."""
    some = await store.notifications.get(TENANT, INBOX, notification_ids)
    return sorted(some, key=lambda one: notification_ids.index(one.notification_id))


# Bodies.


async def test_a_notification_is_kept_as_it_is(store: Store) -> None:
    plain = a_notification()
    large = a_notification(category="offers", box=bytes(range(256)) * 64, recipients=100_000)
    for one in (plain, large):
        await store.notifications.put(one)

    assert await found(store, plain.notification_id) == [plain]
    assert await found(store, large.notification_id, plain.notification_id) == [large, plain]
    assert not plain.is_retracted


async def test_the_missing_are_left_out(store: Store) -> None:
    one = a_notification()
    await store.notifications.put(one)

    assert await found(store, new_id(), one.notification_id, new_id()) == [one]
    assert await found(store, new_id()) == []
    assert await found(store) == []


async def test_many_are_found_at_once(store: Store) -> None:
    made = [a_notification(box=b"x" * 9_000) for _ in range(120)]
    await asyncio.gather(*(store.notifications.put(one) for one in made))

    assert await found(store, *(one.notification_id for one in made)) == made


async def test_what_is_there_stays_as_it_is(store: Store) -> None:
    first = a_notification()
    await store.notifications.put(first)
    await store.notifications.put(first)
    await store.notifications.put(a_notification(first.notification_id, box=b"other"))

    assert await found(store, first.notification_id) == [first]


async def test_inboxes_and_tenants_do_not_share(store: Store) -> None:
    same = new_id()
    here = a_notification(same)
    await store.notifications.put(here)
    await store.notifications.put(a_notification(same, inbox="news.2", box=b"2"))
    await store.notifications.put(a_notification(same, tenant="acme-2", box=b"3"))
    await store.notifications.empty(TENANT, "news.2", same)

    assert await found(store, same) == [here]
    (other,) = await store.notifications.get("acme-2", INBOX, [same])
    assert other.box == b"3"
    (emptied,) = await store.notifications.get(TENANT, "news.2", [same])
    assert emptied.is_retracted


async def test_an_emptied_one_has_lost_its_content_and_nothing_else(store: Store) -> None:
    one = a_notification(category="offers")
    await store.notifications.put(one)

    await store.notifications.empty(TENANT, INBOX, one.notification_id)
    await store.notifications.empty(TENANT, INBOX, one.notification_id)

    (emptied,) = await found(store, one.notification_id)
    assert emptied.is_retracted
    assert msgspec.structs.replace(emptied, box=one.box, box_key=one.box_key) == one


async def test_an_emptied_one_stays_empty_whoever_puts_it_again(store: Store) -> None:
    one = a_notification()
    await store.notifications.put(one)
    await store.notifications.empty(TENANT, INBOX, one.notification_id)
    await store.notifications.put(one)

    (emptied,) = await found(store, one.notification_id)
    assert emptied.box is None


async def test_emptying_makes_nothing(store: Store) -> None:
    nothing = new_id()
    await store.notifications.empty(TENANT, INBOX, nothing)
    assert await found(store, nothing) == []


async def test_bodies_are_there_after_a_restart(engine: Engine) -> None:
    one, other = a_notification(), a_notification()
    async with engine.open() as store:
        await store.notifications.put(one)
        await store.notifications.put(other)
        await store.notifications.empty(TENANT, INBOX, other.notification_id)
    async with engine.open() as store:
        kept, emptied = await found(store, one.notification_id, other.notification_id)
        assert kept == one
        assert emptied.is_retracted


# Keys.


async def test_the_first_claim_of_a_key_counts(store: Store) -> None:
    first = a_claim(notification_id=new_id())
    assert await store.notifications.claim_key(TENANT, INBOX, "k", first) == first

    later = a_claim(digest=b"other", notification_id=new_id(), claimed_at=NOW + 5)
    assert await store.notifications.claim_key(TENANT, INBOX, "k", later) == first
    assert await store.notifications.claim_key(TENANT, INBOX, "k", first) == first


async def test_a_claim_for_everyone_has_a_hint(store: Store) -> None:
    first = a_claim(hint=7)
    assert await store.notifications.claim_key(TENANT, INBOX, "k", first) == first
    assert await store.notifications.claim_key(TENANT, INBOX, "k", a_claim(hint=9)) == first


async def test_a_claim_that_has_expired_counts_no_longer(store: Store) -> None:
    first = a_claim(expires_at=NOW + 10)
    await store.notifications.claim_key(TENANT, INBOX, "k", first)

    early = a_claim(digest=b"early", claimed_at=NOW + 9)
    assert await store.notifications.claim_key(TENANT, INBOX, "k", early) == first
    late = a_claim(digest=b"late", claimed_at=NOW + 10)
    assert await store.notifications.claim_key(TENANT, INBOX, "k", late) == late
    assert await store.notifications.claim_key(TENANT, INBOX, "k", early) == late


async def test_keys_belong_to_an_inbox(store: Store) -> None:
    for tenant, inbox in ((TENANT, INBOX), (TENANT, "news.2"), ("acme-2", INBOX)):
        own = a_claim(digest=f"{tenant} {inbox}".encode())
        assert await store.notifications.claim_key(tenant, inbox, "k", own) == own
    other = a_claim(digest=b"other key")
    assert await store.notifications.claim_key(TENANT, INBOX, "k2", other) == other


async def test_of_many_claims_at_once_one_counts(store: Store) -> None:
    claims = [a_claim(notification_id=new_id()) for _ in range(6)]
    counted = await asyncio.gather(
        *(store.notifications.claim_key(TENANT, INBOX, "k", claim) for claim in claims)
    )
    assert counted[0] in claims
    assert counted == [counted[0]] * 6


async def test_of_many_claims_of_an_expired_key_one_counts(store: Store) -> None:
    await store.notifications.claim_key(TENANT, INBOX, "k", a_claim(expires_at=NOW + 10))
    claims = [a_claim(notification_id=new_id(), claimed_at=NOW + 10) for _ in range(6)]
    counted = await asyncio.gather(
        *(store.notifications.claim_key(TENANT, INBOX, "k", claim) for claim in claims)
    )
    assert counted[0] in claims
    assert counted == [counted[0]] * 6


async def test_claims_are_there_after_a_restart(engine: Engine) -> None:
    first = a_claim(notification_id=new_id())
    async with engine.open() as store:
        await store.notifications.claim_key(TENANT, INBOX, "k", first)
    async with engine.open() as store:
        assert await store.notifications.claim_key(TENANT, INBOX, "k", a_claim()) == first


# Progress.


async def test_finished_jobs_are_a_set(engine: Engine) -> None:
    one, other = a_notification(recipients=100_000), a_notification()
    numbers = {0, 1, 99, 100, 101, 199, 999}
    async with engine.open() as store:
        for made in (one, other):
            await store.notifications.put(made)
        assert await store.notifications.finished_jobs(TENANT, INBOX, one.notification_id) == set()
        await asyncio.gather(
            *(
                store.notifications.finish_job(TENANT, INBOX, one.notification_id, number)
                for number in [*numbers, *numbers]
            )
        )
        await store.notifications.finish_job(TENANT, INBOX, other.notification_id, 5)
    async with engine.open() as store:
        done = store.notifications.finished_jobs
        assert await done(TENANT, INBOX, one.notification_id) == numbers
        assert await done(TENANT, INBOX, other.notification_id) == {5}
        assert await done(TENANT, "news.2", one.notification_id) == set()


async def test_an_emptied_one_still_makes_progress(store: Store) -> None:
    one = a_notification()
    await store.notifications.put(one)
    await store.notifications.finish_job(TENANT, INBOX, one.notification_id, 0)
    await store.notifications.empty(TENANT, INBOX, one.notification_id)
    await store.notifications.finish_job(TENANT, INBOX, one.notification_id, 1)
    assert await store.notifications.finished_jobs(TENANT, INBOX, one.notification_id) == {0, 1}

# SPDX-License-Identifier: Apache-2.0
"""Phone numbers: each is one user's within a tenant, however many ask at once."""

import msgspec
import pytest

from tests.contract.engines import Engine, Store
from tests.contract.identity_builders import OTHER_PHONE, PHONE, at_once
from tests.support.clock import NOW
from tests.support.users import ANN, BOB, some_users
from tidings.model import limits
from tidings.model.ids import UserKey, user_key
from tidings.model.refusals import PhoneTaken
from tidings.ports.people import User
from tidings.ports.sessions import Revocation

ELSEWHERE = user_key("other", "ann")


async def put(store: Store, user: UserKey, phone: str | None, name: str | None = None) -> User:
    made, _ = await store.users.put(user, display_name=name, phone_number=phone, now=NOW)
    return made


async def whose(store: Store, phone_number: str, tenant: str = "acme") -> UserKey | None:
    return (await store.users.by_phone(tenant, [phone_number])).get(phone_number)


# Claimed by a profile.


async def test_a_number_leads_to_its_user(store: Store) -> None:
    assert await whose(store, PHONE) is None
    await put(store, ANN, PHONE)
    assert await whose(store, PHONE) == ANN
    assert await whose(store, PHONE, "other") is None


async def test_many_numbers_are_looked_up_at_once(store: Store) -> None:
    users = some_users(limits.CONTACTS_MAX)
    numbers = [f"+4917{index:08}" for index in range(len(users))]
    for user, number in list(zip(users, numbers, strict=True))[::10]:
        await put(store, user, number)
    expected = dict(list(zip(numbers, users, strict=True))[::10])
    assert dict(await store.users.by_phone("acme", numbers)) == expected
    assert dict(await store.users.by_phone("acme", [])) == {}
    assert dict(await store.users.by_phone("acme", [numbers[0]] * 2)) == {numbers[0]: users[0]}


async def test_a_number_of_another_user_is_refused_and_nothing_changes(store: Store) -> None:
    await put(store, ANN, PHONE)
    bob = await put(store, BOB, OTHER_PHONE, "Bob")

    with pytest.raises(PhoneTaken):
        await put(store, BOB, PHONE, "Robert")

    assert await store.users.get(BOB) == bob
    assert await whose(store, PHONE) == ANN
    assert await whose(store, OTHER_PHONE) == BOB


async def test_nobody_is_made_with_a_number_of_another_user(store: Store) -> None:
    await put(store, ANN, PHONE)
    with pytest.raises(PhoneTaken):
        await put(store, BOB, PHONE, "Bob")
    assert await store.users.get(BOB) is None
    assert await store.users.missing([BOB]) == [BOB]


async def test_a_number_is_claimed_within_its_tenant(store: Store) -> None:
    await put(store, ANN, PHONE)
    await put(store, ELSEWHERE, PHONE)
    assert await whose(store, PHONE) == ANN
    assert await whose(store, PHONE, "other") == ELSEWHERE


async def test_the_number_before_is_let_go(store: Store) -> None:
    await put(store, ANN, PHONE)
    moved = await put(store, ANN, OTHER_PHONE)
    assert moved == await store.users.get(ANN)
    assert moved.phone_number == OTHER_PHONE
    assert await whose(store, PHONE) is None
    assert await whose(store, OTHER_PHONE) == ANN

    await put(store, BOB, PHONE)
    assert await whose(store, PHONE) == BOB


async def test_the_own_number_may_be_said_again(store: Store) -> None:
    await put(store, ANN, PHONE)
    assert (await put(store, ANN, PHONE, "Ann")).display_name == "Ann"
    await put(store, ANN, None, "Anna")
    assert await whose(store, PHONE) == ANN


async def test_another_number_ends_what_the_user_was_given(store: Store) -> None:
    await put(store, ANN, None)
    assert (await put(store, ANN, PHONE)).revoked_at is None, "a first number takes nothing"
    await put(store, ANN, PHONE, "Ann")
    await put(store, ANN, None, "Anna")
    assert await store.revocations.head() == 0

    assert (await put(store, ANN, OTHER_PHONE)).revoked_at == NOW
    assert await store.revocations.after(0) == [Revocation(kind="user", subject=ANN, at=NOW)]


async def test_a_change_that_is_refused_ends_nothing(store: Store) -> None:
    await put(store, ANN, PHONE)
    await put(store, BOB, OTHER_PHONE)
    with pytest.raises(PhoneTaken):
        await put(store, BOB, PHONE)
    assert await store.revocations.head() == 0


async def test_a_number_is_taken_away(store: Store) -> None:
    before = await put(store, ANN, PHONE, "Ann")
    expected = msgspec.structs.replace(
        before, phone_number=None, updated_at=NOW + 1, revoked_at=NOW + 1
    )

    assert await store.users.release_phone(ANN, NOW + 1) == expected
    assert await store.users.release_phone(ANN, NOW + 5_000) == expected, "there was none any more"

    assert await store.users.get(ANN) == expected
    assert await whose(store, PHONE) is None
    assert await store.revocations.after(0) == [Revocation(kind="user", subject=ANN, at=NOW + 1)]
    found, is_new = await store.users.with_phone(BOB, PHONE, NOW + 2)
    assert (found.user, is_new) == (BOB, True)
    assert (await put(store, ANN, OTHER_PHONE)).phone_number == OTHER_PHONE


async def test_a_number_that_is_taken_away_by_many_at_once_goes_once(store: Store) -> None:
    await put(store, ANN, PHONE)
    await at_once([store.users.release_phone(ANN, NOW + age) for age in range(10)])
    assert await whose(store, PHONE) is None
    assert await store.revocations.head() == 1


async def test_of_many_who_claim_a_number_at_once_one_gets_it(store: Store) -> None:
    users = some_users(10)

    async def claim(user: UserKey) -> bool:
        try:
            await put(store, user, PHONE)
        except PhoneTaken:
            return False
        return True

    done = await at_once([claim(user) for user in users])

    assert done.count(True) == 1
    winner = users[done.index(True)]
    assert await whose(store, PHONE) == winner
    assert await store.users.missing(users) == [user for user in users if user != winner]


async def test_a_user_who_gets_many_numbers_at_once_keeps_one(store: Store) -> None:
    numbers = [f"+4917{index:08}" for index in range(10)]
    await put(store, ANN, PHONE)
    await at_once([put(store, ANN, number) for number in numbers])
    ann = await store.users.get(ANN)
    assert ann is not None and ann.phone_number in numbers
    assert dict(await store.users.by_phone("acme", [PHONE, *numbers])) == {ann.phone_number: ANN}


async def test_claims_outlive_a_restart(engine: Engine) -> None:
    async with engine.open() as store:
        await put(store, ANN, PHONE)
    async with engine.open() as store:
        assert await whose(store, PHONE) == ANN
        with pytest.raises(PhoneTaken):
            await put(store, BOB, PHONE)


# Claimed by a login.


async def test_the_first_login_makes_the_user(store: Store) -> None:
    made = await store.users.with_phone(ANN, PHONE, NOW)
    ann = User(
        user=ANN,
        display_name=None,
        phone_number=PHONE,
        created_at=NOW,
        updated_at=NOW,
        phone_verified_at=NOW,
    )
    assert made == (ann, True)
    assert await store.users.get(ANN) == ann
    assert await whose(store, PHONE) == ANN


async def test_the_next_login_finds_the_user(store: Store) -> None:
    await store.users.with_phone(ANN, PHONE, NOW)
    found, is_new = await store.users.with_phone(BOB, PHONE, NOW + 5)
    assert (found, is_new) == (await store.users.get(ANN), False)
    assert await store.users.get(BOB) is None


async def test_a_login_finds_whom_the_tenant_gave_the_number(store: Store) -> None:
    ann = await put(store, ANN, PHONE, "Ann")
    assert await store.users.with_phone(BOB, PHONE, NOW + 5) == (ann, False)


async def test_a_number_that_was_let_go_makes_another_user(store: Store) -> None:
    await put(store, ANN, PHONE)
    await put(store, ANN, OTHER_PHONE)
    _, is_new = await store.users.with_phone(BOB, PHONE, NOW + 5)
    assert is_new
    assert await whose(store, PHONE) == BOB


async def test_fifty_first_logins_at_once_make_one_user(store: Store) -> None:
    users = some_users(50)
    found = await at_once([store.users.with_phone(user, PHONE, NOW) for user in users])
    (made,) = {user.user for user, _ in found}
    assert [is_new for _, is_new in found].count(True) == 1
    assert await store.users.missing(users) == [user for user in users if user != made]
    assert await whose(store, PHONE) == made


async def test_users_who_log_in_are_counted(engine: Engine) -> None:
    async with engine.open() as store:
        await store.users.with_phone(ANN, PHONE, NOW)
        await store.users.with_phone(BOB, PHONE, NOW)
        await put(store, BOB, OTHER_PHONE)
    async with engine.open() as store:  # closing waits for what was still to be counted
        assert await store.users.about_how_many("acme") == 2

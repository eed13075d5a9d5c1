# SPDX-License-Identifier: Apache-2.0
"""Codes that were sent, and counts that many processes share."""

import pytest

from tests.contract.engines import Engine, Store
from tests.contract.identity_builders import OTHER_PHONE, PHONE, a_code, an_allowance, at_once
from tests.support.clock import NOW
from tidings.model import limits
from tidings.ports.sessions import KeptCode, LoginCode

MANY = 20


async def attempt(store: Store, phone_number: str = PHONE, now: int = NOW) -> LoginCode | None:
    return await store.login_codes.attempt("acme", phone_number, now)


# Codes.


async def test_an_attempt_gets_the_code_of_the_number(store: Store) -> None:
    assert await attempt(store) is None
    await store.login_codes.put(a_code())
    assert await attempt(store) == a_code()
    assert await attempt(store, OTHER_PHONE) is None
    assert await store.login_codes.attempt("other", PHONE, NOW) is None


async def test_a_code_has_so_many_attempts(store: Store) -> None:
    await store.login_codes.put(a_code())
    got = [await attempt(store) for _ in range(limits.CODE_ATTEMPTS_MAX + 2)]
    assert got == [a_code()] * limits.CODE_ATTEMPTS_MAX + [None, None]


async def test_many_attempts_at_once_are_no_more(store: Store) -> None:
    await store.login_codes.put(a_code())
    got = await at_once([attempt(store) for _ in range(MANY)])
    assert len([one for one in got if one is not None]) == limits.CODE_ATTEMPTS_MAX
    assert await attempt(store) is None


async def test_attempts_are_counted_through_a_restart(engine: Engine) -> None:
    async with engine.open() as store:
        await store.login_codes.put(a_code())
        for _ in range(limits.CODE_ATTEMPTS_MAX - 1):
            assert await attempt(store) is not None
    async with engine.open() as store:
        assert await attempt(store) == a_code()
        assert await attempt(store) is None


@pytest.mark.parametrize(("age", "counts"), [(-1, True), (0, False), (1, False)])
async def test_a_code_counts_until_it_expires(store: Store, age: int, counts: bool) -> None:
    await store.login_codes.put(a_code())
    got = await attempt(store, now=a_code().expires_at + age)
    assert got == (a_code() if counts else None)


async def test_a_newer_code_replaces_the_older_with_its_attempts(store: Store) -> None:
    newer = a_code(digest=b"newer", expires_at=NOW + 2 * limits.CODE_MS)
    await store.login_codes.put(a_code())
    for _ in range(limits.CODE_ATTEMPTS_MAX):
        await attempt(store)

    await store.login_codes.put(newer)

    assert not await store.login_codes.use(a_code())
    assert await attempt(store) == newer
    assert await store.login_codes.use(newer)


async def test_a_used_code_is_gone(store: Store) -> None:
    other = a_code(OTHER_PHONE)
    for code in (a_code(), other):
        await store.login_codes.put(code)
    assert await store.login_codes.use(a_code())
    assert not await store.login_codes.use(a_code())
    assert await attempt(store) is None
    assert await attempt(store, OTHER_PHONE) == other


async def test_of_many_who_use_a_code_one_does(store: Store) -> None:
    await store.login_codes.put(a_code())
    used = await at_once([store.login_codes.use(a_code()) for _ in range(MANY)])
    assert used.count(True) == 1


async def test_a_code_can_be_used_at_its_last_attempt(store: Store) -> None:
    await store.login_codes.put(a_code())
    for _ in range(limits.CODE_ATTEMPTS_MAX):
        await attempt(store)
    assert await store.login_codes.use(a_code())


@pytest.mark.attack("S12", "B03")
async def test_who_guesses_from_elsewhere_leaves_attempts_to_who_asked(store: Store) -> None:
    codes, code = store.login_codes, a_code(asked_by="home")
    await codes.put(code)
    elsewhere = [
        await codes.attempt("acme", PHONE, NOW, tried_by)
        for tried_by in ("here", "there", None, "here", None, "where")
    ]
    assert elsewhere == [code] * limits.CODE_ATTEMPTS_ELSEWHERE_MAX + [None] * 3
    left = limits.CODE_ATTEMPTS_MAX - limits.CODE_ATTEMPTS_ELSEWHERE_MAX
    home = [await codes.attempt("acme", PHONE, NOW, "home") for _ in range(left + 1)]
    assert home == [code] * left + [None]
    assert await codes.use(code)


@pytest.mark.attack("B03")
async def test_who_asked_has_all_attempts_and_no_more(store: Store) -> None:
    codes, code = store.login_codes, a_code(asked_by="home")
    await codes.put(code)
    tried = await at_once([codes.attempt("acme", PHONE, NOW, "home") for _ in range(MANY)])
    assert len([one for one in tried if one is not None]) == limits.CODE_ATTEMPTS_MAX
    assert await codes.attempt("acme", PHONE, NOW, "here") is None


async def test_where_nobody_knows_who_asked_all_addresses_share_the_attempts(store: Store) -> None:
    await store.login_codes.put(a_code())
    tried = [
        await store.login_codes.attempt("acme", PHONE, NOW, f"address {number}")
        for number in range(limits.CODE_ATTEMPTS_MAX + 1)
    ]
    assert tried == [a_code()] * limits.CODE_ATTEMPTS_MAX + [None]


@pytest.mark.attack("B08")
async def test_the_code_before_is_put_back_with_its_attempts(store: Store) -> None:
    codes, before = store.login_codes, a_code(asked_by="home")
    assert await codes.find("acme", PHONE) is None
    await codes.put(before)
    for tried_by in ("home", "elsewhere"):
        assert await codes.attempt("acme", PHONE, NOW, tried_by) == before
    kept = await codes.find("acme", PHONE)
    assert kept == KeptCode(code=before, attempts=2, attempts_elsewhere=1)
    newer = a_code(digest=b"newer")
    await codes.put(newer)
    await codes.restore(newer, kept)
    assert await codes.find("acme", PHONE) == kept
    assert await codes.use(before)


async def test_a_code_that_is_gone_is_not_replaced_by_the_one_before(store: Store) -> None:
    codes, before = store.login_codes, a_code()
    await codes.put(before)
    kept = await codes.find("acme", PHONE)
    assert kept is not None
    newer = a_code(digest=b"newer")
    await codes.put(newer)
    await codes.restore(a_code(digest=b"another"), kept)
    assert await attempt(store) == newer
    assert await codes.use(newer)
    await codes.restore(newer, kept)
    assert await codes.find("acme", PHONE) is None
    assert await attempt(store) is None


# Budgets.


async def test_an_allowance_is_spent_one_by_one(store: Store) -> None:
    spent = [await store.budgets.spend([an_allowance(most=2)]) for _ in range(4)]
    assert spent == [None, None, "sms#all", "sms#all"]


async def test_what_was_spent_is_read(store: Store) -> None:
    await store.budgets.add(an_allowance("one"), 4)
    await store.budgets.add(an_allowance("two"), 1)

    assert await store.budgets.spent(["one", "none", "two"]) == {"one": 4, "two": 1}


async def test_nothing_is_counted_where_one_is_used_up(store: Store) -> None:
    roomy, tight = an_allowance("roomy", 2), an_allowance("tight", 1)
    assert await store.budgets.spend([roomy, tight]) is None
    assert await store.budgets.spend([roomy, tight]) == "tight"
    assert await store.budgets.spend([tight, roomy]) == "tight"
    assert await store.budgets.spend([roomy]) is None
    assert await store.budgets.spend([roomy]) == "roomy"


async def test_names_are_counted_apart(store: Store) -> None:
    assert await store.budgets.spend([an_allowance("monday", 1)]) is None
    assert await store.budgets.spend([an_allowance("tuesday", 1)]) is None
    assert await store.budgets.spend([an_allowance("nothing", 0)]) == "nothing"
    assert await store.budgets.spend([]) is None


async def test_many_who_spend_at_once_spend_no_more_than_there_is(store: Store) -> None:
    shared, roomy = an_allowance("shared", 7), an_allowance("roomy", 100)
    spent = await at_once([store.budgets.spend([roomy, shared]) for _ in range(MANY)])
    assert (spent.count(None), spent.count("shared")) == (7, MANY - 7)
    assert await store.budgets.add(shared, 0) == 7
    assert await store.budgets.add(roomy, 0) == 7


async def test_twenty_allowances_are_spent_together(store: Store) -> None:
    allowances = [an_allowance(f"a{number}", 1) for number in range(20)]
    assert await store.budgets.spend(allowances) is None
    assert await store.budgets.spend(allowances) in {one.name for one in allowances}
    for allowance in allowances:
        assert await store.budgets.add(allowance, 0) == 1


async def test_what_is_given_back_can_be_spent_again(store: Store) -> None:
    one, other = an_allowance("one", 1), an_allowance("other", 5)
    assert await store.budgets.spend([one, other]) is None
    await store.budgets.give_back([one, other])
    assert await store.budgets.spend([one, other]) is None
    assert await store.budgets.spend([one]) == "one"
    assert await store.budgets.add(other, 0) == 1


async def test_nothing_is_given_back_that_was_not_spent(store: Store) -> None:
    spent, untouched = an_allowance("spent", 5), an_allowance("untouched", 1)
    await store.budgets.spend([spent])
    for _ in range(3):
        await store.budgets.give_back([spent, untouched])
    assert await store.budgets.add(spent, 0) == 0
    assert await store.budgets.spend([untouched]) is None
    assert await store.budgets.spend([untouched]) == "untouched"


async def test_a_sum_goes_beyond_the_most_and_is_then_used_up(store: Store) -> None:
    allowance = an_allowance(most=10)
    assert await store.budgets.add(allowance, 4) == 4
    assert await store.budgets.spend([allowance]) is None
    assert await store.budgets.add(allowance, 20) == 25
    assert await store.budgets.spend([allowance]) == allowance.name


async def test_sums_added_at_once_are_all_in(store: Store) -> None:
    allowance = an_allowance(most=1)
    sums = await at_once([store.budgets.add(allowance, 2) for _ in range(MANY)])
    assert sorted(sums) == [2 * number for number in range(1, MANY + 1)]


async def test_counts_outlive_a_restart(engine: Engine) -> None:
    async with engine.open() as store:
        assert await store.budgets.spend([an_allowance(most=1)]) is None
    async with engine.open() as store:
        assert await store.budgets.spend([an_allowance(most=1)]) == "sms#all"

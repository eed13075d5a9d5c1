# SPDX-License-Identifier: Apache-2.0
"""Codes: each as likely as the next, nothing to be read from what is kept, and what they cost."""

import os
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from tests.support.clock import NOW
from tests.unit.small_deployment import open_small_deployment
from tidings.actions.identity import phone_numbers
from tidings.actions.identity.code_sending import new_code
from tidings.actions.identity.phone_numbers import Kind, LoginBudgets
from tidings.actions.identity.refresh_tokens import LoginDigests
from tidings.assembly.system import SystemChance
from tidings.model import limits

DIGESTS = LoginDigests(os.urandom(32))


class Drawn:
    """Chance as it is written down."""

    def __init__(self, *values: int) -> None:
        self._values = list(values)

    def token(self, size: int) -> bytes:
        return self._values.pop(0).to_bytes(size, "big")


def test_a_code_is_six_digits() -> None:
    for _ in range(200):
        code = new_code(SystemChance())
        assert len(code) == limits.CODE_DIGITS and code.isascii() and code.isdigit()


def test_no_code_is_more_likely_than_another() -> None:
    even = 2**32 // 10**6 * 10**6
    assert new_code(Drawn(0)) == "000000"
    assert new_code(Drawn(even - 1)) == "999999"
    # What is left over would all be small ones: drawn again.
    assert new_code(Drawn(even, 2**32 - 1, 42)) == "000042"


def test_a_digest_of_a_code_is_for_one_number_of_one_tenant_of_one_deployment() -> None:
    number = "+41791234567"
    digests = {
        DIGESTS.code("acme", number, "123456"),
        DIGESTS.code("acme", number, "123457"),
        DIGESTS.code("acme", "+41791234568", "123456"),
        DIGESTS.code("beta", number, "123456"),
        DIGESTS.code("acme" + number, "", "123456"),
        LoginDigests(os.urandom(32)).code("acme", number, "123456"),
    }
    assert len(digests) == 6
    assert DIGESTS.code("acme", number, "123456") in digests


NUMBERS: dict[Kind, list[str]] = {
    "number_all_tenants": ["+41791234567"] * 3,
    "prefix": ["+41791234567", "+41791230000", "+41791239999"],
    "known_prefix": ["+41791234567", "+41791230000", "+41791239999"],
    "country": ["+41791234567", "+41781234567", "+41761234567"],
    "known_country": ["+41791234567", "+41781234567", "+41761234567"],
    "tenant": ["+41791234567", "+14155550123", "+442079460018"],
    "all": ["+41791234567", "+14155550123", "+442079460018"],
}


@pytest.mark.attack("B01", "B02")
@pytest.mark.parametrize("kind", NUMBERS)
async def test_each_budget_ends_by_itself_and_counts_nothing_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    if kind != "all":
        monkeypatch.setitem(phone_numbers._MOST, kind, 2)
    async with open_small_deployment(tmp_path) as world:
        budgets = LoginBudgets(world.store.budgets, DIGESTS, 2 if kind == "all" else 100)
        spend = partial(budgets.spend, "acme", is_known=kind.startswith("known"))
        spent = [await spend(number, NOW) for number in NUMBERS[kind]]
        assert spent == [None, None, kind]
        # What was refused has cost nothing: the first one given back, there is room again.
        is_known = kind.startswith("known")
        await budgets.give_back("acme", NUMBERS[kind][0], NOW, is_known=is_known)
        assert await spend(NUMBERS[kind][2], NOW) is None
        assert await spend(NUMBERS[kind][0], NOW) == kind
        assert await spend(NUMBERS[kind][0], NOW + limits.DAY_MS) is None


@pytest.mark.attack("S12", "B02")
async def test_a_number_is_counted_for_each_tenant_by_itself(tmp_path: Path) -> None:
    number = "+41791234567"
    async with open_small_deployment(tmp_path) as world:
        budgets = LoginBudgets(world.store.budgets, DIGESTS, 10_000)
        left = limits.CODES_MS - NOW % limits.CODES_MS
        for tenant in ("acme", "beta"):
            spent = [
                await budgets.spend_for_request(tenant, number, None, NOW)
                for _ in range(limits.NUMBER_CODES_MAX + 1)
            ]
            assert spent == [None] * limits.NUMBER_CODES_MAX + [left]
        await budgets.give_back_request("acme", number, None, NOW)
        assert await budgets.spend_for_request("acme", number, None, NOW) is None
        assert await budgets.spend_for_request("acme", number, None, NOW) == left


@pytest.mark.attack("B02")
async def test_a_number_is_counted_for_the_day_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(phone_numbers._MOST, "number_day", 1)
    async with open_small_deployment(tmp_path) as world:
        budgets = LoginBudgets(world.store.budgets, DIGESTS, 100)
        spend = partial(budgets.spend_for_request, "acme", "+41791234567", None)
        assert await spend(NOW) is None
        assert await spend(NOW) == limits.DAY_MS - NOW % limits.DAY_MS
        assert await spend(NOW + limits.DAY_MS) is None


@pytest.mark.attack("S12", "B01")
async def test_strangers_cannot_use_up_what_is_kept_for_known_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(phone_numbers._MOST, "prefix", 2)
    monkeypatch.setattr(limits, "SHARE_DAY_CODES_MIN", 5)
    known = "+41791230000"
    async with open_small_deployment(tmp_path) as world:
        budgets = LoginBudgets(world.store.budgets, DIGESTS, 10)
        numbers = [f"+4179123{last:04d}" for last in range(1, 4)]
        spent = [await budgets.spend("acme", one, NOW, is_known=False) for one in numbers]
        assert spent == [None, None, "prefix"]
        # Of the tenant's five, strangers get four, whatever numbers they make up.
        for prefix, used_up in (("+4178001", None), ("+4178002", None), ("+4178003", "tenant")):
            made_up = await budgets.spend("acme", f"{prefix}0000", NOW, is_known=False)
            assert (made_up or "").removesuffix("_unknown") == (used_up or "")
        assert await budgets.spend("acme", known, NOW, is_known=True) is None
        assert await budgets.spend("acme", known, NOW, is_known=True) == "tenant"


@pytest.mark.attack("S12")
async def test_a_number_that_all_tenants_send_to_is_left_alone_unless_its_user_asks(
    tmp_path: Path,
) -> None:
    number = "+41791234567"
    async with open_small_deployment(tmp_path) as world:
        budgets = LoginBudgets(world.store.budgets, DIGESTS, 10_000)
        for count in range(limits.NUMBER_ALL_TENANTS_DAY_CODES_MAX):
            assert await budgets.spend(f"t{count}", number, NOW, is_known=False) is None
        assert await budgets.spend("acme", number, NOW, is_known=False) == "number_all_tenants"
        assert await budgets.spend("acme", number, NOW, is_known=True) is None


@pytest.mark.attack("B02")
async def test_an_address_is_counted_by_itself(tmp_path: Path) -> None:
    async with open_small_deployment(tmp_path) as world:
        budgets = LoginBudgets(world.store.budgets, DIGESTS, 100)
        numbers = (f"+4179{last:07d}" for last in count())

        async def spend(address: str | None, now: int) -> int | None:
            return await budgets.spend_for_request("acme", next(numbers), address, now)

        for _ in range(limits.ADDRESS_CODES_MAX):
            assert await spend("192.0.2.1", NOW) is None
        left = limits.CODES_MS - NOW % limits.CODES_MS
        assert await spend("192.0.2.1", NOW) == left
        assert await spend("192.0.2.1", NOW + left) is None
        assert await spend("192.0.2.2", NOW) is None
        assert await spend(None, NOW) is None


async def test_a_budget_s_name_says_nothing_about_a_number(tmp_path: Path) -> None:
    number = "+41791234567"
    async with open_small_deployment(tmp_path) as world:
        budgets = LoginBudgets(world.store.budgets, DIGESTS, 100)
        await budgets.spend("acme", number, NOW, is_known=False)
        await budgets.spend_for_request("acme", number, "192.0.2.1", NOW)
    kept = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    assert b"codes:number:" in kept
    for hidden in (number, number[1:], number[1:-4], "192.0.2.1"):
        assert hidden.encode() not in kept

# SPDX-License-Identifier: Apache-2.0
"""What use cases of identity cost, by DynamoDB's own account, is what we say they cost."""

import asyncio
from pathlib import Path

import pytest

from scripts import cost_page as cases
from scripts.cost_page import IdentityCase, identity_cases
from tests.contract.cost_cases import Bill
from tests.contract.cost_checks import Budget, check_budget, check_cost, check_requests
from tests.contract.identity_cost_cases import identity_bills
from tidings.tools.charges import Units

CASES = list(identity_cases())

each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@pytest.fixture(scope="module")
def bills(dynamodb_endpoint: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Bill]:
    """Every use case, measured once."""
    folder: Path = tmp_path_factory.mktemp("cost")
    return asyncio.run(identity_bills(dynamodb_endpoint, folder))


def test_every_use_case_is_measured(bills: dict[str, Bill]) -> None:
    assert set(bills) == {case.name for case in CASES}


@each_case
def test_it_costs_what_we_say(bills: dict[str, Bill], case: IdentityCase) -> None:
    check_cost(bills[case.name], case.ours)


@each_case
def test_what_left_is_what_is_declared(bills: dict[str, Bill], case: IdentityCase) -> None:
    check_requests(bills[case.name])


# What the design promises.

BUDGETS: dict[str, Budget] = {
    cases.ASK: (Units(8, 0), Units(17, 4)),
    cases.FIRST_LOGIN: (Units(16, 6), Units(17, 6)),
    cases.NEXT_LOGIN: (Units(14, 8), Units(14, 8)),
    cases.REFRESH: (Units(2, 4), Units(2, 4)),
    cases.FIRST_SIGHT: (Units(0, 2), Units(0, 2)),
    cases.LOOK: (Units(0, 1), Units(0, 1)),
    cases.FIRST_NUMBER: (Units(4, 1), Units(4, 1)),
    cases.NEXT_NUMBER: (Units(8, 2), Units(8, 2)),
    cases.END_SESSION: (Units(6, 1), Units(6, 1)),
    cases.MAKE_TOKEN: (Units(2, 1), Units(2, 1)),
    cases.RECORD_ACT: (Units(4, 0), Units(4, 0)),
    cases.LIST_ACTS: (Units(0, 5), Units(0, 5)),
    cases.CONNECTIONS: (Units(0, 2), Units(0, 2)),
    cases.END_ALL: (Units(4, 2), Units(4, 2)),
    cases.BLOCK: (Units(8, 5), Units(8, 5)),
    cases.REGISTER_PUSH: (Units(8, 4), Units(8, 4)),
    cases.REGISTER_AGAIN: (Units(0, 1), Units(0, 1)),
    cases.BAN: (Units(4, 2), Units(4, 2)),
    cases.TENANT: (Units(0, 1.5), Units(0, 1.5)),
    cases.TRACE: (Units(0, 1.5), Units(0, 1.5)),
    cases.CREATE_AS_TENANT: (Units(46, 15), Units(47, 15)),
    cases.ERASE: (Units(10, 4), Units(10, 4)),
    cases.DELETE_USER: (Units(12, 3.5), Units(71, 71)),
    cases.MISSED_ERASURES: (Units(0, 1), Units(0, 1)),
    cases.NEW_USER: (Units(2, 1), Units(3, 1)),
    cases.LIST_USERS: (Units(0, 29), Units(0, 29)),
}


@pytest.mark.parametrize("name", BUDGETS)
def test_the_budget_is_kept(bills: dict[str, Bill], name: str) -> None:
    check_budget(bills[name], BUDGETS[name])

# SPDX-License-Identifier: Apache-2.0
"""What use cases of the inbox cost, by DynamoDB's own account, is what we say they cost."""

import asyncio
from pathlib import Path

import pytest

from scripts.cost_page import AUDIENCES, InboxCase, inbox_cases, post_name
from tests.contract.cost_cases import Bill
from tests.contract.cost_checks import Budget, check_budget, check_cost, check_requests
from tests.contract.inbox_cost_cases import inbox_bills
from tidings.tools.charges import Units, by_pattern
from tidings.tools.inbox_costs import QUEUE

OUTSIDE = {post_name(count): post_name(count, in_store=True) for count in AUDIENCES}
"""Posts with jobs outside of the store: the same without what concerns the queue."""
CASES = {case.name: case for case in inbox_cases()}
MEASURED = [case for name, case in CASES.items() if name not in OUTSIDE]

each_case = pytest.mark.parametrize("case", MEASURED, ids=lambda case: case.name)


@pytest.fixture(scope="module")
def bills(dynamodb_endpoint: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Bill]:
    """Every use case, measured once."""
    folder: Path = tmp_path_factory.mktemp("cost")
    return asyncio.run(inbox_bills(dynamodb_endpoint, folder))


def test_every_use_case_is_measured(bills: dict[str, Bill]) -> None:
    assert set(bills) == {case.name for case in MEASURED}


@each_case
def test_it_costs_what_we_say(bills: dict[str, Bill], case: InboxCase) -> None:
    check_cost(bills[case.name], case.ours)


@pytest.mark.parametrize("name", OUTSIDE)
def test_with_jobs_elsewhere_it_costs_the_rest(bills: dict[str, Bill], name: str) -> None:
    bill = bills[OUTSIDE[name]]
    rest = {one: units for one, units in bill.in_all.items() if one not in QUEUE}
    assert rest == by_pattern(CASES[name].ours.in_all)


@each_case
def test_what_left_is_what_is_declared(bills: dict[str, Bill], case: InboxCase) -> None:
    check_requests(bills[case.name])


# What the design promises.

BUDGETS: dict[str, Budget] = {
    "broadcast": (Units(1, 1), Units(2, 1)),
    "broadcast, with a key": (Units(2, 1), Units(3, 1)),
    "broadcast, where users have preferences": (Units(1, 1), Units(2, 1)),
    "retract, of 1,000 users": (Units(2, 2), Units(3, 2)),
    "retract a broadcast": (Units(2, 2), Units(3, 2)),
    "list of 50": (Units(0, 30), Units(0, 30)),
    "unread count, 50 copies": (Units(0, 3), Units(0, 3)),
    "unread count, 1,000 copies": (Units(0, 40), Units(0, 40)),
    "counts at hello, 1,000 copies": (Units(0, 5), Units(0, 5)),
    "read one of 50": (Units(1, 3), Units(1, 3)),
    "read all of 50": (Units(1, 4), Units(1, 4)),
    "read all of 50, by seconds": (Units(1, 7), Units(1, 7)),
    "archive one of 50": (Units(1, 4), Units(1, 4)),
    "archive a broadcast, 50 copies": (Units(1, 4), Units(1, 4)),
    "archive all of 50": (Units(1, 4), Units(1, 4)),
    "choose an action": (Units(1, 2), Units(1, 2)),
    "progress, of 1,000 users": (Units(0, 2), Units(0, 2)),
    "post to 1 user, jobs in the store": (Units(2, 0), Units(5, 1)),
    "post to 100 users, jobs in the store": (Units(5, 0), Units(110, 1)),
    "post to 1,000 users, jobs in the store": (Units(35, 0), Units(1_080, 10)),
}


@pytest.mark.parametrize("name", BUDGETS)
def test_the_budget_is_kept(bills: dict[str, Bill], name: str) -> None:
    check_budget(bills[name], BUDGETS[name])


def test_a_copy_is_one_unit(bills: dict[str, Bill]) -> None:
    for count in AUDIENCES:
        bill = bills[post_name(count, in_store=True)]
        assert bill.in_all["deliver_copy"] == Units(count)
        assert bill.counts["deliver_copy"] == count

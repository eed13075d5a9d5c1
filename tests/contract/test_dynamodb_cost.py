# SPDX-License-Identifier: Apache-2.0
"""What use cases cost, by DynamoDB's own account of every request, is what we say they cost."""

import asyncio
from pathlib import Path

import pytest

from scripts.cost_page import LARGE, ONLINE, SMALL, UseCase, send_name, use_cases
from tests.contract.cost_cases import Bill, all_bills
from tests.contract.cost_checks import Budget, check_budget, check_cost, check_requests, total
from tidings.tools.charges import Units

USE_CASES = {case.name: case for case in use_cases()}

each_case = pytest.mark.parametrize("case", USE_CASES.values(), ids=lambda case: case.name)


@pytest.fixture(scope="module")
def bills(dynamodb_endpoint: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Bill]:
    """Every use case, measured once."""
    folder: Path = tmp_path_factory.mktemp("cost")
    return asyncio.run(all_bills(dynamodb_endpoint, folder))


def test_every_use_case_is_measured(bills: dict[str, Bill]) -> None:
    assert set(bills) == set(USE_CASES)


@each_case
def test_it_costs_what_we_say(bills: dict[str, Bill], case: UseCase) -> None:
    check_cost(bills[case.name], case.ours)


@each_case
def test_what_left_is_what_is_declared(bills: dict[str, Bill], case: UseCase) -> None:
    check_requests(bills[case.name])


def test_nothing_scans(bills: dict[str, Bill]) -> None:
    sent = {request.operation for bill in bills.values() for request in bill.requests}
    assert "Scan" not in sent
    assert "Query" in sent


# What the design promises.


def test_one_message_takes_two_requests(bills: dict[str, Bill]) -> None:
    assert sum(bills["one message, by its id"].counts.values()) == 2


BUDGETS: dict[str, Budget] = {
    "send, 1:1, online, 100 bytes": (Units(2, 0), Units(6, 2)),
    "send, 1:1, offline, 100 bytes": (Units(2, 0), Units(4, 0)),
    "send, 10 members, online, 100 bytes": (Units(2, 0), Units(22, 18)),
    "send, 100 members, online, 100 bytes": (Units(2, 0), Units(103, 198)),
    "send, 1,000 members, 100 online, 100 bytes": (Units(2, 0), Units(104, 200)),
    "send, 1:1, online, expires": (Units(3, 0), Units(7, 2)),
    "send, 1:1, online, the reader at another gateway": (Units(2, 0), Units(6, 2)),
    "send, 1:1, two processes in turn": (Units(3, 1), Units(5, 1)),
    "send, 16 at once in one chat": (Units(20, 0), Units(22, 0)),
    "send, 16 at once in one chat, with `after`": (Units(4, 0), Units(6, 0)),
    "edit": (Units(6, 4.5), Units(8, 4.5)),
    "redact": (Units(6, 4.5), Units(8, 5.5)),
    "react": (Units(6, 4.5), Units(8, 4.5)),
    "schedule a message": (Units(3, 1), Units(3, 1)),
    "send a scheduled message, 1:1, offline": (Units(5, 2), Units(7, 2)),
    "an event for a webhook endpoint": (Units(3, 9), Units(3, 9)),
    "a push notice of a message, to one device": (Units(1, 4), Units(1, 4)),
    "pin": (Units(6, 5.5), Units(8, 5.5)),
    "reply, 1:1, offline": (Units(7, 2), Units(9, 2)),
    "mention of one user, 1:1, offline": (Units(5, 0), Units(7, 0)),
    "post by the tenant, 1:1, offline": (Units(6, 0), Units(8, 0)),
    "message with one file, 1:1, offline": (Units(5, 1), Units(7, 1)),
    "add a member to ten": (Units(11, 4), Units(12, 4)),
    "remove a member of ten": (Units(10, 2), Units(11, 2)),
    "delete a chat of ten, 2 messages": (Units(10, 3), Units(55, 10)),
    "mark read, over REST": (Units(1, 2), Units(1, 2)),
    "mark unread": (Units(1, 6.5), Units(1, 6.5)),
    "hide a chat": (Units(1, 1), Units(1, 1)),
    "who read a message, 1:1": (Units(0, 7.5), Units(0, 7.5)),
    "report a message, 1:1": (Units(6, 3.5), Units(6, 3.5)),
    "explain a message, 1:1": (Units(0, 11), Units(0, 11)),
    "unread total of 50 direct chats": (Units(0, 10), Units(0, 10)),
    "history page of 50": (Units(0, 7.5), Units(0, 7.5)),
    "log page of 50, for the tenant": (Units(0, 12.5), Units(0, 12.5)),
    "one message, by its id": (Units(0, 3.5), Units(0, 3.5)),
    "search in a chat of 60 messages": (Units(0, 10), Units(0, 10)),
    "chat list of 50 direct chats": (Units(0, 10), Units(0, 10)),
    "chat list of 40 groups and 10 direct chats": (Units(0, 25), Units(0, 25)),
    "hello, 50 direct chats, nothing new": (Units(0, 10), Units(0, 36)),
    "hello, 40 groups and 10 direct chats, nothing new": (Units(0, 44), Units(0, 75)),
    "hello by heads, 50 direct chats, 100 missed": (Units(0, 10), Units(0, 36)),
    "reconnect, 50 direct chats, 100 missed": (Units(0, 20), Units(0, 48)),
}


@pytest.mark.parametrize("name", BUDGETS)
def test_the_budget_is_kept(bills: dict[str, Bill], name: str) -> None:
    check_budget(bills[name], BUDGETS[name])


def test_a_message_costs_its_sender_the_same_in_every_chat(bills: dict[str, Bill]) -> None:
    for size, readers in ONLINE.items():
        for content, units in ((SMALL, 2), (LARGE, 6)):
            bill = bills[send_name(size, content, readers)]
            assert total(bill.to_the_answer) == Units(units, 0)

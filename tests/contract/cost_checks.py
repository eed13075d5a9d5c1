# SPDX-License-Identifier: Apache-2.0
"""What is demanded of the bill of a use case."""

from tests.contract.cost_cases import Bill, Reading
from tidings.stores.dynamodb.patterns import Pattern, declared
from tidings.tools.charges import NOTHING, Units, by_pattern, requests_by_pattern
from tidings.tools.chat_costs import Cost

Budget = tuple[Units, Units]
"""At most, to the answer and in all: in figures, whatever the formulas say."""

PATTERNS = {pattern.name: pattern for pattern in declared()}


def total(reading: Reading) -> Units:
    """All of it."""
    return sum(reading.values(), NOTHING)


def check_cost(bill: Bill, cost: Cost) -> None:
    """Pattern by pattern: so it also uses just the patterns that belong to it."""
    assert bill.to_the_answer == by_pattern(cost.to_the_answer)
    assert bill.in_all == by_pattern(cost.in_all)
    assert bill.counts == requests_by_pattern(cost.in_all)


def check_requests(bill: Bill) -> None:
    """The requests themselves, as they were sent: table, index, operation and consistency."""
    patterns = [PATTERNS[name] for name in bill.in_all]
    for request in bill.requests:
        fitting = [
            pattern
            for pattern in patterns
            if (pattern.operation, pattern.index, pattern.strong)
            == (request.operation, request.index, request.strong)
            and _is_about(pattern, request.tables)
        ]
        assert fitting, f"{request} belongs to none of {[one.name for one in patterns]}"
    assert {request.operation for request in bill.requests} == {
        pattern.operation for pattern in patterns
    }


def _is_about(pattern: Pattern, tables: frozenset[str]) -> bool:
    if pattern.operation == "TransactWriteItems" or len(pattern.tables) > 1:
        return tables <= set(pattern.tables)
    return tables == set(pattern.tables)


def check_budget(bill: Bill, budget: Budget) -> None:
    """It stays within it."""
    for used, most in zip((total(bill.to_the_answer), total(bill.in_all)), budget, strict=True):
        assert used.write <= most.write
        assert used.read <= most.read

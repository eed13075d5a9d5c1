# SPDX-License-Identifier: Apache-2.0
"""Retries: which, how often, how long, and what is known afterwards."""

import asyncio
from collections.abc import Callable

import pytest

from tidings.model.refusals import StoreUnavailable
from tidings.stores.dynamodb.client import retrying
from tidings.stores.dynamodb.client.retrying import (
    ATTEMPTS_MAX,
    Budget,
    ConditionFailed,
    Conflicted,
    Rejected,
    RequestError,
    Retrying,
    Throttled,
    Unanswered,
    Unsent,
)


class Least:
    """Always the smallest number: no pause at all."""

    def token(self, size: int) -> bytes:
        return bytes(size)


class Most:
    """Always the largest number: the longest pauses there are."""

    def token(self, size: int) -> bytes:
        return b"\xff" * size


class Attempts:
    """Fails with these, one after the other, then answers."""

    def __init__(self, *troubles: RequestError) -> None:
        self._troubles = list(troubles)
        self.made = 0

    async def __call__(self, until: float) -> str:
        self.made += 1
        if self._troubles:
            raise self._troubles.pop(0)
        return "answer"


@pytest.mark.parametrize("trouble", [Throttled, Unsent, Unanswered, Conflicted])
async def test_passing_trouble_is_passed_over(trouble: Callable[[], RequestError]) -> None:
    attempts = Attempts(trouble(), trouble())
    assert await Retrying(Least(), Budget()).call(attempts) == "answer"
    assert attempts.made == 3


@pytest.mark.attack("F13")
async def test_there_is_an_end_to_it() -> None:
    attempts = Attempts(*[Throttled() for _ in range(99)])
    with pytest.raises(StoreUnavailable):
        await Retrying(Least(), Budget()).call(attempts)
    assert attempts.made == ATTEMPTS_MAX


async def test_an_answer_is_an_answer() -> None:
    for trouble in (ConditionFailed(None), Rejected("AccessDenied", "no")):
        attempts = Attempts(trouble)
        with pytest.raises(type(trouble)):
            await Retrying(Least(), Budget()).call(attempts)
        assert attempts.made == 1


async def test_whoever_gives_way_hears_of_a_conflict() -> None:
    with pytest.raises(Conflicted):
        await Retrying(Least(), Budget()).call(Attempts(Conflicted()), gives_way=True)


@pytest.mark.parametrize(
    ("before", "is_repeat"),
    [([], False), ([Throttled()], False), ([Unsent()], False), ([Unanswered(), Throttled()], True)],
)
async def test_a_condition_may_have_failed_by_an_own_earlier_attempt(
    before: list[RequestError], is_repeat: bool
) -> None:
    with pytest.raises(ConditionFailed) as caught:
        await Retrying(Least(), Budget()).call(Attempts(*before, ConditionFailed({"a": 1})))
    assert caught.value.is_repeat is is_repeat


async def test_no_retry_begins_after_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retrying, "DEADLINE_SECONDS", 0.02)
    attempts = Attempts(*[Throttled() for _ in range(99)])
    with pytest.raises(StoreUnavailable):
        await Retrying(Most(), Budget()).call(attempts)
    assert attempts.made == 1, "the first pause would have ended too late"


async def test_attempts_at_a_change_pause_only_between_two(monkeypatch: pytest.MonkeyPatch) -> None:
    policy, pauses = Retrying(Least(), Budget()), list[int]()

    def pause_before(attempt: int) -> float:
        pauses.append(attempt)
        return 0.0

    monkeypatch.setattr(policy, "pause_before", pause_before)
    assert [attempt async for attempt in policy.attempts(3)] == [1, 2, 3]
    assert pauses == [1, 2]


def test_pauses_double_up_to_a_limit_and_are_drawn_from_all_of_it() -> None:
    longest = [Retrying(Most(), Budget()).pause_before(attempt) for attempt in range(1, 9)]
    assert longest == pytest.approx([0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 1, 1])
    assert Retrying(Least(), Budget()).pause_before(5) == 0


@pytest.mark.attack("F13")
async def test_all_calls_share_a_budget_that_answers_refill() -> None:
    budget = Budget(retries=3)
    patient = Retrying(Least(), budget)
    down = [Attempts(*[Unsent() for _ in range(99)]) for _ in range(20)]
    for attempts in down:
        with pytest.raises(StoreUnavailable):
            await patient.call(attempts)
    assert sum(attempts.made for attempts in down) == 20 + 3, "one each, and three retries in all"

    for _ in range(20):
        await patient.call(Attempts())
    again = Attempts(Unsent(), Unsent())
    assert await patient.call(again) == "answer", "twenty answers are worth two retries"


async def test_a_budget_is_never_fuller_than_at_first() -> None:
    budget = Budget(retries=1)
    for _ in range(100):
        budget.refund()
    assert [budget.take() for _ in range(3)] == [True, False, False]


async def test_cancelling_is_no_trouble_to_be_retried() -> None:
    begun = asyncio.Event()

    async def hang(until: float) -> None:
        begun.set()
        await asyncio.Event().wait()

    task = asyncio.get_running_loop().create_task(Retrying(Least(), Budget()).call(hang))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

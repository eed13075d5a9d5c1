# SPDX-License-Identifier: Apache-2.0
"""The test of the test: every rule turns red, and a server that lies is found out."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.checker import RULES, check
from tests.faults.fault_run import crash_under_load
from tests.faults.history import Answer, Attempt, History, Seen, View
from tests.faults.verdict import (
    ACKNOWLEDGED_MIN,
    KILLS_IN_FLIGHT_MIN,
    LIARS_CATCH_UP_SECONDS,
    RECONNECTS_WITH_NEWS_MIN,
)
from tests.support.server import NO_LIMITS, ServerProcess

ACK_BEFORE_COMMIT = Path(__file__).with_name("sabotage_ack_before_commit.py")
CHAT = "chat"


def entry(sequence: int, what: str | None = None) -> Seen:
    body = what or f"body-{sequence}"
    return Seen(sequence, body, f"time-{sequence}", f"{CHAT}.{sequence}")


def sent(sequence: int, *, invoked: int, ended: int, process: str = "phone#0") -> Attempt:
    answer = Answer(sequence, f"{CHAT}.{sequence}", f"time-{sequence}")
    return Attempt(process, CHAT, f"body-{sequence}", invoked, ended, "ok", answer)


def clean_history(messages: int = 4) -> History:
    """One chat, one device, messages sent one after the other, all acknowledged."""
    log = [Seen(1, "created", "time-1"), *(entry(n) for n in range(2, messages + 2))]
    return History(
        attempts=[sent(n, invoked=10 * n, ended=10 * n + 5) for n in range(2, messages + 2)],
        views=[View("ann/phone", CHAT, list(log))],
        glimpses={CHAT: set(log)},
        final={CHAT: list(log)},
    )


def lose_the_last(history: History) -> None:
    for log in (history.final[CHAT], history.views[0].log):
        log.pop()


def store_twice(history: History) -> None:
    history.final[CHAT].append(entry(6, "body-5"))
    history.views[0].log.append(entry(6, "body-5"))


def show_once_and_take_back(history: History) -> None:
    history.glimpses[CHAT].add(entry(6, "body-5"))


def let_a_refusal_through(history: History) -> None:
    history.attempts[-1].outcome = "fail"


def make_up_a_message(history: History) -> None:
    history.glimpses[CHAT].add(entry(6, "never-sent"))


def tell_two_stories(history: History) -> None:
    history.views[0].log[3] = Seen(4, "body-4", "another time", f"{CHAT}.4")


def leave_a_hole(history: History) -> None:
    del history.attempts[1], history.final[CHAT][2], history.views[0].log[2]


def skip_on_a_device(history: History) -> None:
    del history.views[0].log[2]


def repeat_on_a_device(history: History) -> None:
    history.views[0].log.insert(2, history.views[0].log[1])


def never_finish_a_device(history: History) -> None:
    history.views[0].log.pop()


def roll_the_log_back(history: History) -> None:
    history.views[0].log.append(entry(6))
    history.attempts.append(Attempt("phone#0", CHAT, "body-6", 60, 65))


def answer_differently(history: History) -> None:
    again = sent(5, invoked=60, ended=65)
    again.answer = Answer(5, f"{CHAT}.5", "later")
    history.attempts.append(again)


def acknowledge_another_place(history: History) -> None:
    history.attempts[-1].answer = Answer(9, f"{CHAT}.9", "time-9")


def put_later_before_earlier(history: History) -> None:
    history.attempts[0].invoked, history.attempts[0].ended = 100, 105


def overtake(history: History) -> None:
    for attempt, invoked in zip(history.attempts, (24, 23, 22, 21), strict=True):
        attempt.invoked, attempt.ended = invoked, 50


SPOIL: list[tuple[Callable[[History], None], str]] = [
    (lose_the_last, "lost"),
    (store_twice, "doubled"),
    (show_once_and_take_back, "doubled"),
    (let_a_refusal_through, "phantom"),
    (make_up_a_message, "alien"),
    (tell_two_stories, "disagreement"),
    (leave_a_hole, "gap"),
    (skip_on_a_device, "skip"),
    (repeat_on_a_device, "skip"),
    (never_finish_a_device, "incomplete"),
    (roll_the_log_back, "rolled back"),
    (answer_differently, "two answers"),
    (acknowledge_another_place, "moved"),
    (put_later_before_earlier, "out of time"),
    (overtake, "overtaken"),
]


def test_a_clean_history_breaks_no_rule() -> None:
    assert check(clean_history()).violations == []


@pytest.mark.parametrize(("spoil", "complaint"), SPOIL)
def test_each_rule_turns_red(spoil: Callable[[History], None], complaint: str) -> None:
    history = clean_history()
    spoil(history)
    verdict = check(history)
    assert verdict.outcome == "invalid"
    assert complaint in {violation.partition(":")[0] for violation in verdict.violations}


def test_every_rule_has_been_seen_red() -> None:
    red = set()
    for spoil, _ in SPOIL:
        history = clean_history()
        spoil(history)
        red |= {rule for rule in RULES if list(rule(history))}
    assert red == set(RULES)


def eventful_history() -> History:
    """Just enough of everything for the verdict to mean something."""
    history = clean_history(ACKNOWLEDGED_MIN)
    for number in range(KILLS_IN_FLIGHT_MIN):
        history.kills.append(1_000_005 + 10 * number)
        history.attempts.append(
            Attempt(
                "phone#1", CHAT, f"cut-{number}", 1_000_000 + 10 * number, history.kills[-1] + 1
            )
        )
    history.reconnects = [1] * RECONNECTS_WITH_NEWS_MIN
    return history


def too_few_acknowledged(history: History) -> None:
    history.attempts[0].outcome = "info"


def too_few_kills_in_flight(history: History) -> None:
    history.attempts.pop()


def too_few_reconnects_with_news(history: History) -> None:
    history.reconnects[0] = 0


def test_an_eventful_history_is_valid() -> None:
    assert check(eventful_history()).outcome == "valid"


@pytest.mark.parametrize(
    "lessen", [too_few_acknowledged, too_few_kills_in_flight, too_few_reconnects_with_news]
)
def test_a_run_in_which_little_happened_is_unknown(lessen: Callable[[History], None]) -> None:
    history = eventful_history()
    lessen(history)
    verdict = check(history)
    assert verdict.outcome == "unknown", str(verdict)


@pytest.mark.slow
async def test_a_server_that_answers_before_it_commits_is_found_out(tmp_path: Path) -> None:
    async def sabotage(server: ServerProcess) -> None:
        server.launcher = ACK_BEFORE_COMMIT
        await server.restart()

    async with ServerProcess(tmp_path / "data", environment=NO_LIMITS) as server:
        history = await crash_under_load(
            server,
            seed=4,
            crashes=2,
            prepare=sabotage,
            catch_up_seconds=LIARS_CATCH_UP_SECONDS,
        )
    verdict = check(history)
    assert verdict.outcome == "invalid"
    assert any(violation.startswith("lost:") for violation in verdict.violations), str(verdict)

# SPDX-License-Identifier: Apache-2.0
"""Which attacks a run has answered: every report carries the ids its test was marked with.

The ids travel as properties of the reports, so that they reach the process that prints, whichever
process ran the test, and stand in the JUnit file.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Final

import pytest

from tests.attacks.catalogue import ATTACKS, NOT_SHOWN_YET
from tests.attacks.not_applicable import NOT_APPLICABLE

MARKER: Final = "attack"
BAD_OUTCOMES: Final = ("failed", "error", "xfailed", "xpassed")
PASSED: Final = "passed"
FAILED: Final = "FAILED"
NOT_APPLICABLE_HERE: Final = "not applicable"
NOT_RUN: Final = "not run"
NO_TEST: Final = "without a test"
VERDICTS: Final = (PASSED, FAILED, NOT_APPLICABLE_HERE, NOT_RUN, NO_TEST)
NAMED_MAX: Final = 40
"""A run of one file leaves most of them out, which nobody wants to read."""

Outcomes = dict[str, Counter[str]]
"""For each id, how many tests ended in which way."""


def note_attacks(items: Iterable[pytest.Item]) -> None:
    """Put the ids that tests are marked with into what will be reported of them."""
    for item in items:
        for mark in item.iter_markers(MARKER):
            item.user_properties += [(MARKER, str(one)) for one in mark.args]


def tell_attacks(reporter: pytest.TerminalReporter) -> None:
    """A line for each attack that a test of this run stood for, and what became of all others."""
    outcomes = _outcomes(reporter)
    if not outcomes:
        return
    reporter.section("attacks")
    verdicts = {one: verdict_of(one, outcomes) for one in ATTACKS}
    for one, verdict in verdicts.items():
        if one in outcomes:
            line = f"{one}  {_told(verdict, outcomes[one]):<14} {ATTACKS[one]}"
            reporter.write_line(line, red=verdict == FAILED, bold=verdict == FAILED)
        elif verdict == NOT_APPLICABLE_HERE:
            reporter.write_line(f"{one}  {verdict:<14} {ATTACKS[one]}: {NOT_APPLICABLE[one]}")
    counts = Counter(verdicts.values())
    reporter.write_line(
        f"{len(ATTACKS)} attacks: "
        + ", ".join(f"{counts[one]} {one.lower()}" for one in VERDICTS if counts[one])
    )
    for verdict in (NOT_RUN, NO_TEST):
        some = [one for one in ATTACKS if verdicts[one] == verdict]
        if 0 < len(some) <= NAMED_MAX:
            reporter.write_line(f"{verdict}: {' '.join(some)}")


def verdict_of(one: str, outcomes: Outcomes) -> str:
    """What a run says about an attack."""
    if one in outcomes:
        count = outcomes[one]
        if any(count[outcome] for outcome in BAD_OUTCOMES):
            return FAILED
        return PASSED if count["passed"] else NOT_RUN
    if one in NOT_APPLICABLE:
        return NOT_APPLICABLE_HERE
    return NO_TEST if one in NOT_SHOWN_YET else NOT_RUN


def _outcomes(reporter: pytest.TerminalReporter) -> Outcomes:
    outcomes: Outcomes = defaultdict(Counter)
    for outcome in ("passed", "skipped", *BAD_OUTCOMES):
        for report in reporter.stats.get(outcome, ()):
            # A test that is marked by itself and by its module counts once.
            for one in {
                one for name, one in getattr(report, "user_properties", ()) if name == MARKER
            }:
                outcomes[one][outcome] += 1
    return outcomes


def _told(verdict: str, count: Counter[str]) -> str:
    return f"{verdict} ({count['passed']})" if verdict == PASSED else verdict

# SPDX-License-Identifier: Apache-2.0
"""Which attacks a run has answered: every report carries the ids its test was marked with.

The ids travel as properties of the reports, so that they reach the process that prints, whichever
process ran the test, and stand in the JUnit file.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Final

import pytest

from tests.attacks.catalogue import ATTACKS
from tests.attacks.not_applicable import NOT_APPLICABLE

MARKER: Final = "attack"
BAD_OUTCOMES: Final = ("failed", "error", "xfailed", "xpassed")

Outcomes = dict[str, Counter[str]]
"""For each id, how many tests ended in which way."""


def note_attacks(items: Iterable[pytest.Item]) -> None:
    """Put the ids that tests are marked with into what will be reported of them."""
    for item in items:
        for mark in item.iter_markers(MARKER):
            item.user_properties += [(MARKER, str(one)) for one in mark.args]


def tell_attacks(reporter: pytest.TerminalReporter) -> None:
    """A line for each attack that a test of this run stood for, and one for all the others."""
    outcomes = _outcomes(reporter)
    if not outcomes:
        return
    reporter.section("attacks")
    for one, title in ATTACKS.items():
        if one in outcomes:
            is_bad = _is_bad(outcomes[one])
            line = f"{one}  {_verdict(outcomes[one]):<14} {title}"
            reporter.write_line(line, red=is_bad, bold=is_bad)
        elif one in NOT_APPLICABLE:
            reporter.write_line(f"{one}  {'not applicable':<14} {title}: {NOT_APPLICABLE[one]}")
    if left := [one for one in ATTACKS if one not in outcomes | NOT_APPLICABLE]:
        reporter.write_line(f"not run: {' '.join(left)}")


def _outcomes(reporter: pytest.TerminalReporter) -> Outcomes:
    outcomes: Outcomes = defaultdict(Counter)
    for outcome in ("passed", "skipped", *BAD_OUTCOMES):
        for report in reporter.stats.get(outcome, ()):
            # A test that is marked by itself and by its module counts once.
            for one in {one for name, one in report.user_properties if name == MARKER}:
                outcomes[one][outcome] += 1
    return outcomes


def _is_bad(count: Counter[str]) -> bool:
    return any(count[outcome] for outcome in BAD_OUTCOMES)


def _verdict(count: Counter[str]) -> str:
    if _is_bad(count):
        return "FAILED"
    return f"passed ({count['passed']})" if count["passed"] else "not run"

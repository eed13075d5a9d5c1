# SPDX-License-Identifier: Apache-2.0
"""What a run tells about attacks: each that it stood for, and how many it did not."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.attacks.catalogue import ATTACKS
from tests.attacks.not_applicable import NOT_APPLICABLE
from tests.attacks.report import MARKER, tell_attacks


class Reporter:
    """Keeps what it is told to write."""

    def __init__(self, **stats: list[tuple[str, ...]]) -> None:
        self.lines: list[str] = []
        self.stats = {
            outcome: [
                SimpleNamespace(user_properties=[(MARKER, one) for one in ids]) for ids in reports
            ]
            for outcome, reports in stats.items()
        }

    def section(self, title: str) -> None:
        self.lines.append(title)

    def write_line(self, line: str, **_: object) -> None:
        self.lines.append(line)


def told(**stats: list[tuple[str, ...]]) -> list[str]:
    reporter = Reporter(**stats)
    tell_attacks(cast(pytest.TerminalReporter, cast(Any, reporter)))
    return reporter.lines


def test_a_run_without_attacks_says_nothing() -> None:
    assert told(passed=[()]) == []


def test_one_failure_outweighs_whatever_passed() -> None:
    lines = told(passed=[("A01",), ("A01", "A02"), ("A02",)], failed=[("A02",)], skipped=[("A03",)])
    found = {line[:3]: line[5:19].strip() for line in lines if line[:3] in ATTACKS}
    assert found.items() >= {"A01": "passed (2)", "A02": "FAILED", "A03": "not run"}.items()
    assert dict.fromkeys(NOT_APPLICABLE, "not applicable").items() <= found.items()
    summary = next(line for line in lines if line.startswith(f"{len(ATTACKS)} attacks: "))
    assert "1 passed, 1 failed" in summary
    assert summary.count("not applicable") == bool(NOT_APPLICABLE)


def test_every_attack_is_told_of_in_a_whole_run() -> None:
    lines = told(passed=[(one,) for one in ATTACKS if one not in NOT_APPLICABLE])
    assert {line[:3] for line in lines} >= ATTACKS.keys()
    passed, others = len(ATTACKS) - len(NOT_APPLICABLE), len(NOT_APPLICABLE)
    rest = f", {others} not applicable" if others else ""
    assert lines[-1] == f"{len(ATTACKS)} attacks: {passed} passed{rest}"

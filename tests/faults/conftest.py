# SPDX-License-Identifier: Apache-2.0
"""Says at the end of a run what the fault tests went through, and what could not be tested here."""

from collections.abc import Callable
from typing import Final

import pytest

from tests.faults.disk_shim import NOT_TESTED, find_compiler

Say = Callable[[str], None]

_LINES: Final = pytest.StashKey[list[str]]()


@pytest.fixture
def say(request: pytest.FixtureRequest) -> Say:
    """Puts a line on the terminal, whether or not the test passes."""
    return request.config.stash.setdefault(_LINES, []).append


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    lines = terminalreporter.config.stash.get(_LINES, [])
    if lines:
        terminalreporter.section("faults")
    for line in lines:
        terminalreporter.write_line(line)
    if find_compiler() is None:
        terminalreporter.write_line(NOT_TESTED, red=True, bold=True)

# SPDX-License-Identifier: Apache-2.0
"""Says at the end of a run what the fault tests went through, and what could not be tested here."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.faults.disk_shim import NOT_TESTED, build_shim, find_compiler

Say = Callable[[str], None]

_LINES: Final = pytest.StashKey[list[str]]()


@pytest.fixture
def say(request: pytest.FixtureRequest) -> Say:
    """Puts a line on the terminal, whether or not the test passes."""
    return request.config.stash.setdefault(_LINES, []).append


@pytest.fixture(scope="session")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that stands between a server and its disk."""
    return build_shim(tmp_path_factory.mktemp("shim"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    lines = terminalreporter.config.stash.get(_LINES, [])
    if lines:
        terminalreporter.section("faults")
    for line in lines:
        terminalreporter.write_line(line)
    if find_compiler() is None:
        terminalreporter.write_line(NOT_TESTED, red=True, bold=True)

# SPDX-License-Identifier: Apache-2.0
"""Says loudly what could not be tested here."""

import pytest

from tests.faults.disk_shim import NOT_TESTED, find_compiler


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if find_compiler() is None:
        terminalreporter.write_line(NOT_TESTED, red=True, bold=True)

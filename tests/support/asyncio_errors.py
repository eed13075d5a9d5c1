# SPDX-License-Identifier: Apache-2.0
"""Fails a test in which asyncio reports a lost task or exception.

If a task is dropped before its end, or nobody retrieves its exception, asyncio only logs this. It
does so when the object is garbage collected, which may be in a later test; the report names the
task.
"""

import logging
from collections.abc import Iterator
from typing import Final

import pytest

LOST: Final = (
    "Task was destroyed but it is pending",
    "Task exception was never retrieved",
    "Future exception was never retrieved",
)


class LostErrors(logging.Handler):
    """Log handler that collects asyncio's reports of lost tasks and exceptions."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.reports: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.getMessage().startswith(LOST):
            self.reports.append(self.format(record))


@pytest.fixture(autouse=True)
def no_lost_errors() -> Iterator[None]:
    """Fail the test in which asyncio reports a lost task or exception."""
    logger, lost = logging.getLogger("asyncio"), LostErrors()
    logger.addHandler(lost)
    yield
    logger.removeHandler(lost)
    if lost.reports:
        pytest.fail("\n\n".join(lost.reports), pytrace=False)

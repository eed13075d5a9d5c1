# SPDX-License-Identifier: Apache-2.0
"""What asyncio only logs is noticed: a task whose exception nobody asked for."""

import logging

from tests.support.asyncio_errors import LostErrors


def report_of(text: str) -> list[str]:
    lost = LostErrors()
    lost.handle(logging.LogRecord("asyncio", logging.ERROR, __file__, 1, text, None, None))
    return lost.reports


def test_a_lost_task_or_exception_is_kept() -> None:
    told = "Task exception was never retrieved\nfuture: <Task finished>"
    assert report_of(told) == [told]
    assert report_of("Task was destroyed but it is pending!")


def test_other_errors_of_asyncio_are_for_those_who_read_logs() -> None:
    assert report_of("Fatal error on transport") == []

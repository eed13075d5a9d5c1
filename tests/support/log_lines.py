# SPDX-License-Identifier: Apache-2.0
"""Finds log records of the server that are not declared, and shows lines as operators see them."""

import json
import logging
from collections.abc import Generator

import pytest

from tidings.cli.serve import STANDARD, JsonLines
from tidings.logs.declared import ACTIONS, MORE

OWN = "tidings."
OF_THE_LIBRARY = "tidings.socket"
"""Loggers that the WebSocket library uses for us."""


def undeclared(record: logging.LogRecord) -> str | None:
    """What is wrong with a record of the server; None if it is as declared."""
    if not record.name.startswith(OWN) or record.name.startswith(OF_THE_LIBRARY):
        return None
    fields = {name: value for name, value in vars(record).items() if name not in STANDARD}
    action = ACTIONS.get(fields.pop("action", ""))
    if action is None:
        return f"no declared action: {record.getMessage()}"
    more = fields.keys() - set(action.fields)
    return f"{record.getMessage()}: {sorted(more)}" if more and MORE not in action.fields else None


class Undeclared(logging.Handler):
    """Collects what is wrong with the records of a process."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if wrong := undeclared(record):
            self.found.append(wrong)


class _Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(JsonLines())
        self.lines: list[dict[str, object]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(json.loads(self.format(record)))


@pytest.fixture
def json_lines() -> Generator[list[dict[str, object]]]:
    """The lines that this process logs during a test, from the level `warning` on."""
    handler, log = _Lines(), logging.getLogger("tidings")
    log.addHandler(handler)
    yield handler.lines
    log.removeHandler(handler)

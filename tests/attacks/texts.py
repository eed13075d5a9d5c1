# SPDX-License-Identifier: Apache-2.0
"""The login codes that the server sends to phones, read from its log."""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager


class Texts(logging.Handler):
    """Reads the codes that the server sends to phones, from its log."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._codes: dict[str, str] = {}

    def emit(self, record: logging.LogRecord) -> None:
        found = re.search(r"\b\d{6}\b", getattr(record, "text", ""))
        if found is not None:
            self._codes[record.__dict__["phone_number"]] = found[0]

    def code(self, phone_number: str) -> str:
        """The last code sent to a number."""
        return self._codes[phone_number]


@contextmanager
def reading_texts() -> Iterator[Texts]:
    """The codes sent while the context is open."""
    log, texts = logging.getLogger("tidings.sms"), Texts()
    level = log.level
    log.addHandler(texts)
    log.setLevel(logging.INFO)
    try:
        yield texts
    finally:
        log.removeHandler(texts)
        log.setLevel(level)

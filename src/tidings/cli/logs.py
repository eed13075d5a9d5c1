# SPDX-License-Identifier: Apache-2.0
"""Logs: one JSON object per line on standard error, in UTC, never with content or secrets."""

import json
import logging
import sys
from typing import Final

from tidings.model.times import rfc3339

_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_SOCKET: Final = "tidings.socket"


class JsonLines(logging.Formatter):
    """Formatter for time, level, logger, message, and the fields of `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": rfc3339(int(record.created * 1_000)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {name: value for name, value in vars(record).items() if name not in _STANDARD}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class _ExpectedOfClients(logging.Filter):
    """Filter for broken frames and handshakes: errors of clients, of no use to an operator."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not record.name.startswith(_SOCKET) or not record.getMessage().startswith(
            ("WS parser error", "Disconnect client")
        )


def start_logging(level: str) -> None:
    """Log to standard error from this level on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    # On the handler: every socket has a logger of its own, which the filter of a parent never sees.
    handler.addFilter(_ExpectedOfClients())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for noisy in (_SOCKET, "uvicorn.error", "uvicorn.access"):
        logging.getLogger(noisy).setLevel(logging.ERROR)

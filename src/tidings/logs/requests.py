# SPDX-License-Identifier: Apache-2.0
"""The requests for which the current task works. Log lines name them.

A REST request is named by its `X-Request-Id`, a frame by its connection and its own id. Background
work for many callers starts without requests. Where such work turns to one request, or to the
requests of one batch, their names are set again. A message on a socket carries the name of its
request with it, because setting a context variable takes a microsecond.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

RequestName = str | tuple[str, str]
"""An `X-Request-Id`, or the id of a connection and the id of a frame. The latter are joined only
when a line is written, because most frames never appear in the log."""
Requests = tuple[RequestName, ...]

_current: Final[ContextVar[Requests]] = ContextVar("requests", default=())

current_requests: Final = _current.get
"""Returns the requests for which the current task works; none in background work."""


def set_requests(requests: Requests) -> None:
    """Set the requests for which the rest of this task works."""
    _current.set(requests)


@contextmanager
def for_requests(requests: Requests) -> Iterator[None]:
    """Set the requests for which the work inside this context is done."""
    before = _current.set(requests)
    try:
        yield
    finally:
        _current.reset(before)


def texts_of(requests: Requests) -> list[str]:
    """Return the names of requests as they appear in the log, each of them once."""
    return list(dict.fromkeys(one if isinstance(one, str) else "/".join(one) for one in requests))


def no_requests() -> Requests:
    """Return no request: nobody asked for the work."""
    return ()

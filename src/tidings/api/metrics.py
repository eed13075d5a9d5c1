# SPDX-License-Identifier: Apache-2.0
"""Shows the metrics of this process: to root on the port of the API, to anyone on a port of their
own."""

import asyncio
from collections.abc import Callable, Coroutine
from time import monotonic
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from tidings.actions.identity.caller import Caller, require_root
from tidings.api.health import TAG
from tidings.api.operations import operation
from tidings.api.requests import check_no_query

PATH: Final = "/metrics"
OPEN_METRICS: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
READ_SECONDS_MIN: Final = 1.0
"""Time between two readings of the metrics for the listener without a key."""

MetricsText = Callable[[], Coroutine[Any, Any, str]]
"""Returns the current metrics as OpenMetrics text."""


@operation(
    "GET",
    PATH,
    tag=TAG,
    summary="Read the metrics of this process",
    key="root",
    media_type=OPEN_METRICS,
)
async def get_metrics(caller: Caller, metrics: MetricsText) -> str:
    """Return the metrics of the process that answers, in the text format of OpenMetrics. They
    contain no names of tenants, users or chats."""
    require_root(caller)
    return await metrics()


class MetricsResponder:
    """Answers the requests on the listener for metrics, which needs no key.

    With ten thousand sockets, reading the metrics takes the event loop ten milliseconds. They are
    therefore read at most once a second, however often somebody asks.
    """

    def __init__(self, metrics: MetricsText, now: Callable[[], float] = monotonic) -> None:
        self._metrics = metrics
        self._now = now
        self._text: asyncio.Task[str] | None = None
        self._read_at = 0.0

    async def __call__(self, request: Request) -> Response:
        """Return the metrics."""
        check_no_query(request.scope["query_string"])
        now = self._now()
        if self._text is None or now - self._read_at >= READ_SECONDS_MIN:
            self._read_at = now
            self._text = asyncio.get_running_loop().create_task(self._metrics())
        # A client that goes away must not cancel what others wait for.
        return Response(await asyncio.shield(self._text), media_type=OPEN_METRICS)


OPERATIONS: Final = (get_metrics,)

# SPDX-License-Identifier: Apache-2.0
"""Shows the metrics of this process: to root on the port of the API, to anyone on a port of their
own."""

from collections.abc import Awaitable, Callable
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from tidings.actions.identity.caller import Caller, require_root
from tidings.api.health import TAG
from tidings.api.operations import operation
from tidings.api.requests import check_no_query

PATH: Final = "/metrics"
OPEN_METRICS: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"

MetricsText = Callable[[], Awaitable[str]]
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
    """Answers the requests on the listener for metrics, which needs no key."""

    def __init__(self, metrics: MetricsText) -> None:
        self._metrics = metrics

    async def __call__(self, request: Request) -> Response:
        """Return the metrics."""
        check_no_query(request.scope["query_string"])
        return Response(await self._metrics(), media_type=OPEN_METRICS)


OPERATIONS: Final = (get_metrics,)

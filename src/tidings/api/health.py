# SPDX-License-Identifier: Apache-2.0
"""Health: whether the process is alive, and whether it can serve."""

from typing import Final, Literal, Protocol

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from tidings.api.callers import Guard
from tidings.api.operations import operation
from tidings.model.refusals import Unavailable

TAG: Final = "Health"

Trouble = Literal["starting", "draining", "the store is broken"]
"""Why requests cannot be served. Anybody may ask, so the details are in the log alone."""


class Health(Protocol):
    """What the server knows about itself."""

    @property
    def trouble(self) -> Trouble | None:
        """Why requests cannot be served now; None if they can."""
        ...


class Alive(msgspec.Struct):
    """The process answers."""

    status: Literal["alive"] = "alive"


class Ready(msgspec.Struct):
    """Requests can be served."""

    status: Literal["ready"] = "ready"


@operation("GET", "/healthz", tag=TAG, summary="Is the process alive", key=None)
async def get_health() -> Alive:
    """Looks at nothing but itself."""
    return Alive()


@operation(
    "GET",
    "/readyz",
    tag=TAG,
    summary="Can requests be served",
    key=None,
    refusals=(Unavailable,),
)
async def get_readiness(health: Health) -> Ready:
    """503 while starting, draining, or without a store."""
    if health.trouble is not None:
        raise Unavailable(health.trouble)
    return Ready()


OPERATIONS: Final = (get_health, get_readiness)


Page = tuple[str, bytes]
"""A media type and what to serve under it."""

METHODS: Final = ("GET", "HEAD")
CONTENT_SECURITY_POLICY: Final = (
    "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)


class PageResponder:
    """Answers the requests for one page."""

    def __init__(self, page: Page, guard: Guard) -> None:
        media_type, content = page
        headers = {"Content-Security-Policy": CONTENT_SECURITY_POLICY}
        self._guard = guard
        self._response = Response(content, 200, headers, media_type)

    async def __call__(self, request: Request) -> Response:
        """The page, to everybody who does not ask too often."""
        await self._guard.admit(request.scope, None)
        return self._response

# SPDX-License-Identifier: Apache-2.0
"""Operations for health checks, and the static pages that the process serves."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal, Protocol

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from tidings.api.callers import Guard
from tidings.api.operations import JSON, operation
from tidings.model.refusals import Unavailable
from tidings.ports.processes import Trouble

TAG: Final = "Health"
_FOLDER: Final = Path(__file__).parent / "web"
_FILES: Final = {
    "/about": ("landing.html", "text/html"),
    "/docs": ("docs.html", "text/html"),
    "/web/tidings.css": ("tidings.css", "text/css"),
    "/web/docs.js": ("docs.js", "text/javascript"),
    "/web/elements.js": ("elements.js", "text/javascript"),
    "/web/icon.svg": ("icon.svg", "image/svg+xml"),
    "/web/landing.js": ("landing.js", "text/javascript"),
    "/web/schemas.js": ("schemas.js", "text/javascript"),
    "/web/trying.js": ("trying.js", "text/javascript"),
}

METHODS: Final = ("GET", "HEAD")
CONTENT_SECURITY_POLICY: Final = (
    "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)


class Health(Protocol):
    """Health of this process."""

    @property
    def trouble(self) -> Trouble | None:
        """Reason why requests cannot be served now; None if they can."""
        ...


class Alive(msgspec.Struct):
    """The process is alive."""

    status: Literal["alive"] = "alive"


class Ready(msgspec.Struct):
    """The process can serve requests."""

    status: Literal["ready"] = "ready"


@operation("GET", "/healthz", tag=TAG, summary="Check that the process is alive", key=None)
async def get_health() -> Alive:
    """Return 200 while the process runs; nothing else is checked."""
    return Alive()


@operation(
    "GET",
    "/readyz",
    tag=TAG,
    summary="Check that requests can be served",
    key=None,
    refusals=(Unavailable,),
)
async def get_readiness(health: Health) -> Ready:
    """Return 503 while the server starts or drains, and when the store is broken."""
    if health.trouble is not None:
        raise Unavailable(health.trouble)
    return Ready()


def load_pages() -> dict[str, tuple[str, bytes]]:
    """Return the pages by path, each with its media type and its bytes."""
    return {
        path: (media_type, (_FOLDER / name).read_bytes())
        for path, (name, media_type) in _FILES.items()
    }


OPERATIONS: Final = (get_health, get_readiness)


Page = tuple[str, bytes]
"""A media type and the content."""


class PageResponder:
    """Answers the requests for one page."""

    def __init__(self, page: Page, guard: Guard) -> None:
        self._guard = guard
        self._response = _response(page)

    async def __call__(self, request: Request) -> Response:
        """Return the page, unless the client is over its rate limit."""
        await self._guard.admit(request.scope, None)
        return self._response


class DocumentResponder:
    """Answers the requests for one document that describes the API.

    The first request makes the document, in a thread: a server starts faster without it.
    """

    def __init__(self, make: Callable[[], bytes], guard: Guard) -> None:
        self._guard = guard
        self._make = make
        self._making = asyncio.Lock()
        self._response: Response | None = None

    async def __call__(self, request: Request) -> Response:
        """Return the document, unless the client is over its rate limit."""
        await self._guard.admit(request.scope, None)
        async with self._making:
            if self._response is None:
                self._response = _response((JSON, await asyncio.to_thread(self._make)))
        return self._response


def _response(page: Page) -> Response:
    media_type, content = page
    headers = {"Content-Security-Policy": CONTENT_SECURITY_POLICY}
    return Response(content, 200, headers, media_type)

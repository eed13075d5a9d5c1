# SPDX-License-Identifier: Apache-2.0
"""Files that come as they are: the pages, and the OpenAPI document."""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from tidings.api.callers import Guard

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

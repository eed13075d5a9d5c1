# SPDX-License-Identifier: Apache-2.0
"""Files that come as they are: the pages, and the OpenAPI document."""

from collections.abc import Mapping
from typing import Final

from litestar import HttpMethod, Response
from litestar.handlers import HTTPRouteHandler

Page = tuple[str, bytes]
"""A media type and what to serve under it."""

CONTENT_SECURITY_POLICY: Final = (
    "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)


def page_handlers(pages: Mapping[str, Page]) -> list[HTTPRouteHandler]:
    """A handler for each path."""
    return [_handler(path, *page) for path, page in pages.items()]


def _handler(path: str, media_type: str, content: bytes) -> HTTPRouteHandler:
    async def serve_page() -> Response[bytes]:
        return Response(
            content,
            media_type=media_type,
            headers={"Content-Security-Policy": CONTENT_SECURITY_POLICY},
        )

    return HTTPRouteHandler(path, http_method=[HttpMethod.GET, HttpMethod.HEAD])(serve_page)

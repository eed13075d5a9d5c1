# SPDX-License-Identifier: Apache-2.0
"""Headers that every answer carries, whatever became of its request."""

from collections.abc import Awaitable, Callable
from typing import Final

from litestar.datastructures import MutableScopeHeaders
from litestar.types import Message, Scope

from tidings.api.access import Access, rate_headers
from tidings.api.addresses import came_encrypted
from tidings.api.cors import cors_headers
from tidings.api.request_ids import request_id
from tidings.ports.world import Chance

_ALWAYS: Final = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
}
_UNLESS_SET: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}
_ENCRYPTED: Final = {"Strict-Transport-Security": "max-age=31536000"}


def make_header_hook(
    chance: Chance, access: Access | None = None
) -> Callable[[Message, Scope], Awaitable[None]]:
    """A hook that completes each answer's headers just before they leave."""

    access = access or Access()

    async def complete(message: Message, scope: Scope) -> None:
        if message["type"] != "http.response.start":
            return
        headers = MutableScopeHeaders.from_message(message)
        for name, value in _UNLESS_SET.items():
            headers.setdefault(name, value)
        headers.update(_ALWAYS)
        headers.update(rate_headers(scope))
        headers.update(cors_headers(scope, access.allowed_origins))
        if came_encrypted(scope, access.trusted_proxies):
            headers.update(_ENCRYPTED)
        headers["X-Request-Id"] = request_id(scope, chance)

    return complete

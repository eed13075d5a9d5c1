# SPDX-License-Identifier: Apache-2.0
"""Headers that every answer carries, whatever became of its request."""

import re
from collections.abc import Awaitable, Callable
from typing import Final

from litestar.datastructures import MutableScopeHeaders
from litestar.types import Message, Scope

from tidings.ports.world import Chance

REQUEST_ID: Final = re.compile(rb"[A-Za-z0-9._-]{1,64}")

_ALWAYS: Final = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


def make_header_hook(chance: Chance) -> Callable[[Message, Scope], Awaitable[None]]:
    """A hook that completes each answer's headers just before they leave."""

    async def complete(message: Message, scope: Scope) -> None:
        if message["type"] != "http.response.start":
            return
        headers = MutableScopeHeaders.from_message(message)
        for name, value in _ALWAYS.items():
            headers[name] = value
        headers["X-Request-Id"] = _request_id(scope, chance)

    return complete


def _request_id(scope: Scope, chance: Chance) -> str:
    """The caller's own id for the request if it is a plain one, else a new one."""
    for name, value in scope["headers"]:
        if name == b"x-request-id" and REQUEST_ID.fullmatch(value):
            return value.decode()
    return chance.token(8).hex()

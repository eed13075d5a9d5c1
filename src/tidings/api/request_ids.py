# SPDX-License-Identifier: Apache-2.0
"""The id of a request, for its answer and the audit trail."""

import re
from typing import Final

from starlette.types import Scope

from tidings.ports.world import Chance

REQUEST_ID: Final = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_REQUEST_ID: Final = "tidings_request_id"


def request_id(scope: Scope, chance: Chance) -> str:
    """Return the request's own id if it is a plain one, else a new one; the same at every call."""
    state = scope["state"]
    known: str | None = state.get(_REQUEST_ID)
    if known is None:
        known = state[_REQUEST_ID] = _given(scope) or chance.token(8).hex()
    return known


def _given(scope: Scope) -> str | None:
    headers: list[tuple[bytes, bytes]] = scope["headers"]
    for name, value in headers:
        if name == b"x-request-id" and REQUEST_ID.fullmatch(value):
            return value.decode()
    return None

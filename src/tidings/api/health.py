# SPDX-License-Identifier: Apache-2.0
"""Health: whether the process is alive, and whether it can serve."""

from typing import Final, Literal, Protocol

import msgspec

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

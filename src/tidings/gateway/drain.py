# SPDX-License-Identifier: Apache-2.0
"""Sending everyone home: all sockets closed within a window, spread so that they do not return
all at once."""

import asyncio
from collections.abc import Callable

from tidings.gateway.connection import CLOSE_SECONDS_MAX
from tidings.gateway.hub import Hub
from tidings.wire.codes import Close

PAUSE_SECONDS_MAX = 0.05


async def drain(hub: Hub, seconds: float, jitter_ms: Callable[[int], int]) -> None:
    """Close every connection with 1012, evenly over the window; each is told when to come back.

    Where there are few, nobody has to be spread, and nobody waits for the window to end.
    """
    connections = list(hub)
    if not connections:
        return
    pause = min(seconds / len(connections), PAUSE_SECONDS_MAX)
    window_ms = int(seconds * 1_000)
    for connection in connections:
        connection.close(Close.RESTARTING, jitter_ms(max(window_ms, 1_000)))
        await asyncio.sleep(pause)
    await hub.emptied(CLOSE_SECONDS_MAX)

# SPDX-License-Identifier: Apache-2.0
"""Starting a client of Kafka so that nothing of it is left behind if it is given up."""

import asyncio
from typing import Any, Final

GIVE_UP_SECONDS_MAX: Final = 5.0


async def start_client(client: Any) -> None:  # noqa: ANN401 - the library has no types
    """Start a consumer, a producer or an admin client; whoever gives up waits until it has.

    Cut off halfway, the library loses the connection it began with: open, and in nobody's hands.
    """
    starting = asyncio.ensure_future(client.start())
    try:
        await asyncio.shield(starting)
    except asyncio.CancelledError:
        await asyncio.wait([starting], timeout=GIVE_UP_SECONDS_MAX)
        if starting.done() and not starting.cancelled():
            starting.exception()  # looked at, so that nobody is told it was not
        else:
            starting.cancel()
        raise

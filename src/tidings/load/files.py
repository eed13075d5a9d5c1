# SPDX-License-Identifier: Apache-2.0
"""How many sockets a process may have."""

import resource
from typing import Final

from tidings.load.rest import LoadStopped

SPARE: Final = 200
"""Files besides the connections."""


def allow_connections(count: int) -> None:
    """Let this process, and those it starts, have so many connections.

    Raises:
        LoadStopped: The system does not allow it.
    """
    needed = count + SPARE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    most = needed if hard == resource.RLIM_INFINITY else max(hard, needed)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, most))
    except (ValueError, PermissionError):
        raise LoadStopped(
            f"{needed} open files are needed and {hard} are allowed: raise `ulimit -n`"
        ) from None

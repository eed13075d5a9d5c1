# SPDX-License-Identifier: Apache-2.0
"""A warning, once, that a proxy stands in front of the server and nobody named it."""

import logging
from collections.abc import Sequence
from typing import Final

log = logging.getLogger("tidings.serving")

_TOLD: Final = (
    "a proxy on this machine forwards requests, and TIDINGS_TRUSTED_PROXIES does not name it: "
    "limits by address are off, and the checks for a public server were not made"
)


class UnnamedProxy:
    """Warns at the first forwarded request, where no proxy is trusted; silent after that."""

    def __init__(self) -> None:
        self._is_told = False

    def look(self, forwarded: Sequence[str]) -> None:
        """A request from this machine came with these forwarding headers."""
        if forwarded and not self._is_told:
            self._is_told = True
            log.warning(_TOLD, extra={"action": "proxy_not_named"})

# SPDX-License-Identifier: Apache-2.0
"""Obtains servers that are written in Go."""

from pathlib import Path

from bench.peers.processes import PeerError
from scripts.services.go_programs import GoModule, obtain
from scripts.services.obtaining import Unavailable


def built(module: GoModule) -> Path:
    """Return the folder with the programs of a module; build them if necessary.

    Raises:
        PeerError: Go, or the module, cannot be had on this machine.
    """
    try:
        return obtain(module)
    except Unavailable as error:
        raise PeerError(str(error)) from error

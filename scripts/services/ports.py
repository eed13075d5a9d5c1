# SPDX-License-Identifier: Apache-2.0
"""Gives out ports for services, each to one process only."""

import itertools
import socket
from collections.abc import Iterator
from functools import cache
from typing import Final

HOST: Final = "127.0.0.1"

# These ports are below the range for outgoing connections. Otherwise a client that repeatedly tries
# to connect to a stopped service could get the service's port for itself, and connect to itself.
_PORTS: Final = range(20_000, 30_000)
_BLOCK_PORTS: Final = 625


def free_port() -> int:
    """Return a port that nobody listens on, and that no outgoing connection gets."""
    for port in itertools.islice(_own_ports(), _BLOCK_PORTS):
        with socket.socket() as probe:
            if _bind(probe, port):
                return port
    raise OSError("no port is free")


@cache
def _own_ports() -> Iterator[int]:
    """Claim a block of ports until this process ends, and go through it again and again.

    A port is free until its service listens on it. Without blocks, another process that looks for
    a port in the meantime would get the same one. Ports are used in order, so that the port of a
    service that restarts is not given to another service.
    """
    for first in _PORTS[::_BLOCK_PORTS]:
        claim = socket.socket()
        if _bind(claim, first):
            claim.detach()  # so that the first port of the block stays bound
            return itertools.cycle(range(first + 1, first + _BLOCK_PORTS))
        claim.close()
    raise OSError("too many processes look for ports")


def _bind(unused: socket.socket, port: int) -> bool:
    try:
        unused.bind((HOST, port))
    except OSError:
        return False
    return True

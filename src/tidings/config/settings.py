# SPDX-License-Identifier: Apache-2.0
"""The checked settings of a start."""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tidings.ports.failpoints import Place

ROLES: Final = ("gateway", "api", "worker", "relay")
"""What a process can do: hold sockets, answer requests, deliver, deliver what was missed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Checked settings."""

    host: str = "127.0.0.1"
    port: int = 8080
    """0 takes any port that is free."""
    data: Path = Path("tidings-data")
    root_key: str | None = field(default=None, repr=False)
    """None: the one kept in the data folder, which is made on the first start."""
    master_key: bytes | None = field(default=None, repr=False)
    """None: the one kept in the data folder, likewise."""
    master_key_previous: bytes | None = field(default=None, repr=False)
    allowed_origins: tuple[str, ...] = ()
    """Browser origins besides this host's own that may open a socket."""
    drain_seconds: float = 5
    log_level: str = "info"
    failpoints: Mapping[Place, int] = field(default_factory=dict)
    limits: str = "on"
    roles: tuple[str, ...] = ROLES

    store: str = "sqlite"
    dynamodb_endpoint: str | None = None
    """None: AWS."""
    dynamodb_prefix: str = "tidings-"
    dynamodb_region: str | None = None
    """There once the store is dynamodb."""
    bus: str = "memory"
    kafka_bootstrap: str | None = None
    """There once the bus is kafka, as is the next once the registry is redis."""
    kafka_prefix: str = "tidings-"
    jobs: str | None = None
    """Which queue holds delivery jobs; None: see `queue`."""
    sqs_queue_url: str | None = None
    """There once the queue is sqs, as is the next."""
    sqs_region: str | None = None
    registry: str = "memory"
    redis_url: str | None = field(default=None, repr=False)
    """It may hold a password."""
    redis_prefix: str = "tidings:"
    push: str = "off"
    push_url: str | None = field(default=None, repr=False)
    push_secret: str | None = field(default=None, repr=False)

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def is_alone(self) -> bool:
        """Whether this process is the only one of its deployment."""
        return self.bus == "memory"

    @property
    def queue(self) -> str:
        """Which queue holds delivery jobs."""
        return self.jobs or ("store" if self.is_alone else "kafka")

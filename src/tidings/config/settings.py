# SPDX-License-Identifier: Apache-2.0
"""The checked settings of a start."""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from tidings.model.addresses import Networks
from tidings.model.limits import DAY_CODES_DEFAULT
from tidings.ports.world import Place

ROLES: Final = ("gateway", "api", "worker", "relay")
"""What a process can do: hold sockets, answer requests, deliver, deliver what was missed."""

LOCAL_REGION: Final = "us-east-1"
"""Of a DynamoDB on this machine. It is in none, but keeps apart the tables of several."""


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
    """Browser origins besides this host's own that may open a socket and ask the API."""
    trusted_proxies: Networks = ()
    """Proxies whose word on where a request comes from counts."""
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
    kafka_tls: str = "off"
    kafka_ca: Path | None = None
    """None: the authorities that this machine trusts."""
    kafka_certificate: Path | None = None
    kafka_certificate_key: Path | None = None
    kafka_sasl: str = "scram-sha-512"
    kafka_username: str | None = None
    """None: nobody logs in."""
    kafka_password: str | None = field(default=None, repr=False)
    jobs: str | None = None
    """Which queue holds delivery jobs; None: see `queue`."""
    sqs_queue_url: str | None = None
    """There once the queue is sqs, as is the next."""
    sqs_region: str | None = None
    registry: str = "memory"
    redis_url: str | None = field(default=None, repr=False)
    """It may hold a password."""
    redis_prefix: str = "tidings:"
    redis_ca: Path | None = None
    """None: the authorities that this machine trusts."""
    redis_password: str | None = field(default=None, repr=False)
    """Where it does not stand in the URL."""
    redis_mode: str = "server"
    plain_engines: str = "refuse"
    """Whether engines on other machines may be talked to without encryption."""
    push: str = "off"
    push_url: str | None = field(default=None, repr=False)
    push_secret: str | None = field(default=None, repr=False)
    push_secret_previous: str | None = field(default=None, repr=False)
    sms: str | None = None
    """How login codes are sent; None: see `texts`."""
    sms_url: str | None = field(default=None, repr=False)
    sms_secret: str | None = field(default=None, repr=False)
    sms_secret_previous: str | None = field(default=None, repr=False)
    sms_region: str | None = None
    """There once texts go through sns."""
    sms_endpoint: str | None = None
    """None: AWS."""
    sms_sender: str | None = None
    plain_webhooks: str = "refuse"
    """Likewise for webhooks: login codes and notices travel through them."""
    sms_per_day: int = DAY_CODES_DEFAULT

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect."""
        return is_this_machine(self.host)

    @property
    def is_public(self) -> bool:
        """Whether others can reach this process: directly, through a proxy, or by a web page.

        An origin on this machine is the page of a developer, and makes nothing public.
        """
        return bool(
            not self.is_loopback
            or self.trusted_proxies
            or any(not is_local_url(origin) for origin in self.allowed_origins)
        )

    @property
    def why_public(self) -> str:
        """What makes it public, in words for the operator."""
        if not self.is_loopback:
            return f"{self.host} can be reached by others"
        named = "TIDINGS_TRUSTED_PROXIES" if self.trusted_proxies else "TIDINGS_ALLOWED_ORIGINS"
        return f"others reach {self.host} as {named} says"

    @property
    def has_local_tables(self) -> bool:
        """Whether data is kept in a DynamoDB that runs on this machine, which is not AWS."""
        return self.store == "dynamodb" and local_region(self.dynamodb_endpoint) is not None

    @property
    def is_alone(self) -> bool:
        """Whether this process is the only one of its deployment."""
        return self.bus == "memory"

    @property
    def queue(self) -> str:
        """Which queue holds delivery jobs."""
        return self.jobs or ("store" if self.is_alone else "kafka")

    @property
    def texts(self) -> str:
        """How login codes are sent: into the log only where nobody else can ask for one."""
        return self.sms or ("off" if self.is_public else "log")


def local_region(endpoint: str | None) -> str | None:
    """The region of a DynamoDB at this address, if that is on this machine."""
    return LOCAL_REGION if endpoint is not None and is_local_url(endpoint) else None


def is_local_url(url: str) -> bool:
    """Whether the host of an address is this machine."""
    return is_this_machine(urlsplit(url).hostname or "")


def is_this_machine(host: str) -> bool:
    """Whether a host name or address is loopback."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False

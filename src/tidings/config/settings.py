# SPDX-License-Identifier: Apache-2.0
"""The checked settings of a process."""

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
"""Roles of a process: own connections, answer requests, deliver, deliver what was missed."""

LOCAL_REGION: Final = "us-east-1"
"""Region of a DynamoDB on this machine. It is in none, but keeps tables apart by region."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Checked settings."""

    host: str = "127.0.0.1"
    port: int = 8080
    """0 for any free port."""
    data: Path = Path("tidings-data")
    root_key: str | None = field(default=None, repr=False)
    """None: the key in the data folder, which the first start makes."""
    master_key: bytes | None = field(default=None, repr=False)
    """None: the key in the data folder, which the first start makes."""
    master_key_previous: bytes | None = field(default=None, repr=False)
    allowed_origins: tuple[str, ...] = ()
    """Other browser origins that may open a socket and call the API."""
    trusted_proxies: Networks = ()
    """Proxies whose forwarding headers are believed."""
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
    """Set if the store is dynamodb."""
    bus: str = "memory"
    kafka_bootstrap: str | None = None
    """Set if the bus is kafka."""
    kafka_prefix: str = "tidings-"
    kafka_tls: str = "off"
    kafka_ca: Path | None = None
    """None: the authorities that this machine trusts."""
    kafka_certificate: Path | None = None
    kafka_certificate_key: Path | None = None
    kafka_sasl: str = "scram-sha-512"
    kafka_username: str | None = None
    """None: without a login."""
    kafka_password: str | None = field(default=None, repr=False)
    jobs: str | None = None
    """The queue of delivery jobs; None: see `queue`."""
    sqs_queue_url: str | None = None
    """Set if the queue is sqs, as is the region."""
    sqs_region: str | None = None
    registry: str = "memory"
    redis_url: str | None = field(default=None, repr=False)
    """Set if the registry is redis; may contain a password."""
    redis_prefix: str = "tidings:"
    redis_ca: Path | None = None
    """None: the authorities that this machine trusts."""
    redis_password: str | None = field(default=None, repr=False)
    """Set if the password is not in the URL."""
    redis_mode: str = "server"
    plain_engines: str = "refuse"
    """Whether connections to engines on other machines may be unencrypted."""
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
    """Set if text messages go through sns."""
    sms_endpoint: str | None = None
    """None: AWS."""
    sms_sender: str | None = None
    plain_webhooks: str = "refuse"
    """Whether webhooks may be unencrypted; they carry login codes and push notices."""
    sms_per_day: int = DAY_CODES_DEFAULT

    @property
    def is_loopback(self) -> bool:
        """Return whether only this machine can connect."""
        return is_this_machine(self.host)

    @property
    def is_public(self) -> bool:
        """Return whether others can reach this process: directly, by proxy, or from a web page.

        An origin on this machine is a developer's page, and makes nothing public.
        """
        return bool(
            not self.is_loopback
            or self.trusted_proxies
            or any(not is_local_url(origin) for origin in self.allowed_origins)
        )

    @property
    def why_public(self) -> str:
        """Return what makes the process public, in words for the operator."""
        if not self.is_loopback:
            return f"{self.host} can be reached by others"
        named = "TIDINGS_TRUSTED_PROXIES" if self.trusted_proxies else "TIDINGS_ALLOWED_ORIGINS"
        return f"{named} makes {self.host} public"

    @property
    def has_local_tables(self) -> bool:
        """Return whether the store is a DynamoDB on this machine instead of AWS."""
        return self.store == "dynamodb" and local_region(self.dynamodb_endpoint) is not None

    @property
    def is_alone(self) -> bool:
        """Return whether this process is the only one of its deployment."""
        return self.bus == "memory"

    @property
    def queue(self) -> str:
        """Return which queue has the delivery jobs."""
        return self.jobs or ("store" if self.is_alone else "kafka")

    @property
    def texts(self) -> str:
        """Return how login codes are sent.

        Without a setting: to the log if only this machine can reach the server, otherwise not at
        all.
        """
        return self.sms or ("off" if self.is_public else "log")


def local_region(endpoint: str | None) -> str | None:
    """Return the region of a DynamoDB at this address, if it is on this machine."""
    return LOCAL_REGION if endpoint is not None and is_local_url(endpoint) else None


def is_local_url(url: str) -> bool:
    """Return whether the host of a URL is this machine."""
    return is_this_machine(urlsplit(url).hostname or "")


def is_this_machine(host: str) -> bool:
    """Return whether a host name or address is loopback."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False

# SPDX-License-Identifier: Apache-2.0
"""The checked settings of a process, in sections.

Each field of a section is a setting. The name that operators write is the section's prefix followed
by the field's name. A field without a default is required if its section is used.
"""

import ipaddress
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Final, Literal
from urllib.parse import urlsplit

import msgspec

from tidings.model.addresses import Networks
from tidings.model.attachments import ATTACHMENT_BYTES_DEFAULT
from tidings.model.limits import DAY_CODES_DEFAULT
from tidings.ports.processes import Setting
from tidings.ports.world import FailpointName

DATA_DEFAULT: Final = Path("tidings-data")

ROLES: Final = ("gateway", "api", "worker", "relay")
"""Roles of a process. A gateway owns connections, api answers requests, a worker delivers, and a
relay delivers the entries that no worker delivered."""

LOCAL_REGION: Final = "us-east-1"
"""Region for a DynamoDB on this machine. It needs a region too, because it stores the tables of
each region separately."""


class Section(msgspec.Struct, frozen=True):
    """Settings that belong together."""

    hints: ClassVar[Mapping[str, str]] = {}
    """For each required field, the text that follows "<setting> needs" in the error message."""
    secrets: ClassVar[tuple[str, ...]] = ()
    """Names of fields that are never printed."""

    def __repr__(self) -> str:
        shown = (name for name in self.__struct_fields__ if name not in self.secrets)
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
        return f"{type(self).__name__}({values})"


class Network(Section, frozen=True, kw_only=True):
    """Address on which the process listens, and the proxies and browser origins that it accepts."""

    host: str = "127.0.0.1"
    port: int = 8080
    """Port to listen on; 0 for any free port."""
    allowed_origins: tuple[str, ...] = ()
    """Other browser origins that may open a socket and call the API."""
    trusted_proxies: Networks = ()
    """Networks of proxies whose forwarding headers are trusted."""
    outgoing_allow: Networks = ()
    """Networks that are not public, to which requests at addresses of tenants may still go."""
    has_limits: bool = True
    """Whether rate limits apply."""
    public_url: str | None = None
    """Address at which users reach the API, for links in e-mails."""
    tls_cert: Path | None = None
    """File with the certificate with which the port speaks TLS; None for plain HTTP."""
    tls_key: Path | None = None
    """File with the key; None if the key is in the file with the certificate."""

    @property
    def is_loopback(self) -> bool:
        """Return True if only this machine can connect."""
        return is_this_machine(self.host)

    @property
    def is_public(self) -> bool:
        """Return True if others can reach this process: directly, by proxy, or from a web page.

        Origins on this machine do not count, because they belong to a developer's page.
        """
        return bool(
            not self.is_loopback
            or self.trusted_proxies
            or any(not is_local_url(origin) for origin in self.allowed_origins)
        )

    @property
    def why_public(self) -> str:
        """Return the reason why the process is public, in words for the operator."""
        if not self.is_loopback:
            return f"{self.host} can be reached by others"
        named = "TIDINGS_TRUSTED_PROXIES" if self.trusted_proxies else "TIDINGS_ALLOWED_ORIGINS"
        return f"{named} makes {self.host} public"


class Process(Section, frozen=True, kw_only=True):
    """The roles of this process, its logging, and the time to close connections when it stops."""

    roles: tuple[str, ...] = ROLES
    processes: int = 1
    """Number of processes that hold sockets. With more than one, the embedded store has a process
    of its own."""
    drain_seconds: float = 5
    log_level: str = "info"
    failpoints: Mapping[FailpointName, int] = {}
    metrics: tuple[str, int] | None = None
    """Host and port on which metrics are shown to everybody who can connect; None for nowhere."""
    otlp: str | None = None
    """URL of the collector of traces; None if there are no traces."""
    trace_one_in: int = 0
    """One in this many messages and requests is traced, if it does not bring a trace along; 0 for
    none."""


class Keys(Section, frozen=True, kw_only=True):
    """Keys from the settings.

    A key that is None is in the data folder; the first start creates it there.
    """

    secrets: ClassVar = ("root_key", "master_key", "master_key_previous")

    root_key: str | None = None
    master_key: bytes | None = None
    master_key_previous: bytes | None = None


class Sqlite(Section, frozen=True):
    """SQLite, the embedded store in the data folder. It has no settings."""


class DynamoDb(Section, frozen=True, kw_only=True):
    """The store in DynamoDB, which several processes can share."""

    hints: ClassVar = {"region": "a region: set {name} or AWS_REGION"}

    region: str
    prefix: str = "tidings-"
    endpoint: str | None = None
    """Address of the service; None for AWS itself."""

    @property
    def local_endpoint(self) -> str | None:
        """Return the endpoint if it is a DynamoDB on this machine; None for AWS and others."""
        return self.endpoint if local_region(self.endpoint) else None


class KafkaTls(Section, frozen=True, kw_only=True):
    """Encryption of the connections to Kafka."""

    ca: Path | None = None
    """File of trusted certificate authorities; None for those that this machine trusts."""
    certificate: Path | None = None
    certificate_key: Path | None = None


class KafkaLogin(Section, frozen=True, kw_only=True):
    """Credentials for Kafka."""

    secrets: ClassVar = ("password",)

    sasl: str = "scram-sha-512"
    username: str
    password: str


class Kafka(Section, frozen=True, kw_only=True):
    """Kafka, the bus between processes."""

    hints: ClassVar = {"bootstrap": "its servers: set {name}=host:port"}

    bootstrap: str
    prefix: str = "tidings-"
    tls: KafkaTls | None = None
    login: KafkaLogin | None = None


class Redis(Section, frozen=True, kw_only=True):
    """Redis, where the processes share the registry of connections."""

    hints: ClassVar = {"url": "its address: set {name}=redis://host:port/0"}
    secrets: ClassVar = ("url", "password")

    url: str
    """URL of the server, which may contain a password."""
    prefix: str = "tidings:"
    ca: Path | None = None
    """File of trusted certificate authorities; None for those that this machine trusts."""
    password: str | None = None
    """The password, if it is not in the URL."""
    mode: str = "server"


class Cluster(Section, frozen=True):
    """The services through which the processes of a deployment communicate."""

    kafka: Kafka
    redis: Redis


class Sqs(Section, frozen=True, kw_only=True):
    """AWS SQS, for the queue of delivery jobs."""

    hints: ClassVar = {
        "queue_url": "the address of a queue: set {name}",
        "region": "a region: set {name} or AWS_REGION",
    }

    queue_url: str
    region: str


class Webhook(Section, frozen=True, kw_only=True):
    """URL that receives signed requests, and the secrets that sign them."""

    hints: ClassVar = {
        "url": "an address: set {name}",
        "secret": "a secret to sign with: set {name}",
    }
    secrets: ClassVar = ("url", "secret", "secret_previous")

    url: str
    secret: str
    secret_previous: str | None = None


class Sns(Section, frozen=True, kw_only=True):
    """AWS SNS, which sends text messages."""

    hints: ClassVar = {"region": "a region: set {name} or AWS_REGION"}

    region: str
    endpoint: str | None = None
    """Address of the service; None for AWS itself."""
    sender: str | None = None


class Smtp(Section, frozen=True, kw_only=True):
    """The server that sends e-mails."""

    hints: ClassVar = {
        "url": "the mail server: set {name}=smtp://host:587",
        "sender": "the address that e-mails come from: set {name}=news@example.org",
    }
    secrets: ClassVar = ("password",)

    url: str
    """URL of the server: `smtp` begins in plain text and goes on with STARTTLS, `smtps` begins with
    TLS."""
    sender: str
    username: str | None = None
    password: str | None = None
    ca: Path | None = None
    """File of trusted certificate authorities; None for those that this machine trusts."""


class AttachmentFolder(Section, frozen=True, kw_only=True):
    """A folder for the bytes of attachments."""

    folder: Path | None = None
    """None for a folder in the data folder."""
    bytes_max: int = ATTACHMENT_BYTES_DEFAULT


class PushServices(Section, frozen=True, kw_only=True):
    """Addresses of the push services of Google and Apple; None for their own."""

    fcm_url: str | None = None
    fcm_token_url: str | None = None
    """Where access tokens for FCM are obtained."""
    apns_url: str | None = None
    apns_sandbox_url: str | None = None


class Config(Section, frozen=True, kw_only=True):
    """All settings of a process, checked."""

    secrets: ClassVar = ("settings",)

    data: Path = DATA_DEFAULT
    network: Network = Network()
    process: Process = Process()
    keys: Keys = Keys()
    store: Sqlite | DynamoDb = Sqlite()
    cluster: Cluster | None = None
    """None if this process is the only one of its deployment."""
    sqs: Sqs | None = None
    """None if delivery jobs are in Kafka, or in the store of a single process."""
    push: Literal["off", "log"] | Webhook = "off"
    push_services: PushServices = PushServices()
    sms: Literal["off", "log"] | Webhook | Sns = "log"
    """How login codes are sent."""
    sms_per_day: int = DAY_CODES_DEFAULT
    email: Literal["off"] | Smtp = "off"
    """How e-mails are sent."""
    attachments: Literal["off"] | AttachmentFolder = AttachmentFolder()
    """Where the bytes of attachments are."""
    blobs: str | None = None
    """The bucket for the bytes of attachments, such as `s3://bucket/prefix`; None for a folder."""
    settings: tuple[Setting, ...] = ()
    """Every setting that is in effect, with its source; empty if they were not loaded."""

    @property
    def is_alone(self) -> bool:
        """Return True if this process is the only one of its deployment."""
        return self.cluster is None


def local_region(endpoint: str | None) -> str | None:
    """Return the region for the DynamoDB at this address, if it is on this machine."""
    return LOCAL_REGION if endpoint is not None and is_local_url(endpoint) else None


def is_local_url(url: str) -> bool:
    """Return True if the host of a URL is this machine."""
    return is_this_machine(urlsplit(url).hostname or "")


def is_this_machine(host: str) -> bool:
    """Return True if a host name or address is a loopback address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False

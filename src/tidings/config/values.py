# SPDX-License-Identifier: Apache-2.0
"""Parsers of all settings: each converts an operator's text to a value, or explains the mistake."""

import binascii
import re
from base64 import b64decode
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from tidings.config import addresses
from tidings.keyrings import MAKES_A_GOOD_ONE, why_weak
from tidings.model import limits
from tidings.ports.secrets import MASTER_KEY_BYTES
from tidings.ports.world import PLACES, FailpointName

PROCESSES_MAX: Final = 64
"""Maximum number of processes that hold sockets."""

DRAIN_SECONDS_MAX: Final = 300
LOG_LEVELS: Final = ("debug", "info", "warning", "error", "critical")

_ORIGIN: Final = re.compile(r"https?://(\[[0-9a-f:.]+\]|[a-z0-9.-]+)(:[0-9]{1,5})?")


def _host(text: str) -> str:
    if not text or not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError("an address or a host name is expected")
    return text


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and int(text) <= 65_535):
        raise ValueError(f"{text!r} is not a port: 0 to 65535")
    return int(text)


def _metrics(text: str) -> tuple[str, int]:
    """Parse a port, or host:port; without a host it is the loopback address."""
    host, colon, port = text.rpartition(":")
    if colon and not host:
        raise ValueError(f"{text!r} is not a port or host:port")
    return _host(host.strip("[]")) if host else "127.0.0.1", _port(port)


def _data(text: str) -> Path:
    if not text:
        raise ValueError("the name of a folder is expected")
    path = Path(text)
    if path.exists() and not path.is_dir():
        raise ValueError(f"{text} exists, but is not a folder")
    return path


def _root_key(text: str) -> str:
    if not 0 < len(text) <= limits.TOKEN_BYTES_MAX or not text.isascii() or not text.isprintable():
        raise ValueError("1 to 8192 printable ASCII characters are expected")
    if " " in text:
        raise ValueError("the key must not contain spaces, because it is sent in a header")
    if reason := why_weak(text):
        raise ValueError(f"the root key is weak: {reason}; {MAKES_A_GOOD_ONE}")
    return text


def _master_key(text: str) -> bytes:
    try:
        secret = b64decode(text.replace("-", "+").replace("_", "/"), validate=True)
    except binascii.Error:
        secret = b""
    if len(secret) != MASTER_KEY_BYTES:
        raise ValueError("32 bytes in base64 are expected: openssl rand -base64 32 makes them")
    return secret


def _allowed_origins(text: str) -> tuple[str, ...]:
    origins = tuple(origin.strip() for origin in text.split(",") if origin.strip())
    for origin in origins:
        if _ORIGIN.fullmatch(origin) is None:
            raise ValueError(
                f"{origin!r} is not an origin such as https://app.example.com: a scheme and a "
                "host in lower case, optionally a port, no path, no *"
            )
    return origins


def _drain_seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1
    if not 0 <= seconds <= DRAIN_SECONDS_MAX:
        raise ValueError(f"{text!r} is not a number of seconds from 0 to {DRAIN_SECONDS_MAX}")
    return seconds


def _trace_one_in(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise ValueError(f"{text!r} is not a number from 0 to 999999999")
    return int(text)


def _failpoints(text: str) -> dict[FailpointName, int]:
    armed: dict[FailpointName, int] = {}
    for item in text.split(","):
        name, _, visit = item.strip().partition(":")
        known = next((place for place in PLACES if place == name), None)
        if known is None or not visit.isdigit() or int(visit) < 1:
            raise ValueError(
                f"{item!r} is not place:n with n from 1 and a place out of {', '.join(PLACES)}"
            )
        armed[known] = int(visit)
    return armed


def _processes(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= PROCESSES_MAX):
        raise ValueError(f"{text!r} is not a number of processes: 1 to {PROCESSES_MAX}")
    return int(text)


def _sms_per_day(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise ValueError(f"{text!r} is not a number of text messages: 0 to 999999999")
    return int(text)


def _bytes_max(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 12 and int(text) > 0):
        raise ValueError(f"{text!r} is not a number of bytes: 1 to 999999999999")
    return int(text)


def _one_of(*choices: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text.lower() not in choices:
            raise ValueError(f"{text!r} is not one of {', '.join(choices)}")
        return text.lower()

    return parse


PARSE: Final[Mapping[str, Callable[[str], object]]] = {
    "host": _host,
    "port": _port,
    "data": _data,
    "root_key": _root_key,
    "master_key": _master_key,
    "master_key_previous": _master_key,
    "allowed_origins": _allowed_origins,
    "trusted_proxies": addresses.networks,
    "outgoing_allow": addresses.networks,
    "drain_seconds": _drain_seconds,
    "log_level": _one_of(*LOG_LEVELS),
    "metrics": _metrics,
    "otlp": addresses.url("http", "https"),
    "trace_one_in": _trace_one_in,
    "failpoints": _failpoints,
    "limits": _one_of("on", "off"),
    "roles": addresses.roles,
    "processes": _processes,
    "store": _one_of("sqlite", "dynamodb"),
    "dynamodb_endpoint": addresses.url("http", "https"),
    "dynamodb_prefix": addresses.prefix("_-."),
    "dynamodb_region": addresses.region,
    "bus": _one_of("memory", "kafka"),
    "kafka_bootstrap": addresses.servers,
    "kafka_prefix": addresses.prefix("_-."),
    "kafka_tls": _one_of("off", "on"),
    "kafka_ca": addresses.authorities,
    "kafka_certificate": addresses.readable,
    "kafka_certificate_key": addresses.readable,
    "kafka_sasl": _one_of("plain", "scram-sha-256", "scram-sha-512"),
    "kafka_username": addresses.visible_text,
    "kafka_password": addresses.visible_text,
    "jobs": _one_of("store", "kafka", "sqs"),
    "sqs_queue_url": addresses.url("https", "http"),
    "sqs_region": addresses.region,
    "registry": _one_of("memory", "redis"),
    "redis_url": addresses.url("redis", "rediss"),
    "redis_prefix": addresses.prefix("_-.:"),
    "redis_ca": addresses.authorities,
    "redis_password": addresses.visible_text,
    "redis_mode": _one_of("server", "cluster"),
    "plain_engines": _one_of("refuse", "allow"),
    "push": _one_of("off", "log", "webhook"),
    "push_url": addresses.url("https", "http"),
    "push_secret": addresses.webhook_secret,
    "push_secret_previous": addresses.webhook_secret,
    "fcm_url": addresses.url("https", "http"),
    "fcm_token_url": addresses.url("https", "http"),
    "apns_url": addresses.url("https"),
    "apns_sandbox_url": addresses.url("https"),
    "sms": _one_of("off", "log", "webhook", "sns"),
    "sms_url": addresses.url("https", "http"),
    "sms_secret": addresses.webhook_secret,
    "sms_secret_previous": addresses.webhook_secret,
    "sms_region": addresses.region,
    "sms_endpoint": addresses.url("https", "http"),
    "sms_sender": addresses.sms_sender,
    "plain_webhooks": _one_of("refuse", "allow"),
    "sms_per_day": _sms_per_day,
    "public_url": addresses.url("https", "http"),
    "tls_cert": addresses.readable,
    "tls_key": addresses.readable,
    "email": _one_of("off", "smtp"),
    "smtp_url": addresses.mail_server,
    "smtp_sender": addresses.mail_address,
    "smtp_username": addresses.visible_text,
    "smtp_password": addresses.visible_text,
    "smtp_ca": addresses.authorities,
    "attachments": _one_of("folder", "off"),
    "blobs": addresses.bucket,
    "attachments_folder": _data,
    "attachments_bytes_max": _bytes_max,
}
"""The parser of each setting, by the setting's name in the file. The environment variable of a
setting is TIDINGS_ followed by this name in capitals."""

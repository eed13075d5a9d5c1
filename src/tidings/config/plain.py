# SPDX-License-Identifier: Apache-2.0
"""Finds connections to other machines that are not encrypted, which a setting has to allow.

Engines see all that is stored and delivered, and webhooks see login codes: on the way to another
machine anybody in between could read and change them. Loopback never leaves this machine.
"""

from collections.abc import Iterator
from urllib.parse import urlsplit

from tidings.config.settings import Config, is_local_url, is_this_machine


def plain_connections(config: Config) -> Iterator[str]:
    """A mistake for each connection that nobody allowed to be plain."""
    if config.plain_engines != "allow":
        for engine, encrypted in _plain_engines(config):
            yield (
                f"the way to {engine} is not encrypted, and leads to another machine: {encrypted}, "
                "or set TIDINGS_PLAIN_ENGINES=allow if nobody else is in that network"
            )
    if config.plain_webhooks != "allow":
        for name in _plain_webhooks(config):
            yield (
                f"{name} is not encrypted, and leads to another machine: use https://, or set "
                "TIDINGS_PLAIN_WEBHOOKS=allow if nobody else is in that network"
            )


def _plain_engines(config: Config) -> Iterator[tuple[str, str]]:
    """Each engine in use that is elsewhere and plain, and what would encrypt it."""
    if config.store == "dynamodb" and _is_plain(config.dynamodb_endpoint, "http"):
        yield "DynamoDB", "use https:// in TIDINGS_DYNAMODB_ENDPOINT"
    if config.bus == "kafka" and config.kafka_tls == "off":
        if any(map(_is_elsewhere, (config.kafka_bootstrap or "").split(","))):
            yield "Kafka", "set TIDINGS_KAFKA_TLS=on"
    if config.registry == "redis" and _is_plain(config.redis_url, "redis"):
        yield "Redis", "use rediss:// in TIDINGS_REDIS_URL"
    if config.jobs == "sqs" and _is_plain(config.sqs_queue_url, "http"):
        yield "SQS", "use https:// in TIDINGS_SQS_QUEUE_URL"


def _plain_webhooks(config: Config) -> Iterator[str]:
    for name, setting, uses in (
        ("push_url", config.push, "webhook"),
        ("sms_url", config.sms, "webhook"),
        ("sms_endpoint", config.sms, "sns"),
    ):
        if setting == uses and _is_plain(getattr(config, name), "http"):
            yield f"TIDINGS_{name.upper()}"


def _is_plain(url: str | None, plain_scheme: str) -> bool:
    return url is not None and urlsplit(url).scheme == plain_scheme and not is_local_url(url)


def _is_elsewhere(server: str) -> bool:
    host = server.rpartition(":")[0].strip("[]")
    return bool(host) and not is_this_machine(host)

# SPDX-License-Identifier: Apache-2.0
"""Checks across settings: each may be valid alone and wrong in combination."""

from collections.abc import Collection, Iterator
from typing import Final
from urllib.parse import SplitResult, urlsplit

from tidings.config.settings import ROLES, Config, is_local_url, is_this_machine
from tidings.keyrings.root import MAKES_A_GOOD_ONE, read_root_key
from tidings.model.setup_error import SetupError


def plain_connections(config: Config) -> Iterator[str]:
    """Yield a mistake for each unencrypted connection that is not explicitly allowed."""
    if config.plain_engines != "allow":
        for engine, encrypted in _plain_engines(config):
            yield (
                f"the connection to {engine} on another machine is not encrypted: {encrypted}, "
                "or set TIDINGS_PLAIN_ENGINES=allow if nobody else is in that network"
            )
    if config.plain_webhooks != "allow":
        for name in _plain_webhooks(config):
            yield (
                f"{name} is not encrypted and points to another machine: use https://, or set "
                "TIDINGS_PLAIN_WEBHOOKS=allow if nobody else is in that network"
            )


def _plain_engines(config: Config) -> Iterator[tuple[str, str]]:
    """Yield each engine on another machine without encryption, and how to encrypt it."""
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


_ENGINE_OF: Final = {
    "dynamodb_endpoint": ("store", "dynamodb"),
    "dynamodb_prefix": ("store", "dynamodb"),
    "dynamodb_region": ("store", "dynamodb"),
    "kafka_bootstrap": ("bus", "kafka"),
    "kafka_prefix": ("bus", "kafka"),
    "kafka_tls": ("bus", "kafka"),
    "kafka_ca": ("kafka_tls", "on"),
    "kafka_certificate": ("kafka_tls", "on"),
    "kafka_certificate_key": ("kafka_tls", "on"),
    "kafka_sasl": ("bus", "kafka"),
    "kafka_username": ("bus", "kafka"),
    "kafka_password": ("bus", "kafka"),
    "sqs_queue_url": ("jobs", "sqs"),
    "sqs_region": ("jobs", "sqs"),
    "redis_url": ("registry", "redis"),
    "redis_prefix": ("registry", "redis"),
    "redis_ca": ("registry", "redis"),
    "redis_password": ("registry", "redis"),
    "redis_mode": ("registry", "redis"),
    "push_url": ("push", "webhook"),
    "push_secret": ("push", "webhook"),
    "push_secret_previous": ("push", "webhook"),
    "sms_url": ("sms", "webhook"),
    "sms_secret": ("sms", "webhook"),
    "sms_secret_previous": ("sms", "webhook"),
    "sms_region": ("sms", "sns"),
    "sms_endpoint": ("sms", "sns"),
    "sms_sender": ("sms", "sns"),
}
"""Settings that have an effect only with another setting."""


_NEEDS: Final = (
    ("store", "dynamodb", "dynamodb_region", "a region: set TIDINGS_DYNAMODB_REGION or AWS_REGION"),
    ("bus", "kafka", "kafka_bootstrap", "its servers: set TIDINGS_KAFKA_BOOTSTRAP=host:port"),
    ("jobs", "sqs", "sqs_queue_url", "the address of a queue: set TIDINGS_SQS_QUEUE_URL"),
    ("jobs", "sqs", "sqs_region", "a region: set TIDINGS_SQS_REGION or AWS_REGION"),
    ("registry", "redis", "redis_url", "its address: set TIDINGS_REDIS_URL=redis://host:port/0"),
    ("push", "webhook", "push_url", "an address: set TIDINGS_PUSH_URL"),
    ("push", "webhook", "push_secret", "a secret to sign with: set TIDINGS_PUSH_SECRET"),
    ("sms", "webhook", "sms_url", "an address: set TIDINGS_SMS_URL"),
    ("sms", "webhook", "sms_secret", "a secret to sign with: set TIDINGS_SMS_SECRET"),
    ("sms", "sns", "sms_region", "a region: set TIDINGS_SMS_REGION or AWS_REGION"),
)
"""Settings that another setting requires."""


def combined_mistakes(
    config: Config, given: Collection[str], wrong: Collection[str]
) -> Iterator[str]:
    """Yield every mistake. `given` names the settings that were set; `wrong` are reported
    already."""
    yield from _without_their_engine(config, given, wrong)
    for setting, value, name, what in _NEEDS:
        if getattr(config, setting) == value and getattr(config, name) is None:
            if name not in wrong:
                yield f"{_variable(setting)}={value} needs {what}"
    if not {"store", "bus", "registry", "roles"}.intersection(wrong):
        yield from _processes(config, wrong)
    if not {"bus", "jobs"}.intersection(wrong):
        yield from _queue(config)
    if config.push != "off" and config.is_alone and "bus" not in wrong:
        yield f"TIDINGS_PUSH={config.push} is for delivery workers: it needs TIDINGS_BUS=kafka"
    yield from _pairs(config, given)
    if config.redis_url is not None:
        yield from _redis(config, urlsplit(config.redis_url))
    yield from plain_connections(config)
    yield from _master_keys(config)
    if config.is_public:
        yield from _in_public(config)
    if not {"root_key", "data"}.intersection(wrong):
        yield from _root_key(config)


_PAIRS: Final = (
    ("kafka_username", "kafka_password"),
    ("kafka_password", "kafka_username"),
    ("kafka_sasl", "kafka_username"),
    ("kafka_certificate", "kafka_certificate_key"),
    ("kafka_certificate_key", "kafka_certificate"),
)
"""Pairs in which the first setting requires the second."""


def _pairs(config: Config, given: Collection[str]) -> Iterator[str]:
    for name, other in _PAIRS:
        if name in given and other not in given:
            yield f"{_variable(name)} has no effect without {_variable(other)}"


def _redis(config: Config, url: SplitResult) -> Iterator[str]:
    if config.redis_ca is not None and url.scheme != "rediss":
        yield "TIDINGS_REDIS_CA has no effect without rediss:// in TIDINGS_REDIS_URL"
    if config.redis_password is not None and url.password is not None:
        yield "TIDINGS_REDIS_PASSWORD is set, and TIDINGS_REDIS_URL contains a password as well"
    if config.redis_mode == "cluster" and url.path.strip("/") not in ("", "0"):
        yield "TIDINGS_REDIS_MODE=cluster has one database: TIDINGS_REDIS_URL names another"


def _variable(name: str) -> str:
    return f"TIDINGS_{name.upper()}"


def _without_their_engine(
    config: Config, given: Collection[str], wrong: Collection[str]
) -> Iterator[str]:
    for name, (setting, value) in _ENGINE_OF.items():
        if name in given and setting not in wrong and getattr(config, setting) != value:
            yield f"{_variable(name)} has no effect without {_variable(setting)}={value}"


def _processes(config: Config, wrong: Collection[str]) -> Iterator[str]:
    if config.store == "sqlite":
        yield from _on_the_embedded_store(config)
        return
    is_part = config.roles != ROLES
    if (config.bus == "memory") != (config.registry == "memory"):
        yield (
            f"TIDINGS_BUS={config.bus} and TIDINGS_REGISTRY={config.registry}: several processes "
            "need kafka and redis, one needs neither"
        )
    elif is_part and config.is_alone:
        yield (
            f"roles {','.join(config.roles)}: other processes do the rest, which "
            "needs TIDINGS_BUS=kafka and TIDINGS_REGISTRY=redis"
        )
    if not config.is_alone:
        for name in ("root_key", "master_key"):
            if getattr(config, name) is None and name not in wrong:
                yield f"several processes share one key: set {_variable(name)} for all of them"


def _queue(config: Config) -> Iterator[str]:
    if config.queue == "store" and not config.is_alone:
        yield ("TIDINGS_JOBS=store is for a single process: several need TIDINGS_JOBS=kafka or sqs")
    if config.queue == "kafka" and config.is_alone:
        yield "TIDINGS_JOBS=kafka is for several processes: it needs TIDINGS_BUS=kafka"


def _on_the_embedded_store(config: Config) -> Iterator[str]:
    for setting, value in (("bus", config.bus), ("registry", config.registry)):
        if value != "memory":
            yield (
                f"{_variable(setting)}={value} is for several processes, and the embedded "
                "store has one: it needs TIDINGS_STORE=dynamodb"
            )
    if config.roles != ROLES:
        yield f"roles {','.join(config.roles)}: on the embedded store one process has all roles"


def _master_keys(config: Config) -> Iterator[str]:
    if config.master_key_previous is None:
        return
    if config.master_key is None:
        yield "TIDINGS_MASTER_KEY_PREVIOUS has no effect without TIDINGS_MASTER_KEY"
    elif config.master_key == config.master_key_previous:
        yield "TIDINGS_MASTER_KEY_PREVIOUS is the same as TIDINGS_MASTER_KEY"


def _in_public(config: Config) -> Iterator[str]:
    if config.limits == "off":
        yield f"{config.why_public}: limits cannot be turned off"
    if config.sms == "log":
        yield (
            f"{config.why_public}: TIDINGS_SMS=log writes login codes into the log: for "
            "development only"
        )


def _root_key(config: Config) -> Iterator[str]:
    """Yield a mistake if the root key is missing or weak."""
    try:
        key = config.root_key or read_root_key(config.data)
    except SetupError as error:
        yield str(error)
        return
    # Behind a proxy the first start makes a strong key, as on any loopback address.
    if key is None and not config.is_loopback and config.is_alone:
        yield (
            f"{config.host} can be reached by others, and there is no root key yet: set "
            f"TIDINGS_ROOT_KEY ({MAKES_A_GOOD_ONE}), or start once on 127.0.0.1, which makes one"
        )

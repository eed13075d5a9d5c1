# SPDX-License-Identifier: Apache-2.0
"""Checks combinations of settings, which may be wrong although each setting is valid."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

import msgspec

from tidings.certificates import CertificateFiles, make_context
from tidings.config.building import CHOICES, make_keys, make_network
from tidings.config.settings import ROLES, Network, is_local_url, is_this_machine
from tidings.keyrings import MAKES_A_GOOD_ONE, read_root_key
from tidings.model.setup_error import SetupError

_PAIRS: Final = (
    ("kafka_username", "kafka_password"),
    ("kafka_password", "kafka_username"),
    ("kafka_sasl", "kafka_username"),
    ("kafka_certificate", "kafka_certificate_key"),
    ("kafka_certificate_key", "kafka_certificate"),
    ("tls_key", "tls_cert"),
    ("smtp_username", "smtp_password"),
    ("smtp_password", "smtp_username"),
)
"""Pairs in which the first setting requires the second."""


class ParsedSettings(msgspec.Struct, frozen=True):
    """Settings after each was parsed on its own, under the names that operators write."""

    values: Mapping[str, Any]
    """Values of the valid settings, with defaults for settings that choose a section."""
    given: Collection[str]
    """Names of the settings that were set."""
    wrong: Collection[str]
    """Names of the settings that are not valid; these mistakes are reported already."""

    @property
    def is_alone(self) -> bool:
        """Return True if this process is the only one of its deployment."""
        return bool(self.values["bus"] == "memory")

    @property
    def roles(self) -> tuple[str, ...]:
        """Return the roles of this process."""
        roles: tuple[str, ...] = self.values.get("roles", ROLES)
        return roles


def combined_mistakes(settings: ParsedSettings) -> Iterator[str]:
    """Yield a text for each mistake in the combination of settings."""
    yield from _without_their_engine(settings)
    yield from _missing(settings)
    values, wrong = settings.values, settings.wrong
    if not {"store", "bus", "registry", "roles"}.intersection(wrong):
        yield from _processes(settings)
    if not {"bus", "jobs"}.intersection(wrong):
        yield from _queue(settings)
    yield from _pairs(settings.given)
    yield from _blobs(settings)
    yield from _email(settings)
    yield from _certificate(settings)
    if "redis_url" in values:
        yield from _redis(values, urlsplit(values["redis_url"]))
    yield from plain_connections(values)
    yield from _master_keys(values)
    network = make_network(values)
    if network.is_public:
        yield from _in_public(network, values["sms"])
    if not {"root_key", "data"}.intersection(wrong):
        yield from _root_key(settings, network)


def _without_their_engine(settings: ParsedSettings) -> Iterator[str]:
    for choice in CHOICES:
        if choice.setting in settings.wrong:
            continue
        if settings.values[choice.setting] != choice.value:
            for name, _ in choice.settings():
                if name in settings.given:
                    needed = f"{_variable(choice.setting)}={choice.value}"
                    yield f"{_variable(name)} has no effect without {needed}"


def _missing(settings: ParsedSettings) -> Iterator[str]:
    known = settings.values.keys() | settings.wrong
    for choice in CHOICES:
        if settings.values[choice.setting] == choice.value:
            for name, field in choice.settings():
                hint = choice.section.hints.get(field)
                if hint is not None and name not in known:
                    what = hint.format(name=_variable(name))
                    yield f"{_variable(choice.setting)}={choice.value} needs {what}"


def _pairs(given: Collection[str]) -> Iterator[str]:
    for name, other in _PAIRS:
        if name in given and other not in given:
            yield f"{_variable(name)} has no effect without {_variable(other)}"


def _blobs(settings: ParsedSettings) -> Iterator[str]:
    if "blobs" not in settings.given:
        return
    if settings.values["attachments"] == "off":
        yield "TIDINGS_BLOBS has no effect with TIDINGS_ATTACHMENTS=off"
    if "attachments_folder" in settings.given:
        yield "TIDINGS_BLOBS and TIDINGS_ATTACHMENTS_FOLDER are both set: files have one place"


def _email(settings: ParsedSettings) -> Iterator[str]:
    url = settings.values.get("public_url")
    if settings.values["email"] == "smtp" and url is None and "public_url" not in settings.wrong:
        yield (
            "TIDINGS_EMAIL=smtp needs the address at which users reach the API, because each "
            "e-mail has a link to unsubscribe: set TIDINGS_PUBLIC_URL=https://host"
        )
    if _is_plain(url, "http"):
        yield "TIDINGS_PUBLIC_URL is on another machine: use https://"


def _certificate(settings: ParsedSettings) -> Iterator[str]:
    """Yield a mistake if the port cannot speak TLS with the certificate and the key."""
    certificate = settings.values.get("tls_cert")
    if certificate is None or "tls_key" in settings.wrong:
        return
    try:
        make_context(CertificateFiles(certificate, settings.values.get("tls_key")))
    except SetupError as error:
        yield f"TIDINGS_TLS_CERT: {error}"


def _redis(values: Mapping[str, Any], url: SplitResult) -> Iterator[str]:
    if "redis_ca" in values and url.scheme != "rediss":
        yield "TIDINGS_REDIS_CA has no effect without rediss:// in TIDINGS_REDIS_URL"
    if "redis_password" in values and url.password is not None:
        yield "TIDINGS_REDIS_PASSWORD is set, and TIDINGS_REDIS_URL contains a password as well"
    if values.get("redis_mode") == "cluster" and url.path.strip("/") not in ("", "0"):
        yield "TIDINGS_REDIS_MODE=cluster has one database: TIDINGS_REDIS_URL names another"


def _variable(name: str) -> str:
    return f"TIDINGS_{name.upper()}"


def _processes(settings: ParsedSettings) -> Iterator[str]:
    values, roles = settings.values, settings.roles
    if values["store"] == "sqlite":
        yield from _on_the_embedded_store(settings)
        return
    bus, registry = values["bus"], values["registry"]
    if (bus == "memory") != (registry == "memory"):
        yield (
            f"TIDINGS_BUS={bus} and TIDINGS_REGISTRY={registry}: several processes "
            "need kafka and redis, one needs neither"
        )
    elif roles != ROLES and settings.is_alone:
        yield (
            f"roles {','.join(roles)}: other processes do the rest, which "
            "needs TIDINGS_BUS=kafka and TIDINGS_REGISTRY=redis"
        )
    if settings.is_alone and values.get("processes", 1) > 1:
        yield (
            f"{values['processes']} processes on DynamoDB are gateways of their own: they need "
            "TIDINGS_BUS=kafka and TIDINGS_REGISTRY=redis"
        )
    if not settings.is_alone:
        for name in ("root_key", "master_key"):
            if name not in values and name not in settings.wrong:
                yield f"several processes share one key: set {_variable(name)} for all of them"


def _queue(settings: ParsedSettings) -> Iterator[str]:
    jobs = settings.values["jobs"]
    if jobs == "store" and not settings.is_alone:
        yield ("TIDINGS_JOBS=store is for a single process: several need TIDINGS_JOBS=kafka or sqs")
    if jobs == "kafka" and settings.is_alone:
        yield "TIDINGS_JOBS=kafka is for several processes: it needs TIDINGS_BUS=kafka"


def _on_the_embedded_store(settings: ParsedSettings) -> Iterator[str]:
    for setting in ("bus", "registry"):
        value = settings.values[setting]
        if value != "memory":
            yield (
                f"{_variable(setting)}={value} is for several processes, and the embedded "
                "store has one: it needs TIDINGS_STORE=dynamodb"
            )
    if "tls_cert" in settings.values and settings.values.get("processes", 1) > 1:
        yield (
            "TIDINGS_TLS_CERT is for one process on the embedded store: let a proxy terminate TLS, "
            "or set TIDINGS_PROCESSES=1"
        )
    if settings.roles != ROLES:
        yield f"roles {','.join(settings.roles)}: on the embedded store one process has all roles"


def plain_connections(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield a mistake for each unencrypted connection that is not explicitly allowed."""
    if values["plain_engines"] != "allow":
        for engine, encrypted in _plain_engines(values):
            yield (
                f"the connection to {engine} on another machine is not encrypted: {encrypted}, "
                "or set TIDINGS_PLAIN_ENGINES=allow if nobody else is in that network"
            )
    if values["plain_webhooks"] != "allow":
        for name in _plain_webhooks(values):
            yield (
                f"{name} is not encrypted and points to another machine: use https://, or set "
                "TIDINGS_PLAIN_WEBHOOKS=allow if nobody else is in that network"
            )


def _plain_engines(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each engine whose connection to another machine is not encrypted, with the remedy."""
    if values["store"] == "dynamodb" and _is_plain(values.get("dynamodb_endpoint"), "http"):
        yield "DynamoDB", "use https:// in TIDINGS_DYNAMODB_ENDPOINT"
    if values["bus"] == "kafka" and values["kafka_tls"] == "off":
        if any(map(_is_elsewhere, values.get("kafka_bootstrap", "").split(","))):
            yield "Kafka", "set TIDINGS_KAFKA_TLS=on"
    if values["registry"] == "redis" and _is_plain(values.get("redis_url"), "redis"):
        yield "Redis", "use rediss:// in TIDINGS_REDIS_URL"
    if values["jobs"] == "sqs" and _is_plain(values.get("sqs_queue_url"), "http"):
        yield "SQS", "use https:// in TIDINGS_SQS_QUEUE_URL"


def _plain_webhooks(values: Mapping[str, Any]) -> Iterator[str]:
    for name, setting, uses in (
        ("push_url", "push", "webhook"),
        ("sms_url", "sms", "webhook"),
        ("sms_endpoint", "sms", "sns"),
    ):
        if values[setting] == uses and _is_plain(values.get(name), "http"):
            yield _variable(name)


def _is_plain(url: str | None, plain_scheme: str) -> bool:
    return url is not None and urlsplit(url).scheme == plain_scheme and not is_local_url(url)


def _is_elsewhere(server: str) -> bool:
    host = server.rpartition(":")[0].strip("[]")
    return bool(host) and not is_this_machine(host)


def _master_keys(values: Mapping[str, Any]) -> Iterator[str]:
    keys = make_keys(values)
    if keys.master_key_previous is None:
        return
    if keys.master_key is None:
        yield "TIDINGS_MASTER_KEY_PREVIOUS has no effect without TIDINGS_MASTER_KEY"
    elif keys.master_key == keys.master_key_previous:
        yield "TIDINGS_MASTER_KEY_PREVIOUS is the same as TIDINGS_MASTER_KEY"


def _in_public(network: Network, sms: str) -> Iterator[str]:
    if not network.has_limits:
        yield f"{network.why_public}: limits cannot be turned off"
    if sms == "log":
        yield (
            f"{network.why_public}: TIDINGS_SMS=log writes login codes into the log: for "
            "development only"
        )


def _root_key(settings: ParsedSettings, network: Network) -> Iterator[str]:
    """Yield a mistake if the root key is missing or weak."""
    try:
        key = settings.values.get("root_key") or read_root_key(settings.values["data"])
    except SetupError as error:
        yield str(error)
        return
    # A server behind a proxy listens on a loopback address, where the first start makes a strong
    # key.
    if key is None and not network.is_loopback and settings.is_alone:
        yield (
            f"{network.host} can be reached by others, and there is no root key yet: set "
            f"TIDINGS_ROOT_KEY ({MAKES_A_GOOD_ONE}), or start once on 127.0.0.1, which makes one"
        )

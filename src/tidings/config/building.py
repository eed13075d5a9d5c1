# SPDX-License-Identifier: Apache-2.0
"""Builds the sections of the configuration from the parsed values.

The values are keyed by the setting names that operators write.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, TypeVar

import msgspec

from tidings.config.settings import (
    DATA_DEFAULT,
    AttachmentFolder,
    Cluster,
    Config,
    DynamoDb,
    Kafka,
    KafkaLogin,
    KafkaTls,
    Keys,
    Network,
    Process,
    PushServices,
    Redis,
    Section,
    Smtp,
    Sns,
    Sqlite,
    Sqs,
    Webhook,
    local_region,
)
from tidings.model.limits import DAY_CODES_DEFAULT

_Section = TypeVar("_Section", bound=Section)
_DEFAULTS: Final[Mapping[str, Any]] = {
    "data": DATA_DEFAULT,
    "limits": "on",
    "store": "sqlite",
    "bus": "memory",
    "kafka_tls": "off",
    "registry": "memory",
    "push": "off",
    "sms_per_day": DAY_CODES_DEFAULT,
    "email": "off",
    "blobs": None,
    "plain_engines": "refuse",
    "plain_webhooks": "refuse",
}
"""Defaults of the settings that are in no section. Most of them choose a section."""


class Choice(msgspec.Struct, frozen=True):
    """A section that exists only if a setting has a certain value."""

    section: type[Section]
    prefix: str
    setting: str
    value: str

    def settings(self) -> Iterator[tuple[str, str]]:
        """Yield (name that operators write, field) for each setting of the section."""
        for field in self.section.__struct_fields__:
            yield self.prefix + field, field


CHOICES: Final = (
    Choice(DynamoDb, "dynamodb_", "store", "dynamodb"),
    Choice(Kafka, "kafka_", "bus", "kafka"),
    Choice(KafkaTls, "kafka_", "kafka_tls", "on"),
    Choice(KafkaLogin, "kafka_", "bus", "kafka"),
    Choice(Sqs, "sqs_", "jobs", "sqs"),
    Choice(Redis, "redis_", "registry", "redis"),
    Choice(Webhook, "push_", "push", "webhook"),
    Choice(Webhook, "sms_", "sms", "webhook"),
    Choice(Sns, "sms_", "sms", "sns"),
    Choice(Smtp, "smtp_", "email", "smtp"),
    Choice(AttachmentFolder, "attachments_", "attachments", "folder"),
)


def with_defaults(parsed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values, with defaults for the settings that choose a section.

    By default, login codes go to the log if only this machine can reach the server. Otherwise no
    codes are sent.
    """
    values = {**_DEFAULTS, **parsed}
    # Several processes need a place that all of them can reach.
    has_place = values["bus"] == "memory" or values["blobs"] is not None
    has_place = has_place or "attachments_folder" in values
    values.setdefault("attachments", "folder" if has_place else "off")
    values.setdefault("jobs", "store" if values["bus"] == "memory" else "kafka")
    values.setdefault("sms", "off" if make_network(values).is_public else "log")
    region = local_region(values.get("dynamodb_endpoint"))
    if values["store"] == "dynamodb" and region is not None:
        values.setdefault("dynamodb_region", region)
    return values


def make_config(parsed: Mapping[str, Any]) -> Config:
    """Return the settings in sections. The values must have passed the checks in `checks`."""
    values = with_defaults(parsed)
    return Config(
        data=values["data"],
        network=make_network(values),
        process=_section(Process, "", values),
        keys=make_keys(values),
        store=_store(values),
        cluster=_cluster(values) if values["bus"] == "kafka" else None,
        sqs=_section(Sqs, "sqs_", values) if values["jobs"] == "sqs" else None,
        push=_sender(values, "push"),
        push_services=_section(PushServices, "", values),
        sms=_section(Sns, "sms_", values) if values["sms"] == "sns" else _sender(values, "sms"),
        sms_per_day=values["sms_per_day"],
        email=_section(Smtp, "smtp_", values) if values["email"] == "smtp" else "off",
        attachments=_attachments(values),
        blobs=values["blobs"],
    )


def make_network(values: Mapping[str, Any]) -> Network:
    """Return the network section, in which each setting has a default."""
    return _section(Network, "", values, has_limits=values["limits"] == "on")


def make_keys(values: Mapping[str, Any]) -> Keys:
    """Return the keys that the settings contain."""
    return _section(Keys, "", values)


def _store(values: Mapping[str, Any]) -> Sqlite | DynamoDb:
    return _section(DynamoDb, "dynamodb_", values) if values["store"] == "dynamodb" else Sqlite()


def _cluster(values: Mapping[str, Any]) -> Cluster:
    has_tls, has_login = values["kafka_tls"] == "on", "kafka_username" in values
    kafka = _section(
        Kafka,
        "kafka_",
        values,
        tls=_section(KafkaTls, "kafka_", values) if has_tls else None,
        login=_section(KafkaLogin, "kafka_", values) if has_login else None,
    )
    return Cluster(kafka, _section(Redis, "redis_", values))


def _sender(values: Mapping[str, Any], setting: str) -> Literal["off", "log"] | Webhook:
    match values[setting]:
        case "webhook":
            return _section(Webhook, f"{setting}_", values)
        case "log":
            return "log"
        case _:
            return "off"


def _attachments(values: Mapping[str, Any]) -> Literal["off"] | AttachmentFolder:
    if values["attachments"] == "off":
        return "off"
    return _section(AttachmentFolder, "attachments_", values)


def _section(
    section: type[_Section], prefix: str, values: Mapping[str, Any], **made: object
) -> _Section:
    names = [name for name in section.__struct_fields__ if prefix + name in values]
    return section(**{name: values[prefix + name] for name in names} | made)

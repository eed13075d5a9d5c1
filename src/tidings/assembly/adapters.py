# SPDX-License-Identifier: Apache-2.0
"""Imports the adapters that the settings name, before a supervisor forks its processes.

Otherwise a process that is started again would import them from the disk. After an upgrade on the
disk this is another version than that of its other modules and of the other processes, and its
store might migrate the database.
"""

from collections.abc import Iterator
from importlib import import_module

from tidings.config import Config, DynamoDb, Sns, Webhook
from tidings.config.settings import Smtp
from tidings.model.setup_error import optional_import


def import_adapters(config: Config) -> None:
    """Import all modules of the program that a server with these settings imports when it starts.

    No import starts a thread or opens a connection: after it, the process is forked.

    Raises:
        SetupError: A library is not installed.
    """
    with optional_import():
        for module in (*_store(config), *_services(config)):
            import_module(module)
    if isinstance(config.email, Smtp):
        with optional_import("email"):
            import_module("tidings.outgoing.smtp")
    if config.process.otlp is not None:
        with optional_import("traces"):
            import_module("tidings.otlp")


def _store(config: Config) -> Iterator[str]:
    if isinstance(config.store, DynamoDb):
        yield "tidings.stores.dynamodb.store"
        yield "tidings.stores.dynamodb.stream"
        if config.store.local_endpoint is not None:
            yield "tidings.stores.dynamodb.schema.requests"
    else:
        yield "tidings.stores.sqlite.store"
    if config.blobs is not None:
        yield "tidings.blobs.bucket"


def _services(config: Config) -> Iterator[str]:
    if config.cluster is not None:
        yield from (f"tidings.buses.{name}" for name in ("kafka", "kafka_feed", "kafka_jobs"))
        for name in ("answering", "handover", "processes", "pulse", "registry"):
            yield f"tidings.cluster.{name}"
    if config.sqs is not None:
        yield "tidings.buses.sqs"
    if isinstance(config.push, Webhook):
        yield "tidings.phones.push_webhook"
    if isinstance(config.sms, Webhook | Sns):
        yield "tidings.phones.sms"
    if config.process.metrics is not None:
        yield "tidings.metrics.exposition"

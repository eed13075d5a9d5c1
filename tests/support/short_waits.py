# SPDX-License-Identifier: Apache-2.0
"""Shortens waits of a server that tests start; the variable SHORT_WAITS of its environment names
them.

Tests whose subject is what happens after a wait need not wait as long as a deployment does. Tests
of what processes do together wait longer for services: a busy machine may stall one of them.
"""

import os
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Final
from unittest.mock import patch

from tests.support.patience import patience as store_patience
from tidings.actions import rate_limits
from tidings.actions.content.data_keys import KeyLeases
from tidings.actions.identity.quotas import TenantQuotas
from tidings.actions.identity.revocation_watch import RevocationWatch
from tidings.actions.inbox import escalating
from tidings.assembly import delivery, foundation, server
from tidings.buses import kafka_clients, kafka_feed
from tidings.cluster.handover import RedisHandover
from tidings.cluster.redis_link import RedisLink
from tidings.delivery import timer
from tidings.delivery.push_queue import PushQueue
from tidings.fronts import front, remote
from tidings.gateway import totals
from tidings.model import escalations as escalation_model
from tidings.model import limits
from tidings.model import webhooks as webhook_model
from tidings.ports.sessions import Bucket
from tidings.stores.dynamodb.identity import phone_claims
from tidings.stores.dynamodb.inbox import due

SHORT_WAITS: Final = "SHORT_WAITS"
"""Environment variable with the names of the waits, separated by spaces."""

QUICK_LEASES: Final = partial(KeyLeases, erasing_seconds=0.05)
"""An erasure waits for other processes that have cached the key; a test with one process has none
of them."""


def quotas() -> None:
    """Make the server add up counts and read quotas several times a second."""
    _set_defaults(TenantQuotas, add_seconds=0.1, look_seconds=0.2)
    vars(phone_claims).update(ADD_SECONDS=0.2)


def hello() -> None:
    """Give a new connection one second for its first frame."""
    vars(limits).update(HELLO_MS_MAX=limits.SECOND_MS)


def handshakes() -> None:
    """Make the server refuse handshakes after the first 50."""
    vars(rate_limits).update(_HANDSHAKES=Bucket("handshakes", "", per_second=5, burst=50))


def revocations() -> None:
    """Make the server read the revocation feed several times a second."""
    _set_defaults(RevocationWatch, look_seconds=0.1)


def erasures() -> None:
    """Make the server destroy keys at once."""
    vars(foundation).update(KeyLeases=QUICK_LEASES)


def erasures_here() -> AbstractContextManager[object]:
    """Let cores that are opened meanwhile in this process destroy keys at once."""
    return patch.object(foundation, "KeyLeases", QUICK_LEASES)


def unread_totals() -> None:
    """Make the server send the total of everything unread soon after each change."""
    vars(totals).update(PAUSE_SECONDS=0.05)


def kafka_groups() -> None:
    """Let other workers take over soon after one was killed."""
    vars(kafka_feed).update(SESSION_MS=4_000, HEARTBEAT_MS=500)


def store() -> None:
    """Wait for DynamoDB as long as a busy machine needs, instead of answering 503."""
    store_patience(seconds=60.0)


def redis() -> None:
    """Wait for Redis as long as a busy machine needs."""
    _set_defaults(RedisLink, answer_seconds_max=60.0)


def patience() -> None:
    """Wait for services as long as a busy machine needs. What a deployment does without Redis and
    Kafka for a moment would be lost otherwise: notices, and the delivery through the bus."""
    store()
    redis()
    _set_defaults(RedisHandover, answer_seconds_max=10.0)
    vars(kafka_clients).update(ANSWER_MS_MAX=60 * limits.SECOND_MS)


def owners() -> None:
    """Let fronts wait for the next owner as long as a busy machine needs to start it."""
    for module in (front, remote):
        vars(module).update(AWAY_SECONDS_MAX=60.0)


def webhooks() -> None:
    """Ask endpoints that fail, or refuse an event, again soon."""
    waits = {
        "FIRST_BACK_OFF_MS": 5,
        "BACK_OFF_MS": 50,
        "BACK_OFF_MS_MAX": 400,
        "REFUSED_WAITS_MS": (50,) * 9,
    }
    vars(webhook_model).update(waits)


def pushes() -> None:
    """Wait for devices, and gather the messages of a burst, for a short time before the next push
    notice."""
    _set_defaults(PushQueue, wait_seconds=5.0, gather_seconds=0.5)


def due_items() -> None:
    """Let the next process do what is due soon after one was killed."""
    vars(timer).update(ASK_MS=limits.SECOND_MS)
    vars(due).update(LEASE_MS=5 * limits.SECOND_MS)


def escalations() -> None:
    """Escalate after seconds instead of minutes, and give up the claims of a killed process
    soon."""
    vars(escalation_model).update(MINUTE_MS=2 * limits.SECOND_MS)
    vars(escalating).update(CLAIM_MS=3 * limits.SECOND_MS)
    vars(delivery).update(EMAIL_PACE=timer.EMAIL_PACE._replace(poll_seconds=0.5))


def start() -> None:
    """Let a server that starts ask once whether its store answers."""
    vars(server).update(START_SECONDS_MAX=0.0)


def shorten_waits() -> None:
    """Shorten the waits that the environment names."""
    known = (
        quotas,
        hello,
        handshakes,
        revocations,
        erasures,
        unread_totals,
        kafka_groups,
        store,
        redis,
        patience,
        owners,
        webhooks,
        pushes,
        due_items,
        escalations,
        start,
    )
    waits = {wait.__name__: wait for wait in known}
    for name in os.environ.get(SHORT_WAITS, "").split():
        waits[name]()


def _set_defaults(kind: type[Any], **values: float) -> None:
    defaults = kind.__init__.__kwdefaults__
    assert values.keys() <= defaults.keys(), defaults
    defaults.update(values)

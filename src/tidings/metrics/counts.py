# SPDX-License-Identifier: Apache-2.0
"""Shows the counts that parts of the server keep in attributes as one metric.

Most of them are zero in a healthy deployment. They are for questions that the other metrics raise.
"""

from collections.abc import Mapping
from typing import Final

from tidings.metrics.declared import internal
from tidings.metrics.meters import report

INTERNAL: Final[Mapping[str, Mapping[str, str]]] = {
    "worker": {
        "taken": "events taken from Kafka",
        "settled_runs": "runs of entries that were delivered",
        "failed_attempts": "failed attempts to deliver a run",
        "dead_letter": "events that became dead letters",
    },
    "deliverer": {"delivered": "entries delivered from the bus or by the relay"},
    "dispatch": {
        "failed_lookups": "deliveries without an answer from the registry",
        "silent_gateways": "gateways that did not confirm a handover in time",
    },
    "chat states": {
        "cold_loads": "states of chats read from the store for delivery",
        "log_reads": "reads of entries that an event did not contain",
    },
    "relay": {
        "compared": "chats compared with their head copy",
        "hinted": "hints sent to workers",
        "delivered": "chats that the relay delivered itself",
        "given_up": "chats that could not be delivered",
    },
    "jobs": {
        "finished": "delivery jobs of notifications that are done",
        "failed_attempts": "failed attempts of such jobs",
    },
    "deletions": {"failed_steps": "failed steps of deletions of chats"},
    "tenant jobs": {"failed_steps": "failed steps of jobs of tenants"},
    "timer": {
        "done": "items that were due and are done, such as scheduled messages",
        "failed_attempts": "unexpected errors that such items met",
    },
    "webhooks": {
        "delivered": "events that webhook endpoints took",
        "failed_attempts": "attempts that were refused, failed or not answered",
        "set_aside": "events that an endpoint refused too often",
    },
    "webhook events": {"dropped": "read marks and expired messages that became no event"},
    "push": {"noticed": "push notices that were sent"},
    "profiles": {"dropped": "changes of profiles and presence that were not sent"},
    "notices": {"dropped": "inbox frames that were not sent"},
    "inbox counts": {"dropped": "counts of inboxes that were not sent"},
    "remote notices": {"dropped": "frames to other gateways that were not sent"},
    "handover": {
        "unanswered": "handovers that a gateway did not confirm",
        "dropped": "handovers and notices that were not sent",
    },
    "handover receiver": {"dropped": "handovers that were not accepted"},
    "registration": {"compared": "connections whose heads were compared with the store"},
    "redis": {"failures": "commands that Redis did not answer"},
    "kafka publisher": {
        "published": "events that Kafka confirmed",
        "dropped": "events that were not published; the relay delivers their entries",
    },
    "kafka feed": {
        "commits": "commits of offsets",
        "failed_commits": "commits that failed",
    },
    "message cipher": {"refused": "records and handovers that this deployment did not encrypt"},
    "credentials": {"refused": "credentials that were not valid"},
    "vault": {"tampered": "contents and data keys that could not be decrypted"},
    "allocator": {"trims": "times that free memory was returned to the system"},
}
"""Integer attributes that parts of the server count anyway, and what each of them counts."""


def report_counts(owner: object, part: str) -> None:
    """Show the declared integer attributes of a part of the server as metrics."""
    names = tuple(INTERNAL[part])
    report(owner, lambda owner: [(internal, (part, name), getattr(owner, name)) for name in names])

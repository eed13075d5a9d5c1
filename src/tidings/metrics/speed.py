# SPDX-License-Identifier: Apache-2.0
"""Declares the metrics that say whether the server is fast; `declared` has all others."""

from functools import partial

from tidings.metrics.meters import declare

_fast = partial(declare, question="Is it fast?")

send_seconds = _fast(
    "tidings_send_seconds",
    "histogram",
    "Time from the arrival of a message until it is durable, for messages that were accepted. On a "
    "socket, one message at a time is timed.",
    "via",
    source="gateway, api",
    starts=("rest", "socket"),
)
delivery_seconds = _fast(
    "tidings_delivery_seconds",
    "histogram",
    "Age of an entry, since its created_at, when it is written to a socket. The path is local if "
    "this process appended the entry, or read it in order to append after it; bus if a worker "
    "handed it over; or catch_up if it was read from the log for a device, which includes the time "
    "for which the device was offline. One live entry at a time is timed in each chat of a "
    "connection.",
    "path",
    source="gateway",
    starts=("local", "bus", "catch_up"),
)
received_seconds = _fast(
    "tidings_received_seconds",
    "histogram",
    "Age of an entry, since its created_at, when a device acknowledges it. One entry at a time is "
    "timed in each chat of a connection, and none of a catch-up.",
    source="gateway",
)
hello_seconds = _fast(
    "tidings_hello_seconds",
    "histogram",
    "Time from hello until the connection is live.",
    source="gateway",
)

# SPDX-License-Identifier: Apache-2.0
"""Declares all metrics, except those in `speed`, which say whether the server is fast.

The reference page, the dashboard and the alert rules are generated from both modules.

Labels are names from the code or the configuration, so their number is bounded. No label contains a
tenant, a user, a chat or a connection. A histogram of seconds measures up to the time at which the
server acts, as far as this is known. Its help text says where the measurement begins.
"""

from functools import partial
from typing import Final

from tidings.metrics.meters import AMOUNTS, LATE_SECONDS, declare
from tidings.metrics.speed import delivery_seconds as delivery_seconds
from tidings.metrics.speed import hello_seconds as hello_seconds
from tidings.metrics.speed import received_seconds as received_seconds
from tidings.metrics.speed import send_seconds as send_seconds

_whole = partial(declare, question="Is it whole?")
_there = partial(declare, question="Who is there?")
_done = partial(declare, question="What do they do?")
_inside = partial(declare, question="What happens inside?")
_outside = partial(declare, question="What happens outside?")
_runs = partial(declare, question="What runs?")

FLEET: Final = "`bus = kafka`"
BACKUPS: Final = "`store = sqlite`, and a backup"
TABLES: Final = "`store = dynamodb`"

relay_late = _whole(
    "tidings_relay_late_total",
    "counter",
    "Chats that the relay found to be delivered too late. Each attempt to deliver counts.",
    source="relay",
    needs=TABLES,
)
relay_late_seconds = _whole(
    "tidings_relay_late_seconds",
    "histogram",
    "Time since the relay first expected the entries of a chat to be delivered, at each attempt.",
    source="relay",
    needs=TABLES,
    bounds=LATE_SECONDS,
)
resyncs = _whole(
    "tidings_resyncs_total",
    "counter",
    "Chats that a client had to load again, because it was offline for too long (too_many), has "
    "entries of another epoch (epoch), or has entries that the log does not have (ahead).",
    "reason",
    source="gateway",
    starts=("ahead", "epoch", "too_many"),
)
catch_up_entries = _whole(
    "tidings_catch_up_entries",
    "histogram",
    "Number of entries that a device missed, at each hello that follows all chats.",
    source="gateway",
    bounds=AMOUNTS,
)
jobs = _whole(
    "tidings_jobs",
    "gauge",
    "Delivery jobs of notifications that this process has taken: waiting or running.",
    "state",
    source="worker",
)
jobs_aside = _whole(
    "tidings_jobs_aside",
    "gauge",
    "Delivery jobs that became dead letters in this process since it started.",
    source="worker",
)

timer_late_seconds = _whole(
    "tidings_timer_late_seconds",
    "histogram",
    "Time from when something was due, such as a scheduled message, until this process began to do "
    "it. What is tried again counts once, when it is done.",
    "kind",
    source="worker",
    bounds=(0.25, 0.5, *LATE_SECONDS),
    starts=("message", "inbox"),
)
due_items = _whole(
    "tidings_due_items",
    "gauge",
    "What is due and this process has read: waiting or running.",
    "state",
    source="worker",
)

sockets = _there(
    "tidings_sockets",
    "gauge",
    "Open sockets by the program that the client names in hello: the first 20 names of this "
    "process, then other. A client without a name is unknown.",
    "client",
    source="gateway",
)
sockets_opened = _there(
    "tidings_sockets_opened_total", "counter", "Sockets that were opened.", source="gateway"
)
sockets_closed = _there(
    "tidings_sockets_closed_total",
    "counter",
    "Sockets that were closed, by close code. 1006 is a connection that was lost. Codes that only "
    "a client uses are other.",
    "code",
    source="gateway",
)
sockets_refused = _there(
    "tidings_sockets_refused_total",
    "counter",
    "Requests for a socket that were refused, because of the Origin header (origin), of an invalid "
    "request (handshake, version), of a rate limit (rate), because too many sockets (full) or "
    "connections (connections) are open, because the server restarts (draining), or because it "
    "cannot read revocations (blind).",
    "reason",
    source="gateway",
    starts=(
        "blind",
        "connections",
        "draining",
        "full",
        "handshake",
        "origin",
        "rate",
        "version",
    ),
)
sockets_slow = _there(
    "tidings_sockets_slow",
    "gauge",
    "Sockets whose client reads more slowly than the server writes.",
    source="gateway",
)
window_full = _there(
    "tidings_window_full_total",
    "counter",
    "How often a connection had as many unacknowledged entries as the window allows.",
    source="gateway",
)

entries = _done(
    "tidings_entries_total",
    "counter",
    "Entries that this process appended to logs of chats.",
    "kind",
    source="gateway, api",
)
frames = _done(
    "tidings_frames_total",
    "counter",
    "Frames on sockets. Frames from clients have the direction in, frames to clients have out.",
    "op",
    "direction",
    source="gateway",
)
requests_seconds = _done(
    "tidings_requests_seconds",
    "histogram",
    "Time to answer an HTTP request, by the template of its path. The route is empty for unknown "
    "paths.",
    "route",
    "status",
    source="api",
)
refusals = _done(
    "tidings_refusals_total",
    "counter",
    "Refusals of requests and frames, by the code that the client gets.",
    "code",
    "via",
    source="gateway, api",
)
repeats = _done(
    "tidings_repeats_total",
    "counter",
    "Messages that were sent again and recognised by their client_message_id.",
    source="gateway, api",
)
rate_limited = _done(
    "tidings_rate_limited_total",
    "counter",
    "Requests, messages and handshakes over a rate limit.",
    "limit",
    source="gateway, api",
    starts=tuple("address connects credentials handshakes login messages tenant-key user".split()),
)

store_seconds = _inside(
    "tidings_store_seconds",
    "histogram",
    "Time of an operation of the store, with the time that it waited. In DynamoDB the operation is "
    "an access pattern; in SQLite it is a function of the store, or commit for a transaction.",
    "operation",
    source="store",
)
store_waiting = _inside(
    "tidings_store_waiting",
    "gauge",
    "Operations that wait for a connection to the store or for the next transaction.",
    source="store",
)
commit_entries = _inside(
    "tidings_commit_entries",
    "histogram",
    "Number of entries in a transaction of SQLite, or in a batch of one chat in DynamoDB.",
    source="store",
    bounds=AMOUNTS,
)
capacity_units = _inside(
    "tidings_capacity_units_total",
    "counter",
    "Capacity units that DynamoDB charged. The kind is read or write.",
    "table",
    "kind",
    source="store",
    needs=TABLES,
)
bus_lag_entries = _inside(
    "tidings_bus_lag_entries",
    "gauge",
    "Events in Kafka that the workers of this process have to process.",
    "topic",
    source="worker",
    needs=FLEET,
)
bus_lag_seconds = _inside(
    "tidings_bus_lag_seconds",
    "gauge",
    "Age of the oldest event that this process has not published or not delivered yet.",
    "topic",
    source="gateway, api, worker",
    needs=FLEET,
)
loop_lag_seconds = _inside(
    "tidings_loop_lag_seconds",
    "histogram",
    "Time by which the event loop called a timer too late, measured four times a second.",
    source="all roles",
)
memory_entries = _inside(
    "tidings_memory_entries",
    "gauge",
    "Values in a cache in the memory of this process.",
    "cache",
    source="all roles",
)
queue_depth = _inside(
    "tidings_queue_depth",
    "gauge",
    "Numbers that describe a queue of this process: the same as in a state dump.",
    "queue",
    "what",
    source="all roles",
)
loop_failures = _inside(
    "tidings_loop_failures_total",
    "counter",
    "Failed steps of background loops that still run.",
    "group",
    "step",
    source="all roles",
)
internal = _inside(
    "tidings_internal_total",
    "counter",
    "Events inside a part of the server; the table below explains them.",
    "part",
    "event",
    source="all roles",
)
push = _outside(
    "tidings_push_total",
    "counter",
    "Push notices to devices by outcome, and batches to the operator's webhook (sent, failed).",
    "outcome",
    source="all roles",
    starts=tuple(
        "sent failed dropped gone refused not_sent unknown ended content_gone outdated".split()
    ),
)
push_messages = _outside(
    "tidings_push_messages_total",
    "counter",
    "Messages of which a member may be notified (offered): noticed, or why not. The others wait.",
    "outcome",
    source="all roles",
    starts=tuple(
        "offered noticed taken muted quiet not_claimed content_gone dropped failed".split()
    ),
)
webhook_seconds = _outside(
    "tidings_webhook_seconds",
    "histogram",
    "Time of a request to a webhook: accepted, refused (status 400 to 499), failed (any other "
    "status), or unanswered.",
    "outcome",
    source="worker, api",
    needs="`push = webhook`, or a webhook endpoint of a tenant",
    starts=("accepted", "refused", "failed", "unanswered"),
)
before_send_seconds = _outside(
    "tidings_before_send_seconds",
    "histogram",
    "Time that messages wait for the hook of their tenant: allowed, declined, replaced, or without "
    "an answer.",
    "outcome",
    source="gateway and api",
    needs="`before_send` in a tenant's settings",
    starts=("allow", "decline", "replace", "failed"),
)
sms = _outside(
    "tidings_sms_total",
    "counter",
    "Login codes by text message: sent, withheld because of a budget, or the reason of a failure.",
    "outcome",
    source="api",
    needs="`sms`",
    starts=("sent", "withheld", "rejected", "provider", "provider_down", "store"),
)
logins = _outside(
    "tidings_logins_total",
    "counter",
    "Attempts to log in with a code: accepted or wrong.",
    "outcome",
    source="api",
    needs="`sms`",
    starts=("accepted", "wrong"),
)
notification_seconds = _outside(
    "tidings_notification_seconds",
    "histogram",
    "Time from the post of a notification until a delivery job stored the copies of its users. The "
    "slowest job of a notification serves the last recipient.",
    source="worker",
)
spans = _outside(
    "tidings_spans_total",
    "counter",
    "Spans of traces: exported to the collector, failed because it did not accept them, or dropped "
    "because too many waited. Traces that did not begin because of the limit per second are "
    "limited.",
    "outcome",
    source="gateway, api, worker",
    needs="`otlp`",
    starts=("exported", "failed", "dropped", "limited"),
)
emails = _outside(
    "tidings_emails_total",
    "counter",
    "E-mails about unread notifications by outcome: taken by the mail server (sent), to be tried "
    "again (later), refused for good, given up after many attempts (failed), or of unknown outcome "
    "because the connection broke. Without a mail server, an escalation is off.",
    "outcome",
    source="worker",
    starts=("sent", "later", "refused", "failed", "unknown", "off"),
)

build_info = _runs(
    "tidings_build_info",
    "gauge",
    "Always 1. The labels describe this process; several roles are separated by commas.",
    "version",
    "store",
    "bus",
    "registry",
    "role",
    source="all roles",
)
epoch_info = _runs(
    "tidings_epoch_info",
    "gauge",
    "Always 1. The label is the epoch of the deployment, which changes with a restore.",
    "epoch",
    source="all roles",
)
backup_age = _runs(
    "tidings_backup_age_seconds",
    "gauge",
    "Time since the newest backup that `tidings backup` made of the data folder.",
    source="all roles",
    needs=BACKUPS,
)

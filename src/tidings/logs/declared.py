# SPDX-License-Identifier: Apache-2.0
"""Declares the actions in the log: what each means, and its fields.

The call that logs an action sets its level and its logger. The reference page is made from both,
and a test compares the declaration with every line of the code that logs.
"""

from typing import Final, NamedTuple

MORE: Final = "…"
"""Stands for further fields, whose names depend on what is described."""


class Action(NamedTuple):
    """An action in the log."""

    meaning: str
    fields: tuple[str, ...] = ()
    """Fields that a line of this action may have, besides those that every line has."""


ACTIONS: Final[dict[str, Action]] = {
    # The process, its connections and its requests.
    "serving": Action("The server accepts connections.", ("url",)),
    "store_awaited": Action(
        "DynamoDB does not answer a server that starts. It tries again, for a minute."
    ),
    "stopping": Action("The server received a signal to stop, and closes its connections."),
    "metrics_listening": Action("The listener for metrics is open.", ("host", "port")),
    "tables_made": Action("Missing tables in DynamoDB were created.", ("prefix",)),
    "proxy_not_named": Action(
        "A proxy on this machine forwards requests, but `TIDINGS_TRUSTED_PROXIES` does not list "
        "it. Rate limits by address are therefore off. Logged once."
    ),
    "certificate_loaded": Action(
        "SIGHUP arrived, and new connections get the certificate that is in the file now.",
        ("file",),
    ),
    "certificate_refused": Action(
        "SIGHUP arrived, but the new certificate or its key cannot be used. The old one stays.",
        ("error",),
    ),
    "accept_failed": Action(
        "The server cannot accept new connections, most likely because it has no file descriptors "
        "left.",
        ("error",),
    ),
    "connections_refused": Action(
        "All connections are in use and none is idle, or one address has used its share. Every "
        "hundredth refusal is logged.",
        ("count",),
    ),
    "process_not_started": Action(
        "The system cannot make a process now. This is tried again every second.",
        ("job", "error"),
    ),
    "process_started": Action(
        "The supervisor has started a process of the server.", ("job", "pid")
    ),
    "process_ended": Action(
        "A process of the server ended. It is started again, unless the server ends with it.",
        ("job", "code"),
    ),
    "process_given_up": Action(
        "A process of the server ended too often before it was ready. The server ends.", ("job",)
    ),
    "socket_not_passed": Action(
        "A front did not take a socket. Another front got it, or the client connects again.",
        ("error",),
    ),
    "front_behind": Action(
        "A front does not read fast enough. It gets no entries for now, and reads them from the "
        "log later.",
        ("front",),
    ),
    "front_killed": Action(
        "A front said nothing for 15 seconds. The owner kills it, and another one starts.",
        ("front",),
    ),
    "fronts_missing": Action(
        "Some fronts have not come within 30 seconds. The server serves with the others.",
        ("count",),
    ),
    "owner_missing": Action(
        "The process with the store did not come back in time. The front closes its connections, "
        "and another front takes its place.",
        ("count",),
    ),
    "welcomed": Action("A device is connected.", ("connection", "client")),
    "rate_limited": Action("A request, message or handshake is over a rate limit.", ("policy",)),
    "request_failed": Action(
        "A bug of ours: the caller got a 500. Please report it.", ("method", "route")
    ),
    "was_paused": Action(
        "The process was stopped for so long that others took over. Its sockets were closed.",
        ("code",),
    ),
    "forgotten": Action(
        "Redis had lost registrations of connections. They were made again.", ("count",)
    ),
    "loop_failed": Action("A background loop failed. It continues after a pause.", ("group",)),
    "question_failed": Action(
        "A question between the processes of one machine failed.", ("subject",)
    ),
    "task_failed": Action("A background task failed.", ("group",)),
    "events_dropped": Action(
        "More read marks and expired messages than can wait became no events for webhooks.",
        ("dropped",),
    ),
    "event_failed": Action("An event for webhooks could not be stored.", ("tenant",)),
    "jobs_dropped": Action(
        "Background work was dropped when the process stopped.", ("group", "dropped")
    ),
    "check_failed": Action(
        "The process that checks a notification against its schema failed. The post got 503.",
        ("code",),
    ),
    # A dump of the state, on SIGUSR1.
    "state_queue": Action("The numbers of a queue.", ("queue", MORE)),
    "state_loop": Action(
        "A background loop, and its last failure.", ("group", "step", "failures", "last_error")
    ),
    "state_thread": Action("What a thread does.", ("thread_name", "stack")),
    "state_task": Action("The place at which some tasks wait.", ("count", "stack")),
    "state_end": Action("The dump is complete.", ("tasks", "stacks")),
    # The store.
    "store_broken": Action(
        "The disk failed or is full. The server stops with exit code 1.", ("error",)
    ),
    "store_refuses": Action(
        "DynamoDB refuses requests, for example for lack of a permission.", ("code", "pattern")
    ),
    "store_unavailable": Action(
        "A request to DynamoDB was given up, after retries; the message says why. Its caller got "
        "503. At most every 10 seconds.",
        ("pattern",),
    ),
    "write_failed": Action("An unexpected error undid one write. Its sender got 503."),
    "prepare_failed": Action("An unexpected error prevented a write. Its sender got 503."),
    "run_failed": Action("An unexpected error prevented the append of some entries."),
    "run_not_made": Action("An unexpected error met the preparation of some entries."),
    "settle_failed": Action("Entries are durable, but their senders may not have been answered."),
    "answer_failed": Action("A message is durable, but its sender may not have been answered."),
    "reactions_left": Action(
        "Reactions to a redacted message stay in the store. Nobody sees them.", ("chat", "sequence")
    ),
    "broadcast_stays": Action(
        "An expired broadcast stays in the store. Nobody sees it.", ("tenant", "inbox", "sequence")
    ),
    "index_waits": Action("The search index of a chat cannot be extended now."),
    "sweep_waits": Action("Expired data cannot be removed now. This is tried again."),
    "file_sweep_failed": Action(
        "A file that nobody can read any more cannot be deleted, because of an unexpected error. "
        "This is tried again after an hour.",
        ("attachment",),
    ),
    "ledger_unwritable": Action(
        "The ledger of erasures cannot be written. The erasure was refused with 503."
    ),
    "erasures_replayed": Action(
        "The store was restored, and the erasures since then were carried out again.",
        ("erasures",),
    ),
    # Content and keys.
    "content_tampered": Action(
        "Encrypted content was changed in the store. Readers get `erased` in its place.",
        ("chat", "sequence", "author", "bound_to"),
    ),
    "attachment_damaged": Action(
        "The bytes of a file are missing or were changed. The reader gets 410.", ("attachment",)
    ),
    "attachments_unavailable": Action(
        "The bytes of files cannot be stored or read now. The request was refused with 503."
    ),
    "data_key_unusable": Action("A data key cannot be decrypted.", ("author", "reason")),
    "signing_key_unusable": Action(
        "A key that signs tokens cannot be decrypted.", ("key", "reason")
    ),
    "rotation_begun": Action("A rotation of the master key started.", ("key",)),
    "rotation_finished": Action("A rotation of the master key is complete.", ("key", "secrets")),
    # Tenants, users and their credentials.
    "cross_tenant": Action(
        "A key or token of one tenant was used for another tenant.", ("tenant", "wanted")
    ),
    "refresh_reused": Action(
        "A used refresh token came back. It may have been stolen, so its session was ended.",
        ("tenant", "user", "session"),
    ),
    "revocation_unreported": Action(
        "A session ended, but the store did not take the event `session.revoked`. The tenant's "
        "webhooks do not get it.",
        ("tenant", "user", "session"),
    ),
    "revocations_late": Action(
        "The process was too busy to read the revocation feed in time. Its sockets were paused "
        "and stay open. If it happens often, the process has too little CPU.",
        ("seconds",),
    ),
    "revocations_unread": Action(
        "The revocation feed cannot be read from the store. Sockets stay closed until it can."
    ),
    "revocations_failed": Action("An unexpected error met a revocation. It is read again."),
    "quotas_wait": Action("The use of tenants cannot be added up now. This is tried again."),
    "quota_failed": Action("The use of a tenant cannot be added up.", ("tenant",)),
    "audit_failed": Action("A record of the audit trail could not be written."),
    "audit_incomplete": Action(
        "The outcome of an administrative action could not be recorded. The audit trail shows "
        "`unknown`.",
        ("act", "tenant", "outcome", "request"),
    ),
    # Texts, push notices and traces.
    "sms": Action("With `TIDINGS_SMS=log`: a text.", ("phone_number", "text")),
    "code_failed": Action(
        "A login code could not be sent. The reason is `provider`, `rejected`, `store` or "
        "`provider_down`.",
        ("reason", "tenant"),
    ),
    "code_withheld": Action(
        "An SMS budget is used up: either a user cannot log in, or somebody abuses your texts to "
        "earn money.",
        ("used_up", "tenant"),
    ),
    "sms_failed": Action("Your webhook or SNS did not accept a text.", ("reason",)),
    "sms_down": Action("The SMS provider is down."),
    "sms_up": Action("The SMS provider works again."),
    "email_down": Action(
        "The mail server cannot be reached, or refuses to talk. E-mails are tried again.",
        ("reason",),
    ),
    "email_up": Action("The mail server works again."),
    "email_error": Action(
        "An e-mail could not be made or sent because of an unexpected error. It is tried again a "
        "limited number of times, and the other users get theirs.",
        ("tenant",),
    ),
    "email_refused": Action(
        "The mail server refused an e-mail for good, or it was given up.", ("tenant", "outcome")
    ),
    "push": Action("With `TIDINGS_PUSH=log`: a batch of push notices.", ("notices",)),
    "hook_failed": Action(
        "The before-send hook of a tenant failed ten times in a row. It is asked again every five "
        "seconds; meanwhile the tenant's settings decide.",
        ("tenant", "reason"),
    ),
    "push_not_sent": Action(
        "A push service did not take a notice for a device. The outcome is `refused`, `not_sent` "
        "or `unknown`.",
        ("tenant", "provider", "outcome", "reason"),
    ),
    "push_waits": Action(
        "A push notice was not sent, because the store does not answer.",
    ),
    "push_replayed": Action(
        "A process that has started looked at the messages of the last two minutes again: their "
        "push notices may have waited in the memory of the process before.",
        ("count",),
    ),
    "webhook_fails": Action(
        "A webhook endpoint of a tenant fails or does not answer. It is tried again, after ten "
        "minutes at the latest; its events wait. A single failure of an endpoint that takes events "
        "is not logged.",
        ("tenant", "webhook", "reason"),
    ),
    "webhook_set_aside": Action(
        "A webhook endpoint has refused an event ten times. The next events of the chat follow.",
        ("tenant", "webhook", "event"),
    ),
    "webhook_disabled": Action(
        "A webhook endpoint is gone, or has taken nothing for five days.",
        ("tenant", "webhook", "reason"),
    ),
    "webhook_failed": Action(
        "An unexpected error while events were delivered to an endpoint.", ("tenant", "webhook")
    ),
    "push_trouble": Action(
        "Your webhook does not accept push notices, or too many wait.",
        ("tenant", "failed", "dropped"),
    ),
    "spans_lost": Action("The collector of traces does not accept spans.", ("count",)),
    # Delivery, and the services between the processes.
    "subscriber_failed": Action("An unexpected error met an event inside the process."),
    "taking_failed": Action("An unexpected error met the reading of events or jobs."),
    "delivery_failed": Action("An unexpected error met a delivery. It is tried again."),
    "dispatch_failed": Action(
        "An unexpected error met the registry of connections, or the way to other gateways. The "
        "gateways compare heads, and read the entries from the log."
    ),
    "recount_failed": Action(
        "An unexpected error met the unread counts that devices get after messages have expired."
    ),
    "event_dead_letter": Action(
        "An event could not be delivered and is a dead letter in Kafka. The devices read its "
        "entry from the log.",
        ("reason", "partition", "offset"),
    ),
    "dead_letter_failed": Action("A dead letter could not be written. This is tried again."),
    "commit_failed": Action("Kafka did not store how far the events are read."),
    "kafka_trouble": Action(
        "Kafka cannot be reached, or events for it were dropped. The relay delivers their entries.",
        ("dropped",),
    ),
    "feed_trouble": Action(
        "Events or jobs cannot be read from Kafka. The process joins its group again.",
        ("topic", "error"),
    ),
    "redis_down": Action("Redis does not answer.", ("error",)),
    "redis_up": Action("Redis answers again."),
    "subscription_broke": Action("A subscription in Redis broke. It is made again.", ("error",)),
    "handover_refused": Action("A message in Redis is not one of ours. It was ignored."),
    "handover_failed": Action("An unexpected error met a message from another process."),
    "message_refused": Action(
        "A message between processes was not encrypted by this deployment for this place. It was "
        "ignored.",
        ("destination", "refused"),
    ),
    "relay_waits": Action("The relay waits until the store answers."),
    "relay_failed": Action("An unexpected error met the relay. It tries again.", ("chat",)),
    "relay_gave_up": Action(
        "The relay could not deliver the entries of a chat. The devices read them from the log.",
        ("chat",),
    ),
    # Jobs.
    "job": Action("A job of a tenant has finished a phase.", ("tenant", "kind", "phase")),
    "job_failed": Action(
        "An unexpected error met a delivery job, or a job of a tenant. It is tried again.",
        ("tenant", "job", "kind"),
    ),
    "job_dead_letter": Action(
        "A delivery job of a notification failed too often, and is a dead letter.",
        ("tenant", "job"),
    ),
    "job_stays": Action("A delivery job in DynamoDB cannot be decoded, and stays there.", ("job",)),
    "job_unreadable": Action(
        "A record in the queue is not a delivery job.", ("partition", "offset", "message_id")
    ),
    "job_visible": Action("Another process has taken the same job from SQS, and does it again."),
    "jobs_not_hidden": Action("SQS may give jobs that are being done to another process."),
    "queue_refuses": Action("SQS refuses requests, for example for lack of a permission."),
    "chat_deletion": Action("The deletion of a chat has finished a phase.", ("chat", "phase")),
    "shards_leased": Action(
        "This process now does what is due in these shards, and other processes in the others.",
        ("kind", "count"),
    ),
    "due_failed": Action(
        "An unexpected error met something that was due, such as a scheduled message. It is tried "
        "again, and given up after five errors.",
        ("tenant", "kind"),
    ),
    "deleting_failed": Action("The deletion of a chat failed. It is tried again.", ("chat",)),
}

# SPDX-License-Identifier: Apache-2.0
"""Declares the metric of e-mails; `declared` has all others."""

from tidings.metrics.meters import declare

emails = declare(
    "tidings_emails_total",
    "counter",
    "E-mails about unread notifications by outcome: taken by the mail server (sent), to be tried "
    "again (later), refused for good, given up after many attempts (failed), or of unknown outcome "
    "because the connection broke. Without a mail server, an escalation is off.",
    "outcome",
    question="What happens outside?",
    source="worker",
    starts=("sent", "later", "refused", "failed", "unknown", "off"),
)

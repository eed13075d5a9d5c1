# SPDX-License-Identifier: Apache-2.0
"""Steps of the schema that add webhook endpoints, what they are owed, and tenants' events."""

from typing import Final

# A row of `webhook_owed` is removed as soon as the endpoint has got everything, so the table is
# small while the endpoints take what they get.
WEBHOOKS: Final = """
CREATE TABLE webhooks (
    tenant TEXT NOT NULL,
    webhook_id TEXT NOT NULL,
    place TEXT NOT NULL,
    follows_chats INTEGER NOT NULL,
    endpoint BLOB NOT NULL,
    PRIMARY KEY (tenant, webhook_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE webhook_owed (
    place TEXT NOT NULL,
    stream TEXT NOT NULL,
    sent INTEGER NOT NULL,
    head INTEGER NOT NULL,
    PRIMARY KEY (place, stream)
) STRICT, WITHOUT ROWID;
CREATE TABLE webhook_aside (
    place TEXT NOT NULL,
    stream TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    type TEXT NOT NULL,
    status INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (place, stream, sequence)
) STRICT, WITHOUT ROWID;
CREATE INDEX webhook_aside_by_time ON webhook_aside (at);
CREATE TABLE tenant_events (
    tenant TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    type TEXT NOT NULL,
    at INTEGER NOT NULL,
    data TEXT NOT NULL,
    PRIMARY KEY (tenant, sequence)
) STRICT, WITHOUT ROWID;
CREATE INDEX tenant_events_by_time ON tenant_events (at);
"""

# How often an endpoint refused the next event of a stream, so that a restart does not start over.
WEBHOOK_REFUSALS: Final = "ALTER TABLE webhook_owed ADD COLUMN refusal TEXT"

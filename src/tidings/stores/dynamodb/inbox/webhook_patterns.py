# SPDX-License-Identifier: Apache-2.0
"""The access patterns of webhook endpoints, what they are owed, and the event logs of tenants."""

from typing import Final

from tidings.stores.dynamodb.client.access import Pattern

_INBOX: Final = ("inbox",)
_TENANTS: Final = ("tenants",)

READ_WEBHOOKS: Final = Pattern(
    "read_webhooks", "Query", _TENANTS, "the webhook endpoints of a tenant", strong=True
)
OWE_EVENTS: Final = Pattern(
    "owe_events", "UpdateItem", _INBOX, "a webhook endpoint is owed entries of a chat"
)
ADVANCE_OWED: Final = Pattern(
    "advance_owed", "UpdateItem", _INBOX, "a webhook endpoint got some of what it is owed"
)
REFUSE_OWED: Final = Pattern(
    "refuse_owed", "UpdateItem", _INBOX, "a webhook endpoint refused an event"
)
FINISH_OWED: Final = Pattern(
    "finish_owed", "DeleteItem", _INBOX, "a webhook endpoint got everything of a chat"
)
LIST_OWED: Final = Pattern(
    "list_owed", "Query", _INBOX, "the chats of which a webhook endpoint is owed events",
    strong=True,
)  # fmt: skip
SET_EVENT_ASIDE: Final = Pattern(
    "set_event_aside", "PutItem", _INBOX, "a webhook endpoint refused an event too often"
)
LIST_EVENTS_ASIDE: Final = Pattern(
    "list_events_aside", "Query", _INBOX, "the events that a webhook endpoint refused"
)
TAKE_EVENT_BACK: Final = Pattern(
    "take_event_back", "DeleteItem", _INBOX, "a webhook endpoint took an event that it had refused"
)
FORGET_OWED: Final = Pattern(
    "forget_owed",
    "BatchWriteItem",
    _INBOX,
    "the rows of a webhook endpoint that was deleted, or the events of a deleted tenant",
)
APPEND_TENANT_EVENT: Final = Pattern(
    "append_tenant_event",
    "TransactWriteItems",
    _INBOX,
    "an event of a tenant, the endpoints that are owed it, and the fact that is reported once",
)
READ_LAST_EVENT: Final = Pattern(
    "read_last_event", "GetItem", _INBOX, "the end of a tenant's event log", strong=True
)
READ_TENANT_EVENT: Final = Pattern(
    "read_tenant_event", "Query", _INBOX, "the next event of a tenant", strong=True
)

# SPDX-License-Identifier: Apache-2.0
"""Facts of an export about webhooks. The events that endpoints are owed are not exported."""

from tidings.model.webhooks import DisabledBy
from tidings.ports.export_inbox_facts import FactBase


class WebhookFact(FactBase, frozen=True, kw_only=True, tag="webhook"):
    """A webhook endpoint; see `model.webhooks`."""

    tenant: str
    webhook_id: str
    url: str
    events: tuple[str, ...]
    enabled: bool
    since: int
    salt: str
    previous_salt: str | None = None
    previous_until: int = 0
    disabled_at: int | None = None
    disabled_by: DisabledBy | None = None
    failing_since: int | None = None
    is_resuming: bool = False
    resumes_from: int | None = None
    created_at: int
    updated_at: int
    revision: int = 1

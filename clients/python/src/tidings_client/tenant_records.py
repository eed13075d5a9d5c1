# SPDX-License-Identifier: Apache-2.0
"""The records of requests with a tenant key, and of their answers."""

from datetime import datetime
from typing import Any, Literal

import msgspec

from tidings_client.notifications import Action


class CategoryRule(msgspec.Struct, frozen=True, kw_only=True):
    """What applies to a category unless a user has chosen something else.

    Users cannot switch off a category that is `required`.
    """

    required: bool = False
    in_app: bool = True
    push: bool = True
    email: bool = True


class InboxConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration of an inbox. For a field that is None, the tenant's settings apply."""

    title: str
    description: str = ""
    schema_version: str = "1.0"
    categories: list[str] | None = None
    """The categories that notifications may have; None allows all."""
    late_joiners: bool | None = None
    """Whether users who are created later see earlier broadcasts."""
    keep_days: int | None = None
    message_schema: dict[str, Any] | None = None
    """A JSON Schema for the fields of a message besides title, body and link."""
    category_rules: dict[str, CategoryRule] | None = None
    """The defaults of the users' preferences, by category."""


class NewNotification(msgspec.Struct, frozen=True, kw_only=True):
    """A notification to post."""

    title: str
    body: str
    cta_uri: str | None = None
    """The link that a tap opens: https, or a scheme of the app."""
    extras: dict[str, Any] = {}
    """Further fields of the message, if the inbox has a `message_schema`."""
    category: str | None = None
    sender: str | None = None
    host_system_id: str | None = None
    label: str | None = None
    """A name for the audience, which is shown with the progress."""
    schema_version: str | None = None
    """The expected schema version; the post is refused if the inbox has another version."""
    actions: tuple[Action, ...] = ()
    """At most two buttons."""
    collapse_key: str | None = None
    """Of all notifications with the same key, users see only the newest."""
    expires_at: datetime | None = None
    """From this time on, users do not see the notification."""
    deliver_at: datetime | None = None
    """When to deliver the notification, at most one year ahead; None for now."""
    email_after_minutes: int | None = None
    """After which time users who have not read it get an e-mail; None for never. Only for listed
    users."""


class Posted(msgspec.Struct, frozen=True):
    """A notification that the server accepted; `estimated` tells if `recipients` is an estimate."""

    id: str
    recipients: int
    estimated: bool
    status: Literal["queued", "done", "scheduled"]


class Progress(msgspec.Struct, frozen=True):
    """The progress of the delivery of a notification."""

    id: str
    status: Literal["scheduled", "queued", "running", "done", "redacted", "restored", "failed"]
    recipients: int
    delivered: int
    label: str | None = None


class AuditRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An administrative act: its time, actor, action, target and outcome."""

    id: str
    at: str
    actor: str
    """`root`, `tenant_key` or `cli`."""
    actor_id: str | None = None
    """The id of the tenant key, if the actor is a tenant key."""
    action: str
    tenant: str | None = None
    target: str | None = None
    fields: list[str] = []
    outcome: Literal["done", "refused", "failed", "unknown"]
    code: str | None = None
    request_id: str | None = None


class AuditPage(msgspec.Struct, frozen=True):
    """A page of acts, newest first, and the cursor of the next page."""

    data: list[AuditRecord]
    next_cursor: str | None = None


class Moment(msgspec.Struct, frozen=True):
    """A step of a message on its way. What the server does not keep is `unknown`."""

    at: str
    what: str
    where: str


class Explanation(msgspec.Struct, frozen=True):
    """What became of a message or notification on its way to a user."""

    verdict: str
    """One sentence."""
    code: str
    """The stable code of the verdict."""
    since: str
    """Since when the verdict holds, or `unknown`."""
    timeline: list[Moment]
    next_step: str | None = None
    """What somebody can do about it."""


class TraceStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step of delivery, or a request that was refused or repeated."""

    at: str
    what: str
    where: str
    user_id: str | None
    chat_id: str | None
    sequence: int | None
    """The last entry that the step concerns."""


class TracePage(msgspec.Struct, frozen=True):
    """Steps in order, and the cursor with which the trace goes on."""

    data: list[TraceStep]
    next_cursor: str
    complete: bool
    """False if there were too many steps, so that the oldest are missing."""

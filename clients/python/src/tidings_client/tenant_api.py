# SPDX-License-Identifier: Apache-2.0
"""The REST API with a tenant's key: settings, inboxes, and notifications to the tenant's users.

For the tenant's own backend. The key does not belong into an app that users have.
"""

from collections.abc import Iterable
from ssl import SSLContext
from typing import Any, Final, Literal, Self

import httpx
import msgspec

from tidings_client.records import Job
from tidings_client.rest import Rest, path_of
from tidings_client.tokens import Tokens
from tidings_client.world import SystemWorld, World

ANSWER_SECONDS_MAX: Final = 60.0
"""A post to 100,000 users is a long request."""


class InboxConfig(msgspec.Struct, frozen=True, kw_only=True):
    """All that an inbox is. Where it says None, the tenant's settings count."""

    title: str
    description: str = ""
    schema_version: str = "1.0"
    categories: list[str] | None = None
    """Those that notifications may have; None allows all."""
    late_joiners: bool | None = None
    """Whether users who come later see what was posted to everyone."""
    keep_days: int | None = None
    message_schema: dict[str, Any] | None = None
    """A JSON Schema for what a message holds besides title, body and link."""


class NewNotification(msgspec.Struct, frozen=True, kw_only=True):
    """Something to tell users."""

    title: str
    body: str
    cta_uri: str | None = None
    """Where a tap on it leads: https, or a scheme of the app."""
    extras: dict[str, Any] = {}
    """What else the message holds, if the inbox has a `message_schema`."""
    category: str | None = None
    sender: str | None = None
    host_system_id: str | None = None
    label: str | None = None
    """A name for the audience, shown with the progress."""
    schema_version: str | None = None
    """Refused unless it is the inbox's."""


class Posted(msgspec.Struct, frozen=True):
    """A notification that the server took on; `recipients` is an estimate if it says so."""

    id: str
    recipients: int
    estimated: bool
    status: Literal["queued", "done"]


class Progress(msgspec.Struct, frozen=True):
    """How many users have a notification."""

    id: str
    status: Literal["queued", "running", "done", "redacted"]
    recipients: int
    delivered: int
    label: str | None = None


class AuditRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An administrative act: who did what to what, when, and what came of it."""

    id: str
    at: str
    actor: str
    """`root`, `tenant_key` or `cli`."""
    actor_id: str | None = None
    """Of a tenant key: its id."""
    action: str
    tenant: str | None = None
    target: str | None = None
    fields: list[str] = []
    outcome: Literal["done", "refused", "failed", "unknown"]
    code: str | None = None
    request_id: str | None = None


class AuditPage(msgspec.Struct, frozen=True):
    """Some of the acts, newest first, and where the list goes on."""

    data: list[AuditRecord]
    next_cursor: str | None = None


class TenantApi:
    """One method for each thing a tenant can ask. Use it as an async context manager.

    Every one of them raises Refused if the server declines, and Unavailable if it cannot be
    reached or has no time; what may safely be repeated has then been repeated.
    """

    def __init__(
        self,
        url: str,
        tenant: str,
        key: str,
        *,
        ssl_context: SSLContext | None = None,
        world: World | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """`transport` takes the place of the network in tests."""
        self._tenant = tenant
        self._settings = path_of("tenants", tenant, "settings")
        self._world: World = world or SystemWorld()
        tokens = Tokens(lambda: key, self._world.wall)
        self._rest = Rest(
            url.rstrip("/"), tokens, self._world, ssl_context, transport, ANSWER_SECONDS_MAX
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Let go of the connections."""
        await self._rest.close()

    # Settings.

    async def settings(self) -> dict[str, Any]:
        """The tenant's settings as they were put; empty if they never were."""
        return await self._rest.ask(dict[str, Any], "GET", self._settings)

    async def put_settings(self, settings: dict[str, Any]) -> dict[str, Any]:
        """Replace all of them. `{"login": {"phone": True}}` lets users log in by phone; with
        `"register": True` beside it, numbers that are nobody's become new users."""
        return await self._rest.ask(dict[str, Any], "PUT", self._settings, settings)

    # Moderation.

    async def remove_member(self, chat: str, user: str) -> None:
        """Remove anybody from a group. The others see an entry of the sender `~tenant`."""
        path = path_of("tenants", self._tenant, "chats", chat, "members", user)
        await self._rest.request("DELETE", path)

    async def delete_chat(self, chat: str) -> Job:
        """Delete any chat of the tenant: nothing is taken in from the answer on. Asked again it
        answers with the same job."""
        return await self._rest.ask(Job, "DELETE", path_of("tenants", self._tenant, "chats", chat))

    async def job(self, job: str) -> Job:
        """How far a job is; `job` is the name that it was answered with."""
        return await self._rest.ask(Job, "GET", path_of("tenants", self._tenant, "jobs", job))

    # Inboxes.

    async def put_inbox(self, inbox: str, config: InboxConfig) -> InboxConfig:
        """Make an inbox, or replace what it is."""
        body = msgspec.to_builtins(config)
        return await self._rest.ask(InboxConfig, "PUT", self._path(inbox), body)

    async def inbox(self, inbox: str) -> InboxConfig:
        """An inbox as it was put."""
        return await self._rest.ask(InboxConfig, "GET", self._path(inbox))

    # Notifications.

    async def post_to_users(
        self,
        inbox: str,
        users: Iterable[str],
        notification: NewNotification,
        *,
        key: str | None = None,
    ) -> Posted:
        """Notify these users, at most 100,000; who is named twice counts once.

        They get it by and by: `progress` says how far it is. Under the same `key` the same
        request, made again within a day, has the same answer and notifies nobody twice; without
        one that holds for the repeats of this call only.
        """
        audience = {"kind": "users", "uids": list(users)}
        return await self._post(inbox, audience, notification, key)

    async def post_to_everyone(
        self, inbox: str, notification: NewNotification, *, key: str | None = None
    ) -> Posted:
        """Notify all users of the tenant; they have it at once. `key` as in `post_to_users`."""
        return await self._post(inbox, {"kind": "everyone"}, notification, key)

    async def progress(self, inbox: str, notification_id: str) -> Progress:
        """How many have it by now."""
        path = self._path(inbox, "notifications", notification_id)
        return await self._rest.ask(Progress, "GET", path)

    async def redact(self, inbox: str, notification_id: str) -> None:
        """Take a notification back: whoever looks after the answer sees nothing of it, also
        while it is still being delivered. Doing it again changes nothing."""
        await self._rest.request("DELETE", self._path(inbox, "notifications", notification_id))

    # What was done.

    async def audit(self, *, limit: int = 50, cursor: str | None = None) -> AuditPage:
        """The administrative acts of the last 400 days, by the tenant's keys and the operator."""
        query = {"limit": str(limit)} | ({} if cursor is None else {"cursor": cursor})
        path = path_of("tenants", self._tenant, "audit")
        return await self._rest.ask(AuditPage, "GET", path, query=query)

    async def _post(
        self,
        inbox: str,
        audience: dict[str, Any],
        notification: NewNotification,
        key: str | None,
    ) -> Posted:
        path = self._path(inbox, "notifications")
        body = _as_asked(audience, notification)
        return await self._rest.ask(Posted, "POST", path, body, key=key or self._world.new_id())

    def _path(self, inbox: str, *rest: str) -> str:
        return path_of("tenants", self._tenant, "inboxes", inbox, *rest)


def _as_asked(audience: dict[str, Any], notification: NewNotification) -> dict[str, Any]:
    link = {} if notification.cta_uri is None else {"cta_uri": notification.cta_uri}
    label = {} if notification.label is None else {"label": notification.label}
    about = {
        "category": notification.category,
        "sender": notification.sender,
        "host_system_id": notification.host_system_id,
        "schema_version": notification.schema_version,
    }
    message = {"title": notification.title, "body": notification.body, **link}
    return {
        "audience": audience | label,
        "message": notification.extras | message,
        **{name: value for name, value in about.items() if value is not None},
    }

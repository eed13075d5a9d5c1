# SPDX-License-Identifier: Apache-2.0
"""The REST API with a tenant key: settings, inboxes, and notifications to the tenant's users.

It is for the tenant's own backend. Never put the key into an app that users have.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC
from ssl import SSLContext
from typing import Any, Final, Self

import httpx
import msgspec

from tidings_client.listed import (
    ListedChat,
    ListedInbox,
    ListedKey,
    ListPage,
    PostedNotification,
    part_of,
)
from tidings_client.moderation import ModerationApi
from tidings_client.people import PeopleApi
from tidings_client.push import TenantPushApi
from tidings_client.records import Job, MessageRecord
from tidings_client.rest import Rest, path_of
from tidings_client.tenant_records import (
    AuditPage,
    Explanation,
    InboxConfig,
    NewNotification,
    Posted,
    Progress,
    TracePage,
)
from tidings_client.tokens import Tokens
from tidings_client.webhook_api import WebhookApi
from tidings_client.world import SystemWorld, World

ANSWER_SECONDS_MAX: Final = 60.0
"""Timeout of a request; a post to 100,000 users takes long."""


class TenantApi(ModerationApi, PeopleApi, TenantPushApi):
    """The REST requests that a tenant can make, one method for each.

    Use it as an async context manager. Every method raises Refused if the server declines, and
    Unavailable if the server cannot be reached or is overloaded. Requests that are safe to repeat
    were repeated before that.
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
        """Create the API; `transport` replaces the network in tests."""
        self._settings = path_of("tenants", tenant, "settings")
        self._world: World = world or SystemWorld()
        tokens = Tokens(lambda: key, self._world.wall)
        rest = Rest(
            url.rstrip("/"), tokens, self._world, ssl_context, transport, ANSWER_SECONDS_MAX
        )
        super().__init__(rest, tenant)
        self.webhooks = WebhookApi(rest, tenant)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._rest.close()

    # Settings.

    async def settings(self) -> dict[str, Any]:
        """Return the tenant's settings; empty if none were put."""
        return await self._rest.ask(dict[str, Any], "GET", self._settings)

    async def put_settings(self, settings: dict[str, Any]) -> dict[str, Any]:
        """Replace all settings, and return them.

        `{"login": {"phone": True}}` lets users log in by phone. With `"register": True` beside it,
        an unknown number becomes a new user.
        """
        return await self._rest.ask(dict[str, Any], "PUT", self._settings, settings)

    # Lists.

    async def keys(self, *, limit: int = 50, cursor: str | None = None) -> ListPage[ListedKey]:
        """Return a page of the tenant's keys, newest first, without the keys themselves."""
        path = path_of("tenants", self._tenant, "keys")
        return await self._rest.ask(ListPage[ListedKey], "GET", path, query=part_of(limit, cursor))

    async def chats(
        self, user: str | None = None, *, limit: int = 50, cursor: str | None = None
    ) -> ListPage[ListedChat]:
        """Return a page of the tenant's chats, newest first; with `user`, only the chats of this
        user."""
        path = path_of("tenants", self._tenant, "chats")
        query = part_of(limit, cursor) | ({} if user is None else {"user_id": user})
        return await self._rest.ask(ListPage[ListedChat], "GET", path, query=query)

    async def inboxes(self, *, limit: int = 50, cursor: str | None = None) -> ListPage[ListedInbox]:
        """Return a page of the tenant's inboxes, by name."""
        path = path_of("tenants", self._tenant, "inboxes")
        query = part_of(limit, cursor)
        return await self._rest.ask(ListPage[ListedInbox], "GET", path, query=query)

    async def posted(
        self, inbox: str, *, limit: int = 50, cursor: str | None = None
    ) -> ListPage[PostedNotification]:
        """Return a page of the unexpired notifications in an inbox, newest first, as posted."""
        path = self._path(inbox, "notifications")
        query = part_of(limit, cursor)
        return await self._rest.ask(ListPage[PostedNotification], "GET", path, query=query)

    # Inspection and moderation.

    async def log(self, chat: str, *, after: int = 0, limit: int = 50) -> list[dict[str, Any]]:
        """Return entries of a chat's log that follow a sequence, without content and reactions."""
        path = path_of("tenants", self._tenant, "chats", chat, "entries")
        query = {"after": str(after), "limit": str(limit)}
        page = await self._rest.ask(dict[str, Any], "GET", path, query=query)
        return list(page["data"])

    async def create_chat(
        self,
        members: Iterable[str],
        name: str | None = None,
        *,
        creator: str | None = None,
        key: str | None = None,
    ) -> str:
        """Create a group with this name, or without a name a direct chat; return its id.

        With a `creator`, the chat is created in this user's name. Otherwise the tenant creates it
        in its own, `~tenant`, and the first member owns a group. A repeated request with the same
        `key` returns the same chat.
        """
        body = {"type": "direct" if name is None else "group", "members": list(members)}
        body |= {} if name is None else {"name": name}
        body |= {} if creator is None else {"creator": creator}
        path = path_of("tenants", self._tenant, "chats")
        key = key or self._world.new_id()
        return str((await self._rest.ask(dict[str, Any], "POST", path, body, key=key))["chat_id"])

    async def post_message(
        self,
        chat: str,
        content: str,
        *,
        sender: str | None = None,
        client_message_id: str | None = None,
        more: Mapping[str, Any] | None = None,
    ) -> MessageRecord:
        """Post a message in the name of a member, or in the tenant's own.

        All members see in `posted_by` that the tenant posted it. A repeat with the same
        `client_message_id` posts nothing. `more` has further fields, such as `reply_to`.
        """
        named = {} if sender is None else {"sender": sender}
        key = client_message_id or self._world.new_id()
        body = {**(more or {}), **named, "client_message_id": key, "content": content}
        path = path_of("tenants", self._tenant, "chats", chat, "messages")
        return await self._rest.ask(MessageRecord, "POST", path, body, is_safe=True)

    async def remove_member(self, chat: str, user: str) -> None:
        """Remove any member from a group. The others see an entry with the sender `~tenant`."""
        path = path_of("tenants", self._tenant, "chats", chat, "members", user)
        await self._rest.request("DELETE", path)

    async def delete_chat(self, chat: str) -> Job:
        """Delete any chat of the tenant; after the answer, nobody can write in it.

        A repeated request returns the same job.
        """
        return await self._rest.ask(Job, "DELETE", path_of("tenants", self._tenant, "chats", chat))

    async def delete_inbox(self, inbox: str) -> Job:
        """Delete an inbox with its notifications. A repeated request returns the same job."""
        return await self._rest.ask(Job, "DELETE", self._path(inbox))

    async def job(self, job: str) -> Job:
        """Return the progress of a job, by the id that a deletion or `export_user` returned."""
        return await self._rest.ask(Job, "GET", path_of("tenants", self._tenant, "jobs", job))

    # Inboxes.

    async def put_inbox(self, inbox: str, config: InboxConfig) -> InboxConfig:
        """Create an inbox, or replace its configuration."""
        body = msgspec.to_builtins(config)
        return await self._rest.ask(InboxConfig, "PUT", self._path(inbox), body)

    async def inbox(self, inbox: str) -> InboxConfig:
        """Return the configuration of an inbox."""
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
        """Post a notification to these users, at most 100,000; duplicates are ignored.

        The server delivers the notification after the answer; `progress` reports how far it is. If
        the same request is repeated with the same `key` within a day, it gets the same answer, and
        nobody is notified twice. Without a `key`, this holds only for the repeats within this call.
        """
        audience = {"kind": "users", "uids": list(users)}
        return await self._post(inbox, audience, notification, key)

    async def post_to_everyone(
        self, inbox: str, notification: NewNotification, *, key: str | None = None
    ) -> Posted:
        """Post a notification to all users of the tenant, who have it at once.

        `key` has the same meaning as in `post_to_users`.
        """
        return await self._post(inbox, {"kind": "everyone"}, notification, key)

    async def progress(self, inbox: str, notification_id: str) -> Progress:
        """Return how many users have the notification."""
        path = self._path(inbox, "notifications", notification_id)
        return await self._rest.ask(Progress, "GET", path)

    async def redact(self, inbox: str, notification_id: str) -> None:
        """Retract a notification, even while it is being delivered; a repeat changes nothing.

        No request that starts after the answer shows the notification.
        """
        await self._rest.request("DELETE", self._path(inbox, "notifications", notification_id))

    # Questions.

    async def explain_message(
        self, user: str, message_id: str | None = None, *, request_id: str | None = None
    ) -> Explanation:
        """Return what became of a message on its way to a user.

        For a message that was perhaps never accepted, `request_id` is the `X-Request-Id` of the
        request that sent it, or the id of its frame.
        """
        about = {"message_id": message_id, "request_id": request_id}
        return await self._explain(user, about)

    async def explain_notification(
        self, user: str, notification_id: str, *, inbox: str | None = None
    ) -> Explanation:
        """Return what became of a notification on its way to a user.

        The inbox must be named if several inboxes have a notification with this id.
        """
        return await self._explain(user, {"notification_id": notification_id, "inbox": inbox})

    async def _explain(self, user: str, about: dict[str, str | None]) -> Explanation:
        given = {name: value for name, value in about.items() if value is not None}
        path, query = path_of("tenants", self._tenant, "explain"), {"user_id": user} | given
        return await self._rest.ask(Explanation, "GET", path, query=query)

    async def trace(
        self, *, user: str | None = None, chat: str | None = None, cursor: str | None = None
    ) -> TracePage:
        """Return the last steps of delivery to a user or in a chat.

        Without a cursor these are the steps of the last minute. With the cursor of the page before,
        they are those that followed.
        """
        about = {"user_id": user, "chat_id": chat, "cursor": cursor}
        given = {name: value for name, value in about.items() if value is not None}
        path = path_of("tenants", self._tenant, "trace")
        return await self._rest.ask(TracePage, "GET", path, query=given)

    # The audit trail.

    async def audit(self, *, limit: int = 50, cursor: str | None = None) -> AuditPage:
        """Return a page of the acts of the last 400 days, by tenant keys and the operator."""
        path = path_of("tenants", self._tenant, "audit")
        return await self._rest.ask(AuditPage, "GET", path, query=part_of(limit, cursor))

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
    expires_at = notification.expires_at
    at, minutes = notification.deliver_at, notification.email_after_minutes
    about = {
        "category": notification.category,
        "sender": notification.sender,
        "host_system_id": notification.host_system_id,
        "schema_version": notification.schema_version,
        "actions": msgspec.to_builtins(notification.actions) or None,
        "collapse_key": notification.collapse_key,
        "expires_at": expires_at and expires_at.astimezone(UTC).isoformat(),
        "deliver_at": None if at is None else at.astimezone(UTC).isoformat(),
        "escalate": None if minutes is None else {"email_after_minutes": minutes},
    }
    message = {"title": notification.title, "body": notification.body, **link}
    return {
        "audience": audience | label,
        "message": notification.extras | message,
        **{name: value for name, value in about.items() if value is not None},
    }

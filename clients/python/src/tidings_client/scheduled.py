# SPDX-License-Identifier: Apache-2.0
"""Scheduled messages: their records, and the requests that schedule, list, change and cancel
them."""

from datetime import datetime

import msgspec

from tidings_client.listed import part_of
from tidings_client.rest import Rest, path_of
from tidings_client.world import World


class ScheduledMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message of the user that is sent at a later time, or could not be sent."""

    scheduled_id: str
    chat_id: str
    client_message_id: str
    state: str
    """`pending`, or `failed`."""
    send_at: datetime
    content: str | None
    """None if the content was erased."""
    content_type: str | None = None
    ttl_seconds: int | None = None
    reply_to: int | None = None
    mentions: list[str] = []
    silent: bool = False
    created_at: datetime
    updated_at: datetime
    code: str | None = None
    """Code of the refusal because of which the message failed."""
    attachments: list[str] = []
    """Ids of the uploads that are sent with the message."""


class ScheduledPage(msgspec.Struct, frozen=True):
    """A page of scheduled messages, earliest first; `next_cursor` is None on the last page."""

    data: list[ScheduledMessage]
    next_cursor: str | None


class _NewlyScheduled(msgspec.Struct):
    scheduled_id: str


class ScheduledApi:
    """The part of the REST API that handles scheduled messages."""

    _rest: Rest
    _world: World

    async def schedule(
        self,
        chat: str,
        content: str,
        send_at: datetime,
        *,
        client_message_id: str | None = None,
        content_type: str | None = None,
        ttl_seconds: int | None = None,
        reply_to: int | None = None,
        mentions: list[str] | None = None,
        silent: bool = False,
        attachments: list[str] | None = None,
    ) -> str:
        """Schedule a message for a later time, and return its `scheduled_id`.

        `attachments` are ids of finished uploads, which do not expire while the message waits.
        A repeat with the same `client_message_id` schedules nothing more.
        """
        asked = {
            "content_type": content_type,
            "ttl_seconds": ttl_seconds,
            "reply_to": reply_to,
            "mentions": mentions,
            "attachments": attachments,
        }
        body = {
            "client_message_id": client_message_id or self._world.new_id(),
            "content": content,
            "send_at": send_at.isoformat(),
            "silent": silent,
            **{name: value for name, value in asked.items() if value is not None},
        }
        path = path_of("chats", chat, "messages")
        return (await self._rest.ask(_NewlyScheduled, "POST", path, body)).scheduled_id

    async def scheduled(self, limit: int = 100, cursor: str | None = None) -> ScheduledPage:
        """Return a page of the user's scheduled messages that are pending or have failed."""
        query = part_of(limit, cursor)
        return await self._rest.ask(ScheduledPage, "GET", "/v1/scheduled", query=query)

    async def change_scheduled(
        self,
        scheduled_id: str,
        *,
        send_at: datetime | None = None,
        content: str | None = None,
        mentions: list[str] | None = None,
        silent: bool | None = None,
    ) -> ScheduledMessage:
        """Change a message that is still pending; fields that are None stay as they are."""
        asked = {
            "send_at": send_at and send_at.isoformat(),
            "content": content,
            "mentions": mentions,
            "silent": silent,
        }
        body = {name: value for name, value in asked.items() if value is not None}
        path = path_of("scheduled", scheduled_id)
        return await self._rest.ask(ScheduledMessage, "PATCH", path, body)

    async def cancel_scheduled(self, scheduled_id: str) -> None:
        """Cancel a message that is still pending."""
        await self._rest.request("DELETE", path_of("scheduled", scheduled_id))

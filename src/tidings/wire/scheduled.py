# SPDX-License-Identifier: Apache-2.0
"""Scheduled messages for clients: the records of the API, and a frame."""

from typing import Literal

import msgspec

from tidings.model.ids import rfc3339
from tidings.model.scheduled import Scheduled


class ScheduledRecord(msgspec.Struct):
    """A scheduled message of the caller. A message that is being sent is still pending, but cannot
    be changed. `code` says why a message has failed; its content is null if it was erased."""

    scheduled_id: str
    chat_id: str
    client_message_id: str
    state: Literal["pending", "failed"]
    send_at: str
    content: str | None
    content_type: str | None
    ttl_seconds: int | None
    reply_to: int | None
    mentions: list[str]
    silent: bool
    created_at: str
    updated_at: str
    code: str | None
    attachments: list[str]


class ScheduledFailedFrame(msgspec.Struct, tag_field="op", tag="scheduled_failed"):
    """A scheduled message of the user could not be sent at its time."""

    scheduled_id: str
    chat: str
    code: str


def scheduled_record(message: Scheduled, content: str | None) -> ScheduledRecord:
    """Convert a scheduled message to the record for its author."""
    return ScheduledRecord(
        scheduled_id=message.scheduled_id,
        chat_id=message.chat_id,
        client_message_id=message.client_message_id,
        state="failed" if message.state == "failed" else "pending",
        send_at=rfc3339(message.send_at),
        content=content,
        content_type=message.content_type,
        ttl_seconds=message.ttl_seconds,
        reply_to=message.reply_to,
        mentions=list(message.mentions),
        silent=message.silent,
        created_at=rfc3339(message.created_at),
        updated_at=rfc3339(message.updated_at),
        code=message.code,
        attachments=list(message.attachments),
    )

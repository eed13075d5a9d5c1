# SPDX-License-Identifier: Apache-2.0
"""Operations on scheduled messages. `POST /v1/chats/{chat_id}/messages` schedules one."""

from typing import TYPE_CHECKING, Any, Final

import msgspec

from tidings.actions import rate_limits
from tidings.actions.chat.scheduling import Change, ScheduledDraft
from tidings.actions.verbs import ChatVerbs
from tidings.api import fields
from tidings.api.fields import Content, Limit, Mentions, Time
from tidings.api.operations import Answer, operation
from tidings.api.requests import Body, Query
from tidings.model import limits
from tidings.model.entries import SendOptions
from tidings.model.ids import ChatId, UserKey
from tidings.model.refusals import (
    ChatNotFound,
    ContentEmpty,
    ContentTooLarge,
    CursorInvalid,
    MentionUnknown,
    UserDeleted,
)
from tidings.model.scheduled import ScheduledNotFound, ScheduledTooLate
from tidings.wire.scheduled import ScheduledRecord, scheduled_record

if TYPE_CHECKING:
    from tidings.api.messages import MessageBody

TAG: Final = "Scheduled messages"


class NewlyScheduled(msgspec.Struct):
    """The id of a message that was scheduled."""

    scheduled_id: str


class ScheduledQuery(Query, frozen=True):
    """Which part of the list to return."""

    limit: Limit = limits.PAGE_MAX
    cursor: str | None = None


class ScheduledList(msgspec.Struct):
    """Scheduled messages, earliest first within a page. A page may be short or empty although
    `next_cursor` is not null."""

    data: list[ScheduledRecord]
    next_cursor: str | None


class ScheduledChange(Body, frozen=True):
    """The fields to change; fields that are absent or null stay as they are."""

    send_at: Time | None = None
    content: Content | None = None
    mentions: Mentions | None = None
    silent: bool | None = None


@operation(
    "GET",
    "/v1/scheduled",
    tag=TAG,
    summary="List scheduled messages",
    refusals=(CursorInvalid,),
    cost=lambda asked: rate_limits.page_cost(asked.limit),
)
async def list_scheduled(user: UserKey, asked: ScheduledQuery, verbs: ChatVerbs) -> ScheduledList:
    """Return the caller's messages that are pending, and those of the last 30 days that could not
    be sent."""
    found, cursor = await verbs.scheduling.list(user, asked.cursor, asked.limit)
    return ScheduledList([scheduled_record(*each) for each in found], cursor)


@operation(
    "PATCH",
    "/v1/scheduled/{scheduled_id}",
    tag=TAG,
    summary="Change a scheduled message",
    refusals=(
        ScheduledNotFound,
        ScheduledTooLate,
        ContentEmpty,
        ContentTooLarge,
        ChatNotFound,
        MentionUnknown,
        UserDeleted,
    ),
    is_banned=True,
)
async def change_scheduled(
    user: UserKey, scheduled_id: str, data: ScheduledChange, verbs: ChatVerbs
) -> ScheduledRecord:
    """Change the time, the content or the options of a message that is still pending."""
    wanted = Change(
        send_at=None if data.send_at is None else fields.time(data.send_at, "send_at"),
        content=data.content,
        mentions=None if data.mentions is None else tuple(data.mentions),
        silent=data.silent,
    )
    return scheduled_record(*await verbs.scheduling.change(user, scheduled_id, wanted))


@operation(
    "DELETE",
    "/v1/scheduled/{scheduled_id}",
    tag=TAG,
    summary="Cancel a scheduled message",
    statuses=(204,),
    refusals=(ScheduledNotFound, ScheduledTooLate),
)
async def cancel_scheduled(user: UserKey, scheduled_id: str, verbs: ChatVerbs) -> None:
    """Cancel a message that is still pending. A repeated request changes nothing."""
    await verbs.scheduling.cancel(user, scheduled_id)


async def schedule(
    verbs: ChatVerbs, user: UserKey, chat: ChatId, message: "MessageBody", send_at: str
) -> Answer[Any]:
    """Schedule a message; a repeat of the request gets the same answer."""
    draft = ScheduledDraft(
        message.client_message_id,
        message.content,
        message.content_type,
        message.ttl_seconds,
        message.options or SendOptions(),
    )
    stored = await verbs.scheduling.add(user, chat, draft, fields.time(send_at, "send_at"))
    return Answer(NewlyScheduled(stored.scheduled_id), status=202)


OPERATIONS: Final = (list_scheduled, change_scheduled, cancel_scheduled)

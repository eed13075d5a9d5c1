# SPDX-License-Identifier: Apache-2.0
"""Chats: making one, the chat list, one chat, its name, its mute."""

from typing import Final, Literal

import msgspec

from tidings.actions.identity.caller import Caller, TenantCaller, UserCaller
from tidings.actions.verbs import ChatVerbs
from tidings.api.fields import Limit, Name, Time, UserId
from tidings.api.operations import Answer, operation
from tidings.api.requests import Body, Query
from tidings.api.tenant_jobs import JobRecord, job_record
from tidings.model import costs, limits
from tidings.model.ids import USER, ChatId, UserKey, tenant_of, user_key
from tidings.model.refusals import (
    ChatNotFound,
    CursorInvalid,
    DirectChatFixed,
    Invalid,
    LimitReached,
    QuotaReached,
    RequestConflict,
    UserNotFound,
)
from tidings.model.times import from_rfc3339, rfc3339
from tidings.wire.records import ChatRecord, chat_record

TAG: Final = "Chats"


class NewChat(Body, frozen=True, kw_only=True):
    """A direct chat with one other user, or a group with a name."""

    type: Literal["direct", "group"]
    members: list[UserId]
    name: Name | None = None


class ChatChange(Body, frozen=True):
    """A chat's new name."""

    name: Name


class MuteChange(Body, frozen=True):
    """Until when the chat should not disturb; null: it may."""

    until: Time | None


class MuteState(msgspec.Struct):
    """Until when a chat does not disturb."""

    muted_until: str | None


class ChatsQuery(Query, frozen=True):
    """Which part of the chat list."""

    limit: Limit = limits.PAGE_DEFAULT
    cursor: str | None = None


class ChatList(msgspec.Struct):
    """Part of the chat list, and where it goes on."""

    data: list[ChatRecord]
    next_cursor: str | None


@operation(
    "POST",
    "/v1/chats",
    tag=TAG,
    summary="Make a chat",
    statuses=(201, 200),
    headers=("Idempotency-Key",),
    refusals=(UserNotFound, ChatNotFound, LimitReached, QuotaReached, RequestConflict),
    body_cost=lambda chat: costs.group(len(chat.members)),
)
async def create_chat(
    user: UserKey,
    data: NewChat,
    verbs: ChatVerbs,
    request_key: str | None,
) -> Answer[ChatRecord]:
    """A direct chat is one per pair: asked for again, it is found (200). With an `Idempotency-Key`
    the same request answers with the chat it made the first time, as long as the caller is in it.
    """
    others = _users(user, data.members)
    created = await verbs.create(user, data.type, data.name, others, request_key)
    row = await verbs.get(user, created.chat_id)
    return Answer(chat_record(row), status=201 if created.is_new else 200)


@operation(
    "GET",
    "/v1/chats",
    tag=TAG,
    summary="List my chats",
    refusals=(CursorInvalid,),
    cost=lambda asked: costs.chat_list(asked.limit),
)
async def list_chats(user: UserKey, asked: ChatsQuery, verbs: ChatVerbs) -> ChatList:
    """Latest activity first, with previews and unread counts."""
    rows, cursor = await verbs.list(user, asked.cursor, asked.limit)
    return ChatList([chat_record(row) for row in rows], cursor)


@operation("GET", "/v1/chats/{chat_id}", tag=TAG, summary="Get a chat", refusals=(ChatNotFound,))
async def get_chat(user: UserKey, chat: ChatId, verbs: ChatVerbs) -> ChatRecord:
    """One chat, as it stands in the chat list."""
    return chat_record(await verbs.get(user, chat))


@operation(
    "PATCH",
    "/v1/chats/{chat_id}",
    tag=TAG,
    summary="Rename a group",
    refusals=(ChatNotFound, DirectChatFixed),
)
async def rename_chat(
    user: UserKey, chat: ChatId, data: ChatChange, verbs: ChatVerbs
) -> ChatRecord:
    """For admins and owners."""
    await verbs.rename(user, chat, data.name)
    return chat_record(await verbs.get(user, chat))


@operation(
    "PUT",
    "/v1/chats/{chat_id}/mute",
    tag=TAG,
    summary="Mute a chat",
    refusals=(ChatNotFound,),
)
async def mute_chat(user: UserKey, chat: ChatId, data: MuteChange, verbs: ChatVerbs) -> MuteState:
    """No push until then, for the caller only; null ends it."""
    until = None if data.until is None else _time(data.until)
    await verbs.mute(user, chat, until)
    return MuteState(None if until is None else rfc3339(until))


@operation(
    "DELETE",
    "/v1/chats/{chat_id}",
    tag=TAG,
    summary="Delete a chat",
    key="user or tenant",
    statuses=(202,),
    refusals=(ChatNotFound, DirectChatFixed),
)
async def delete_chat(caller: Caller, chat: ChatId, verbs: ChatVerbs) -> JobRecord:
    """An owner deletes a group, a tenant key any chat of the tenant. After the answer the chat
    accepts nothing; a job removes its members and messages. A repeat by the same caller gets the
    current state of that job.
    """
    if isinstance(caller, UserCaller):
        return job_record(await verbs.delete.as_owner(caller.user, chat))
    assert isinstance(caller, TenantCaller), "the guard lets nobody else in"
    return job_record(await verbs.delete.as_tenant(caller, caller.tenant, chat))


def _users(creator: UserKey, members: list[str]) -> list[UserKey]:
    for index, member in enumerate(members):
        if USER.fullmatch(member) is None:
            raise Invalid(
                "user_id: 1 to 64 of A-Z a-z 0-9 . _ @ + -, not . or ..", f"/members/{index}"
            )
    return [user_key(tenant_of(creator), member) for member in members]


def _time(text: str) -> int:
    try:
        return from_rfc3339(text)
    except ValueError as error:
        raise Invalid(f"until: {error}", "/until") from None


OPERATIONS: Final = (create_chat, list_chats, get_chat, rename_chat, mute_chat, delete_chat)

# SPDX-License-Identifier: Apache-2.0
"""Operations on chats, and a tenant's operations to moderate them."""

from typing import Final, Literal

import msgspec

from tidings.actions import rate_limits
from tidings.actions.identity.caller import Caller, TenantCaller, UserCaller
from tidings.actions.verbs import ChatVerbs
from tidings.api import fields
from tidings.api.fields import Limit, Name, SlowModeSeconds, Time, UserId
from tidings.api.jobs import JobRecord, job_record
from tidings.api.operations import Answer, operation
from tidings.api.requests import Body, Query
from tidings.api.tenants import ListQuery
from tidings.model import limits
from tidings.model.chats import ChatType, TenantChat
from tidings.model.ids import (
    USER,
    ChatId,
    UserKey,
    rfc3339,
    tenant_of,
    user_id,
    user_key,
)
from tidings.model.refusals import (
    ChatBusy,
    ChatNotFound,
    CursorInvalid,
    DirectChatFixed,
    Invalid,
    LimitReached,
    MemberNotFound,
    MessageNotFound,
    QuotaReached,
    RequestConflict,
    TenantNotFound,
    UserDeleted,
    UserNotAddable,
    UserNotFound,
)
from tidings.wire.records import ChatRecord, chat_record

MODERATION_TAG: Final = "Moderation"

TAG: Final = "Chats"


@operation(
    "DELETE",
    "/v1/tenants/{tenant}/chats/{chat_id}/members/{user_id}",
    tag=MODERATION_TAG,
    summary="Remove a member as the tenant",
    key="tenant",
    statuses=(204,),
    refusals=(TenantNotFound, ChatNotFound, MemberNotFound, DirectChatFixed),
)
async def remove_member_as_tenant(
    caller: Caller, tenant: str, chat: ChatId, user_id: str, verbs: ChatVerbs
) -> None:
    """Remove any member, even an owner. When the last owner is removed, the admin who joined first
    becomes owner, or the member who joined first if there is no admin. The entry `removed` has the
    sender `~tenant`."""
    await verbs.remove_as_tenant(caller, tenant, chat, user_id)


@operation(
    "DELETE",
    "/v1/tenants/{tenant}/chats/{chat_id}",
    tag=MODERATION_TAG,
    summary="Delete a chat as the tenant",
    key="tenant",
    statuses=(202,),
    refusals=(TenantNotFound, ChatNotFound),
)
async def delete_chat_as_tenant(
    caller: Caller, tenant: str, chat: ChatId, verbs: ChatVerbs
) -> JobRecord:
    """Delete any direct chat or group. After the answer, nothing can be written to the chat, and a
    job removes members and messages. A repeated request returns the job with its progress."""
    return job_record(await verbs.delete.as_tenant(caller, tenant, chat))


@operation(
    "DELETE",
    "/v1/tenants/{tenant}/chats/{chat_id}/messages/{sequence}",
    tag=MODERATION_TAG,
    summary="Redact a message as the tenant",
    key="tenant",
    statuses=(204,),
    refusals=(TenantNotFound, ChatNotFound, MessageNotFound, ChatBusy),
)
async def redact_as_tenant(
    caller: Caller, tenant: str, chat: ChatId, sequence_in_path: int, verbs: ChatVerbs
) -> None:
    """Remove the content of any message for good. The entry `redacted` has the sender `~tenant`. A
    message whose content is gone already gets the same answer."""
    await verbs.redact_as_tenant(caller, tenant, chat, sequence_in_path)


class SettingsChange(Body, frozen=True):
    """The settings to change. A field that is left out does not change."""

    frozen: bool | None = None
    slow_mode_seconds: SlowModeSeconds | None = None


class SettingsRecord(msgspec.Struct):
    """The settings of a chat. `slow_mode_seconds` is 0 if the chat is not in slow mode."""

    chat_id: str
    frozen: bool
    slow_mode_seconds: int


@operation(
    "PATCH",
    "/v1/tenants/{tenant}/chats/{chat_id}",
    tag=MODERATION_TAG,
    summary="Freeze a chat, or set its slow mode",
    key="tenant",
    refusals=(TenantNotFound, ChatNotFound),
)
async def change_settings(
    caller: Caller, tenant: str, chat: ChatId, data: SettingsChange, verbs: ChatVerbs
) -> SettingsRecord:
    """Change the settings of a chat. In a frozen chat, members can read, but not send, edit, react
    or pin. In slow mode, a member can send one message in this many seconds; admins and owners need
    not wait. A change is the entry `settings` with the sender `~tenant`."""
    settings = await verbs.change_settings(
        caller, tenant, chat, frozen=data.frozen, slow_mode_seconds=data.slow_mode_seconds
    )
    return SettingsRecord(chat, settings.frozen, settings.slow_mode_seconds)


class TenantChatsQuery(ListQuery, frozen=True):
    """Which part of the list to return. With `user_id`, only the chats of this user are listed."""

    user_id: UserId | None = None


class TenantChatRecord(msgspec.Struct, kw_only=True):
    """A chat, as its tenant sees it: without content."""

    chat_id: str
    type: ChatType
    name: str | None
    created_at: str
    created_by: str
    member_count: int


class TenantChatList(msgspec.Struct):
    """A page of a tenant's chats; `next_cursor` is null on the last page."""

    data: list[TenantChatRecord]
    next_cursor: str | None


@operation(
    "GET",
    "/v1/tenants/{tenant}/chats",
    tag=MODERATION_TAG,
    summary="List the chats of a tenant",
    key="tenant",
    refusals=(TenantNotFound, UserNotFound, CursorInvalid),
    cost=lambda asked: rate_limits.chat_list_cost(asked.limit),
)
async def list_tenant_chats(
    caller: Caller, tenant: str, asked: TenantChatsQuery, verbs: ChatVerbs
) -> TenantChatList:
    """Return the chats of a tenant, newest first; with `user_id`, those that this user is a member
    of. Only `next_cursor` shows whether more chats follow: a page may be shorter than `limit`."""
    page, cursor = await verbs.list_as_tenant(
        caller, tenant, asked.user_id, asked.cursor, asked.limit
    )
    return TenantChatList([_tenant_record(chat) for chat in page], cursor)


class NewChat(Body, frozen=True, kw_only=True):
    """A direct chat with one other user, or a group with a name."""

    type: Literal["direct", "group"]
    members: list[UserId]
    name: Name | None = None


class ChatChange(Body, frozen=True):
    """The new name of a chat."""

    name: Name


class MuteChange(Body, frozen=True):
    """The time until which the chat is muted; null unmutes it. With `except_mentions`, messages
    that mention the caller are still pushed."""

    until: Time | None
    except_mentions: bool = False


class MuteState(msgspec.Struct):
    """The time until which the chat is muted; null if it is not muted."""

    muted_until: str | None
    except_mentions: bool


class ChatsQuery(Query, frozen=True):
    """Which part of the chat list to return."""

    limit: Limit = limits.PAGE_DEFAULT
    cursor: str | None = None


class ChatList(msgspec.Struct):
    """A page of the chat list; `next_cursor` is null on the last page."""

    data: list[ChatRecord]
    next_cursor: str | None


@operation(
    "POST",
    "/v1/chats",
    tag=TAG,
    summary="Create a chat",
    statuses=(201, 200),
    headers=("Idempotency-Key",),
    refusals=(
        UserNotFound,
        UserNotAddable,
        UserDeleted,
        ChatNotFound,
        LimitReached,
        QuotaReached,
        RequestConflict,
    ),
    body_cost=lambda chat: rate_limits.group_cost(len(chat.members)),
    is_banned=True,
)
async def create_chat(
    user: UserKey,
    data: NewChat,
    verbs: ChatVerbs,
    request_key: str | None,
) -> Answer[ChatRecord]:
    """Create a direct chat or a group. Two users have only one direct chat: if it exists, the
    answer is that chat with status 200. With an `Idempotency-Key`, a repeated request returns the
    chat that the first request created, as long as the caller is a member."""
    others = _users(user, data.members)
    created = await verbs.create(user, data.type, data.name, others, request_key)
    row = await verbs.get(user, created.chat_id)
    return Answer(chat_record(row), status=201 if created.is_new else 200)


@operation(
    "GET",
    "/v1/chats",
    tag=TAG,
    summary="List my chats",
    headers=("Tidings-After",),
    refusals=(CursorInvalid,),
    cost=lambda asked: rate_limits.chat_list_cost(asked.limit),
)
async def list_chats(
    user: UserKey,
    asked: ChatsQuery,
    verbs: ChatVerbs,
    own_message: tuple[ChatId, int] | None,
) -> ChatList:
    """Return the caller's chats with previews and unread counts, latest activity first. With
    several processes, a message may be missing for up to two seconds; with its `message_id` in the
    header `Tidings-After`, the list includes it."""
    rows, cursor = await verbs.list(user, asked.cursor, asked.limit, own_message)
    return ChatList([chat_record(row) for row in rows], cursor)


@operation("GET", "/v1/chats/{chat_id}", tag=TAG, summary="Get a chat", refusals=(ChatNotFound,))
async def get_chat(user: UserKey, chat: ChatId, verbs: ChatVerbs) -> ChatRecord:
    """Return a chat with the same fields as in the chat list."""
    return chat_record(await verbs.get(user, chat))


@operation(
    "PATCH",
    "/v1/chats/{chat_id}",
    tag=TAG,
    summary="Rename a group",
    refusals=(ChatNotFound, DirectChatFixed),
    is_banned=True,
)
async def rename_chat(
    user: UserKey, chat: ChatId, data: ChatChange, verbs: ChatVerbs
) -> ChatRecord:
    """Change the name of a group. Admins and owners may do this."""
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
    """Stop push notices from this chat to the caller until the given time; null ends the mute.
    Other members are not affected."""
    until = None if data.until is None else fields.time(data.until, "until")
    await verbs.mute(user, chat, until, except_mentions=data.except_mentions)
    if until is None:
        return MuteState(None, except_mentions=False)
    return MuteState(rfc3339(until), data.except_mentions)


@operation(
    "DELETE",
    "/v1/chats/{chat_id}",
    tag=TAG,
    summary="Delete a chat",
    key="user or tenant",
    statuses=(202,),
    refusals=(ChatNotFound, DirectChatFixed),
    is_banned=True,
)
async def delete_chat(caller: Caller, chat: ChatId, verbs: ChatVerbs) -> JobRecord:
    """Delete a group as its owner, or any chat of the tenant with a tenant key. After the answer,
    nothing can be written to the chat, and a job removes members and messages. A repeated request
    by the same caller returns the job with its progress.
    """
    if isinstance(caller, UserCaller):
        return job_record(await verbs.delete.as_owner(caller.user, chat))
    assert isinstance(caller, TenantCaller), "the guard lets nobody else in"
    return job_record(await verbs.delete.as_tenant(caller, caller.tenant, chat))


def _tenant_record(chat: TenantChat) -> TenantChatRecord:
    return TenantChatRecord(
        chat_id=chat.chat_id,
        type=chat.type,
        name=chat.name,
        created_at=rfc3339(chat.created_at),
        created_by=user_id(chat.creator),
        member_count=chat.member_count,
    )


def _users(creator: UserKey, members: list[str]) -> list[UserKey]:
    for index, member in enumerate(members):
        if USER.fullmatch(member) is None:
            raise Invalid(
                f"members[{index}] must be 1 to 64 of A-Z a-z 0-9 . _ @ + -, not . or ..",
                f"/members/{index}",
            )
    return [user_key(tenant_of(creator), member) for member in members]


OPERATIONS: Final = (
    create_chat,
    list_chats,
    get_chat,
    rename_chat,
    mute_chat,
    delete_chat,
    list_tenant_chats,
    remove_member_as_tenant,
    delete_chat_as_tenant,
    change_settings,
    redact_as_tenant,
)

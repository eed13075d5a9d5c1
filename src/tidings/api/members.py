# SPDX-License-Identifier: Apache-2.0
"""Operations on members of a chat and on invitations."""

from typing import Final

import msgspec

from tidings.actions import rate_limits
from tidings.actions.verbs import ChatVerbs
from tidings.api.fields import ChatIds
from tidings.api.operations import Answer, operation
from tidings.api.requests import Body
from tidings.model import limits
from tidings.model.ids import USER, ChatId, UserKey, rfc3339, tenant_of, user_id, user_key
from tidings.model.refusals import (
    ChatNotFound,
    DirectChatFixed,
    InviteNotFound,
    LastOwner,
    LimitReached,
    MemberNotFound,
    Refusal,
    UserBanned,
    UserDeleted,
    UserNotAddable,
    UserNotFound,
)
from tidings.model.roles import Invite, Role
from tidings.wire.records import ChatRecord, MemberRecord, chat_record, member_record

INVITES_TAG: Final = "Invitations"

TAG: Final = "Members"


class InviteRecord(msgspec.Struct):
    """An invitation into a group. Until the user accepts, the user sees nothing else of the
    group."""

    chat_id: str
    name: str
    user_id: str
    invited_by: str
    role: Role
    invited_at: str
    expires_at: str


class InviteList(msgspec.Struct):
    """The caller's open invitations, newest first."""

    data: list[InviteRecord]
    next_cursor: None = None


@operation("GET", "/v1/me/invites", tag=INVITES_TAG, summary="List my invitations")
async def list_invites(user: UserKey, verbs: ChatVerbs) -> InviteList:
    """Return your open invitations, which are never more than 100. An invitation expires after 30
    days."""
    return InviteList([invite_record(invite) for invite in await verbs.invites(user)])


@operation(
    "POST",
    "/v1/me/invites/{chat_id}/accept",
    tag=INVITES_TAG,
    summary="Accept an invitation",
    refusals=(InviteNotFound, ChatNotFound, LimitReached),
    is_banned=True,
)
async def accept_invite(user: UserKey, chat: ChatId, verbs: ChatVerbs) -> ChatRecord:
    """Make the caller a member of the group. A caller who is a member already gets the same
    answer."""
    await verbs.accept_invite(user, chat)
    return chat_record(await verbs.get(user, chat))


@operation(
    "DELETE",
    "/v1/me/invites/{chat_id}",
    tag=INVITES_TAG,
    summary="Decline an invitation",
    statuses=(204,),
    refusals=(ChatNotFound,),
)
async def decline_invite(user: UserKey, chat: ChatId, verbs: ChatVerbs) -> None:
    """Decline an invitation, if there is one. Nobody is notified. For 7 days nobody can invite the
    caller into this group again."""
    await verbs.decline_invite(user, chat)


def invite_record(invite: Invite) -> InviteRecord:
    """Return an invitation as its user and its inviter see it."""
    return InviteRecord(
        invite.chat_id,
        invite.name,
        user_id(invite.user_id),
        user_id(invite.inviter),
        invite.role,
        rfc3339(invite.invited_at),
        rfc3339(invite.expires_at),
    )


class MemberChange(Body, frozen=True):
    """The role of the member. Without it, a new member gets the role `member`."""

    role: Role | None = None


class MemberList(msgspec.Struct):
    """All members of a chat, earliest joined first."""

    data: list[MemberRecord]
    next_cursor: None = None


ANY_ROLE: Final = MemberChange()


@operation(
    "GET",
    "/v1/chats/{chat_id}/members",
    tag=TAG,
    summary="List the members of a chat",
    refusals=(ChatNotFound,),
    cost=limits.MEMBER_LIST_TOKENS,
)
async def list_members(user: UserKey, chat: ChatId, verbs: ChatVerbs) -> MemberList:
    """Return all members with their names and receipts; a group has at most 1000. Names and avatars
    are at most a minute old. `read_at` is null if the time is not known."""
    members = await verbs.members(user, chat)
    return MemberList([member_record(shown) for shown in members.values()])


@operation(
    "PUT",
    "/v1/chats/{chat_id}/members/{user_id}",
    tag=TAG,
    summary="Add a member or change a role",
    statuses=(200, 201, 202),
    refusals=(
        ChatNotFound, UserNotFound, UserNotAddable, UserDeleted, MemberNotFound, DirectChatFixed,
        LastOwner, LimitReached,
    ),
    is_banned=True,
)  # fmt: skip
async def put_member(
    user: UserKey,
    chat: ChatId,
    user_id: str,
    verbs: ChatVerbs,
    data: MemberChange = ANY_ROLE,
) -> Answer[MemberRecord | InviteRecord]:
    """Add a member or change a role. Admins can add members; owners can add users with any role,
    and change roles. The status is 201 if the member is new, and 202 with an invitation if the user
    is asked first."""
    other = _named(user, user_id)
    if other is None:
        raise UserNotFound
    outcome = await verbs.put_member(user, chat, other, data.role)
    if isinstance(outcome, Invite):
        return Answer(invite_record(outcome), status=202)
    shown = await verbs.members.one(user, chat, other)
    return Answer(member_record(shown), status=201 if outcome else 200)


@operation(
    "DELETE",
    "/v1/chats/{chat_id}/members/{user_id}",
    tag=TAG,
    summary="Remove a member or leave",
    statuses=(204,),
    refusals=(ChatNotFound, MemberNotFound, DirectChatFixed, UserBanned),
)
async def remove_member(user: UserKey, chat: ChatId, user_id: str, verbs: ChatVerbs) -> None:
    """Remove a member, or leave the chat. Every member may leave. When the last owner leaves, the
    admin who joined first becomes owner, or the member who joined first if there is no admin."""
    other = _named(user, user_id)
    if other is None:
        raise MemberNotFound
    if other != user and verbs.post.bans is not None:
        verbs.post.bans.check(user)
    await verbs.remove_member(user, chat, other)


class Leaving(Body, frozen=True):
    """The chats to leave."""

    chats: ChatIds


class LeftRecord(msgspec.Struct):
    """The outcome for one chat. `code` is the reason why the caller did not leave it, or null."""

    chat_id: str
    left: bool
    code: str | None
    retryable: bool


class LeftList(msgspec.Struct):
    """Whether the caller left each chat, in the order of the request and without repetitions."""

    data: list[LeftRecord]
    next_cursor: None = None


@operation(
    "POST",
    "/v1/chats/leave",
    tag=TAG,
    summary="Leave many chats",
    body_cost=lambda leaving: rate_limits.leave_cost(len(leaving.chats)),
)
async def leave_chats(user: UserKey, data: Leaving, verbs: ChatVerbs) -> LeftList:
    """Leave up to 100 chats. If the caller cannot leave one of them, this does not affect the
    others. The code is `chat.not_found` if the caller is not a member, and `chat.direct` for a
    direct chat. Chats marked `retryable` can be sent again."""
    outcomes = await verbs.leave(user, data.chats)
    return LeftList([_left(chat, refusal) for chat, refusal in outcomes])


def _left(chat: str, refusal: Refusal | None) -> LeftRecord:
    if refusal is None:
        return LeftRecord(chat, left=True, code=None, retryable=False)
    return LeftRecord(chat, left=False, code=refusal.code, retryable=refusal.retryable)


def _named(caller: UserKey, name: str) -> UserKey | None:
    """Return the user with this id in the caller's tenant; None if the id is malformed."""
    return user_key(tenant_of(caller), name) if USER.fullmatch(name) else None


OPERATIONS: Final = (
    list_members,
    put_member,
    remove_member,
    leave_chats,
    list_invites,
    accept_invite,
    decline_invite,
)

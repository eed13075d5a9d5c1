# SPDX-License-Identifier: Apache-2.0
"""Who is in a chat: listing, adding, roles, removing, leaving."""

from typing import Final

import msgspec

from tidings.actions.verbs import ChatVerbs
from tidings.api.fields import ChatIds
from tidings.api.invites import InviteRecord, invite_record
from tidings.api.operations import Answer, operation
from tidings.api.requests import Body
from tidings.model import costs, limits
from tidings.model.ids import USER, ChatId, UserKey, tenant_of, user_id, user_key
from tidings.model.invites import Invite
from tidings.model.refusals import (
    ChatNotFound,
    DirectChatFixed,
    LastOwner,
    LimitReached,
    MemberNotFound,
    Refusal,
    UserNotFound,
)
from tidings.model.roles import Member, Role
from tidings.model.times import rfc3339
from tidings.wire.records import MemberRecord

TAG: Final = "Members"


class MemberChange(Body, frozen=True):
    """The role a member should have; without one a new member is a plain member."""

    role: Role | None = None


class MemberList(msgspec.Struct):
    """All members of a chat, longest-standing first."""

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
    """All of them at once: a group has at most 1000."""
    members = await verbs.members(user, chat)
    return MemberList([_record(other, member) for other, member in members.items()])


@operation(
    "PUT",
    "/v1/chats/{chat_id}/members/{user_id}",
    tag=TAG,
    summary="Add a member or change a role",
    statuses=(200, 201, 202),
    refusals=(
        ChatNotFound, UserNotFound, MemberNotFound, DirectChatFixed, LastOwner, LimitReached,
    ),
)  # fmt: skip
async def put_member(
    user: UserKey,
    chat: ChatId,
    user_id: str,
    verbs: ChatVerbs,
    data: MemberChange = ANY_ROLE,
) -> Answer[MemberRecord | InviteRecord]:
    """Admins add members; owners add anyone and change roles. 201 if the member is new, 202 with an
    invitation if the user is asked first.
    """
    other = _named(user, user_id)
    if other is None:
        raise UserNotFound
    outcome = await verbs.put_member(user, chat, other, data.role)
    if isinstance(outcome, Invite):
        return Answer(invite_record(outcome), status=202)
    member = (await verbs.members(user, chat)).get(other)
    if member is None:
        raise MemberNotFound
    return Answer(_record(other, member), status=201 if outcome else 200)


@operation(
    "DELETE",
    "/v1/chats/{chat_id}/members/{user_id}",
    tag=TAG,
    summary="Remove a member or leave",
    statuses=(204,),
    refusals=(ChatNotFound, MemberNotFound, DirectChatFixed),
)
async def remove_member(user: UserKey, chat: ChatId, user_id: str, verbs: ChatVerbs) -> None:
    """Anyone may leave. When the last owner goes, the longest-standing admin, else member, becomes
    owner.
    """
    other = _named(user, user_id)
    if other is None:
        raise MemberNotFound
    await verbs.remove_member(user, chat, other)


class Leaving(Body, frozen=True):
    """The chats to leave."""

    chats: ChatIds


class LeftRecord(msgspec.Struct):
    """What became of one chat: `code` says why it was not left, and is null if it was."""

    chat_id: str
    left: bool
    code: str | None
    retryable: bool


class LeftList(msgspec.Struct):
    """What became of each chat, in the order asked, each once."""

    data: list[LeftRecord]
    next_cursor: None = None


@operation(
    "POST",
    "/v1/chats/leave",
    tag=TAG,
    summary="Leave many chats",
    body_cost=lambda leaving: costs.leave(len(leaving.chats)),
)
async def leave_chats(user: UserKey, data: Leaving, verbs: ChatVerbs) -> LeftList:
    """Up to 100, each as by leaving it alone. Chats one is not in, or has left before, are
    `chat.not_found`, direct chats `chat.direct`; what is `retryable` can be asked for again.
    """
    outcomes = await verbs.leave(user, data.chats)
    return LeftList([_left(chat, refusal) for chat, refusal in outcomes])


def _left(chat: str, refusal: Refusal | None) -> LeftRecord:
    if refusal is None:
        return LeftRecord(chat, left=True, code=None, retryable=False)
    return LeftRecord(chat, left=False, code=refusal.code, retryable=refusal.retryable)


def _named(caller: UserKey, name: str) -> UserKey | None:
    """The user of the caller's tenant that a path names; None if the name cannot be one."""
    return user_key(tenant_of(caller), name) if USER.fullmatch(name) else None


def _record(user: UserKey, member: Member) -> MemberRecord:
    return MemberRecord(user_id(user), member.role, rfc3339(member.joined_at))


OPERATIONS: Final = (list_members, put_member, remove_member, leave_chats)

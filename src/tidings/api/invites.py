# SPDX-License-Identifier: Apache-2.0
"""Invitations into groups: list, accept and decline."""

from typing import Final

import msgspec

from tidings.actions.verbs import ChatVerbs
from tidings.api.operations import operation
from tidings.model.ids import ChatId, UserKey, user_id
from tidings.model.invites import Invite
from tidings.model.refusals import ChatNotFound, InviteNotFound, LimitReached
from tidings.model.roles import Role
from tidings.model.times import rfc3339
from tidings.wire.records import ChatRecord, chat_record

TAG: Final = "Invitations"


class InviteRecord(msgspec.Struct):
    """An invitation into a group. Until the user accepts, this is all they see of the group."""

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


@operation("GET", "/v1/me/invites", tag=TAG, summary="List my invitations")
async def list_invites(user: UserKey, verbs: ChatVerbs) -> InviteList:
    """Return all open invitations: at most 100. An invitation expires after 30 days."""
    return InviteList([invite_record(invite) for invite in await verbs.invites(user)])


@operation(
    "POST",
    "/v1/me/invites/{chat_id}/accept",
    tag=TAG,
    summary="Accept an invitation",
    refusals=(InviteNotFound, ChatNotFound, LimitReached),
)
async def accept_invite(user: UserKey, chat: ChatId, verbs: ChatVerbs) -> ChatRecord:
    """Make the caller a member of the group. For a member the answer is the same."""
    await verbs.accept_invite(user, chat)
    return chat_record(await verbs.get(user, chat))


@operation(
    "DELETE",
    "/v1/me/invites/{chat_id}",
    tag=TAG,
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


OPERATIONS: Final = (list_invites, accept_invite, decline_invite)

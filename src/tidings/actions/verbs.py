# SPDX-License-Identifier: Apache-2.0
"""All that users can do with chats, in one typed bundle for the API and the gateway."""

from dataclasses import dataclass

from tidings.actions.chats import CreateChat, GetChat, ListChats, Mute
from tidings.actions.deleting import DeleteChat, GetJob
from tidings.actions.invites import AcceptInvite, DeclineInvite, ListInvites
from tidings.actions.leaving import LeaveChats
from tidings.actions.membership import PutMember, RemoveMember, Rename
from tidings.actions.messages import Edit, React, Redact
from tidings.actions.moderation import RemoveAsTenant
from tidings.actions.posting import Post
from tidings.actions.reading import (
    ListMembers,
    ListReactions,
    ListReceipts,
    ReadPage,
)
from tidings.actions.receipts import MarkReceipt


@dataclass(frozen=True, slots=True)
class ChatVerbs:
    """The verbs of chat."""

    create: CreateChat
    list: ListChats
    get: GetChat
    mute: Mute
    put_member: PutMember
    remove_member: RemoveMember
    leave: LeaveChats
    invites: ListInvites
    accept_invite: AcceptInvite
    decline_invite: DeclineInvite
    remove_as_tenant: RemoveAsTenant
    delete: DeleteChat
    job: GetJob
    rename: Rename
    members: ListMembers
    post: Post
    read: ReadPage
    edit: Edit
    redact: Redact
    react: React
    reactions: ListReactions
    receipts: ListReceipts
    mark: MarkReceipt

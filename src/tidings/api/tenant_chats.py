# SPDX-License-Identifier: Apache-2.0
"""Moderation: what a tenant does in its users' chats."""

from typing import Final

from tidings.actions.identity.caller import Caller
from tidings.actions.verbs import ChatVerbs
from tidings.api.operations import operation
from tidings.api.tenant_jobs import JobRecord, job_record
from tidings.model.ids import ChatId
from tidings.model.refusals import (
    ChatNotFound,
    DirectChatFixed,
    MemberNotFound,
    TenantNotFound,
)

TAG: Final = "Moderation"


@operation(
    "DELETE",
    "/v1/tenants/{tenant}/chats/{chat_id}/members/{user_id}",
    tag=TAG,
    summary="Remove a member as the tenant",
    key="tenant",
    statuses=(204,),
    refusals=(TenantNotFound, ChatNotFound, MemberNotFound, DirectChatFixed),
)
async def remove_member_as_tenant(
    caller: Caller, tenant: str, chat: ChatId, user_id: str, verbs: ChatVerbs
) -> None:
    """Remove any member, owners included. When the last owner goes, the longest-standing admin
    becomes owner, or the longest-standing member if there is no admin. The entry `removed` has
    the sender `~tenant`."""
    await verbs.remove_as_tenant(caller, tenant, chat, user_id)


@operation(
    "DELETE",
    "/v1/tenants/{tenant}/chats/{chat_id}",
    tag=TAG,
    summary="Delete a chat as the tenant",
    key="tenant",
    statuses=(202,),
    refusals=(TenantNotFound, ChatNotFound),
)
async def delete_chat_as_tenant(
    caller: Caller, tenant: str, chat: ChatId, verbs: ChatVerbs
) -> JobRecord:
    """Delete any chat, direct or group. After the answer the chat accepts nothing; a job removes
    members and messages. A repeated request returns that job with its progress."""
    return job_record(await verbs.delete.as_tenant(caller, tenant, chat))


OPERATIONS: Final = (remove_member_as_tenant, delete_chat_as_tenant)

# SPDX-License-Identifier: Apache-2.0
"""What a tenant does in its users' chats."""

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
    """Anybody, owners too: when the last one goes, the longest-standing admin, else member, becomes
    owner. The entry `removed` has the sender `~tenant`.
    """
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
    """Any chat, direct ones too. From the answer on nothing is taken in; members and messages are
    removed by a job. Asked again it answers with that job, as far as it is then.
    """
    return job_record(await verbs.delete.as_tenant(caller, tenant, chat))


OPERATIONS: Final = (remove_member_as_tenant, delete_chat_as_tenant)

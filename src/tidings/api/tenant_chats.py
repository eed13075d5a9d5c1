# SPDX-License-Identifier: Apache-2.0
"""What a tenant does in its users' chats."""

from typing import Final

from tidings.actions.identity import Caller
from tidings.actions.verbs import ChatVerbs
from tidings.api.operations import operation
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


OPERATIONS: Final = (remove_member_as_tenant,)

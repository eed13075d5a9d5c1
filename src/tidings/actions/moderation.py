# SPDX-License-Identifier: Apache-2.0
"""What a tenant does in its users' chats, with its key."""

from dataclasses import dataclass

from tidings.actions.identity import Caller, require_tenant
from tidings.actions.membership import check_group, removal
from tidings.actions.removing import Removing
from tidings.model.chats import ChatState
from tidings.model.entries import Entry
from tidings.model.ids import USER, ChatId, UserKey, tenant_itself, user_key
from tidings.model.refusals import ChatNotFound, MemberNotFound


@dataclass(frozen=True, slots=True)
class RemoveAsTenant:
    """Remove anybody from a group of the tenant."""

    removing: Removing

    async def __call__(self, caller: Caller, tenant: str, chat: ChatId, user: str) -> None:
        """The entry names the tenant as its sender. When the last owner goes, another takes over.

        Raises:
            ChatNotFound: The tenant has no such chat.
            MemberNotFound: The user is not in it, or not any more.
            DirectChatFixed: It is a direct chat, which keeps its two members.
        """
        require_tenant(caller, tenant)
        if USER.fullmatch(user) is None:
            raise MemberNotFound
        key = user_key(tenant, user)
        await self.removing(chat, key, lambda state, _: _remove(state, tenant, key))


def _remove(state: ChatState, tenant: str, user: UserKey) -> list[Entry]:
    if state.tenant != tenant:
        raise ChatNotFound
    check_group(state)
    member = state.members.get(user)
    if member is None:
        raise MemberNotFound
    return removal(state, tenant_itself(tenant), user, member)

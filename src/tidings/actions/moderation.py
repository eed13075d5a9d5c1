# SPDX-License-Identifier: Apache-2.0
"""What a tenant does in its users' chats, with its key."""

from dataclasses import dataclass

from tidings.actions.appending import Appender
from tidings.actions.changing import change
from tidings.actions.identity import Caller, require_tenant
from tidings.actions.membership import check_group, removal
from tidings.model.chats import ChatState
from tidings.model.entries import Entry
from tidings.model.ids import USER, ChatId, tenant_itself, user_key
from tidings.model.refusals import ChatNotFound, MemberNotFound


@dataclass(frozen=True, slots=True)
class RemoveAsTenant:
    """Remove anybody from a group of the tenant."""

    appender: Appender

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
        await change(self.appender, chat, lambda state, _: _remove(state, tenant, user))


def _remove(state: ChatState, tenant: str, user: str) -> list[Entry]:
    if state.tenant != tenant:
        raise ChatNotFound
    check_group(state)
    key = user_key(tenant, user)
    member = state.members.get(key)
    if member is None:
        raise MemberNotFound
    return removal(state, tenant_itself(tenant), key, member)

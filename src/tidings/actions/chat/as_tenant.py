# SPDX-License-Identifier: Apache-2.0
"""Create chats and post messages as a tenant, in the name of a user or of the tenant itself.

The tenant itself has the id `~tenant`, which no user can have. It is no member of any chat.
"""

from collections.abc import Sequence

import msgspec

from tidings.actions.chat.chats import CreateChat, check_chat, first_entries
from tidings.actions.identity.caller import Caller, require_tenant
from tidings.actions.identity.users import check_user_id
from tidings.model.chats import Chat, ChatType
from tidings.model.ids import (
    TENANT_ITSELF,
    ChatId,
    UserKey,
    tenant_itself,
    user_id,
    user_key,
)
from tidings.model.refusals import Invalid, UserNotFound
from tidings.ports.chats import Created
from tidings.ports.world import new_ulid


def named_by_tenant(caller: Caller, tenant: str, name: str | None) -> UserKey:
    """Return the user in whose name the tenant acts; without a name, the tenant itself.

    Raises:
        TenantNotFound: The caller is not the tenant.
        Invalid: The name cannot be that of a user.
    """
    require_tenant(caller, tenant)
    if name is None or name == TENANT_ITSELF:
        return tenant_itself(tenant)
    check_user_id(name)
    return user_key(tenant, name)


class CreateAsTenant(msgspec.Struct, frozen=True):
    """Create a direct chat or a group of the tenant's users.

    The tenant decides alone: nobody is invited, and nobody's daily budget is charged.
    """

    create: CreateChat

    async def __call__(
        self,
        caller: Caller,
        tenant: str,
        type_: ChatType,
        name: str | None,
        creator: str | None,
        members: Sequence[str],
        request_key: str | None,
    ) -> Created:
        """Create the chat, in the name of the creator or of the tenant itself.

        The creator is a member. A group is owned by the creator; if the tenant creates it in its
        own name, by the first of the members.

        Raises:
            UserNotFound: The tenant has no such user.
        """
        made_by = named_by_tenant(caller, tenant, creator)
        named = [named_by_tenant(caller, tenant, member) for member in members]
        users = list(dict.fromkeys([made_by, *named]))
        itself = tenant_itself(tenant)
        if made_by == itself:
            users.remove(itself)
        if not users or itself in named:
            raise Invalid("members: must name users of the tenant", "/members")
        check_chat(type_, name, users[1:])
        if missing := await self.create.users.missing(users):
            raise UserNotFound(f"no such user: {user_id(missing[0])}")
        return await self._create(made_by, tenant, type_, name, users, request_key)

    async def _create(
        self,
        made_by: UserKey,
        tenant: str,
        type_: ChatType,
        name: str | None,
        users: Sequence[UserKey],
        request_key: str | None,
    ) -> Created:
        create = self.create
        meter, now = create.meter(tenant), create.clock.now()
        chat = Chat(
            chat_id=ChatId(new_ulid(create.clock, create.chance)),
            tenant=tenant,
            type=type_,
            name=name,
            creator=made_by,
            created_at=now,
        )
        entries, state = first_entries(chat, users, create.chance.token(8).hex())
        request = create.request(
            tenant_itself(tenant), type_, name, [made_by, *users], request_key, now
        )
        created = await create.chats.create(chat, entries, request, now)
        await create.publish(created, entries, state, meter)
        return created

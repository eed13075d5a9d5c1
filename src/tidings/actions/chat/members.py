# SPDX-License-Identifier: Apache-2.0
"""Add members to a group, change their roles, remove them, leave; also rename the group."""

import asyncio
from collections.abc import Sequence
from typing import Final

import msgspec

from tidings.actions.chat.appender import Appender
from tidings.actions.chat.changes import Removing, change, membership_of
from tidings.actions.chat.invites import Invitations, StrangerBudget
from tidings.actions.identity.blocks import BlockLists
from tidings.actions.identity.caller import Caller, require_tenant
from tidings.actions.identity.users import check_visible_text
from tidings.model import limits, roles
from tidings.model.chats import ChatState
from tidings.model.entries import Entry, Kind, Person
from tidings.model.ids import CHAT, USER, ChatId, UserKey, tenant_itself, user_key
from tidings.model.refusals import (
    ChatNotFound,
    DirectChatFixed,
    Forbidden,
    Invalid,
    LastOwner,
    LimitReached,
    MemberNotFound,
    RateLimited,
    Refusal,
    UserDeleted,
    UserNotAddable,
    UserNotFound,
)
from tidings.model.roles import Invite, Member, Role
from tidings.ports.people import UserStore

LEFT_AT_ONCE: Final = 4
"""Maximum number of chats that one request leaves in parallel. Each is a write to a different log,
and more would slow down other users."""


class PutMember(msgspec.Struct, frozen=True):
    """Add a user, or give a member another role."""

    appender: Appender
    users: UserStore
    strangers: StrangerBudget
    invitations: Invitations
    blocks: BlockLists

    async def __call__(
        self, actor: UserKey, chat: ChatId, user: UserKey, role: Role | None
    ) -> bool | Invite:
        """Add the user with a role, or give the member this role.

        Return True if the user was added, and False if the user was a member before. If the user
        must first accept an invitation, return the invitation. Nothing changes if the user is
        already a member with this role.
        """
        try:
            if await self.users.missing([user]):
                raise UserNotFound
        except (UserNotFound, UserDeleted) as refusal:
            await self._refuse_unknown(actor, chat, refusal)
        put = self._put
        try:
            await self.blocks.refuse_blockers(actor, [user])
            strangers = await self.strangers.among(actor, [user])
            if await self.invitations.must_ask(actor, strangers):
                put = self._ask
            spent = await self.strangers.spend(actor, len(strangers))
        except (UserNotAddable, RateLimited) as refusal:
            await self._change_role(actor, chat, user, role, refusal)
            return False
        outcome: bool | Invite = False
        try:
            outcome = await put(actor, chat, user, role)
        finally:
            if not outcome:
                await spent.give_back()
        if outcome is True:
            await self.invitations.joined(user, chat)
        return outcome

    async def _change_role(
        self, actor: UserKey, chat: ChatId, user: UserKey, role: Role | None, refusal: Refusal
    ) -> None:
        """Give a member the role, even though the actor may not add the user.

        Raises:
            Refusal: The user is not a member and would have to be added.
        """

        def decide(state: ChatState, _: int) -> list[Entry]:
            entries = _put(state, actor, user, role)
            if user not in state.members:
                raise refusal
            return entries

        await change(self.appender, chat, decide)

    async def _ask(
        self, actor: UserKey, chat: ChatId, user: UserKey, role: Role | None
    ) -> bool | Invite:
        """Invite the user, if the actor may add members.

        If the user is already a member, change the role instead.
        """
        asked: list[str] = []

        def decide(state: ChatState, _: int) -> list[Entry]:
            entries = _put(state, actor, user, role)
            if user in state.members:
                return entries
            asked.append(state.name or "")
            return []

        await change(self.appender, chat, decide)
        if not asked:
            return False
        return await self.invitations.ask(actor, chat, asked[-1], Person(user, role or "member"))

    async def _put(
        self, actor: UserKey, chat: ChatId, user: UserKey, role: Role | None
    ) -> bool | Invite:
        entries = await change(self.appender, chat, lambda state, _: _put(state, actor, user, role))
        return any(entry.kind == "added" for entry in entries)

    async def _refuse_unknown(self, actor: UserKey, chat: ChatId, refusal: Refusal) -> None:
        """Refuse an unknown or deleted user, but check the actor first.

        An actor who is not a member must not learn which users exist.
        """
        await change(self.appender, chat, lambda state, _: _seen_by(state, actor))
        raise refusal


class RemoveMember(msgspec.Struct, frozen=True):
    """Remove a member from a group, or leave the group."""

    removing: Removing

    async def __call__(self, actor: UserKey, chat: ChatId, user: UserKey) -> None:
        """Remove the user.

        If the user was the last owner, the longest-standing admin becomes owner. If there is no
        admin, the longest-standing member does.
        """
        await self.removing(chat, user, lambda state, _: _remove(state, actor, user))


class Rename(msgspec.Struct, frozen=True):
    """Rename a group."""

    appender: Appender

    async def __call__(self, actor: UserKey, chat: ChatId, name: str) -> None:
        check_name(name)
        await change(self.appender, chat, lambda state, _: _rename(state, actor, name))


def check_name(name: str) -> None:
    """Refuse a name that is empty, too long, or has invisible characters."""
    check_visible_text("name", name)


def _seen_by(state: ChatState, actor: UserKey) -> list[Entry]:
    membership_of(state, actor)
    return []


def _put(state: ChatState, actor: UserKey, user: UserKey, role: Role | None) -> list[Entry]:
    own = membership_of(state, actor)
    check_group(state)
    present = state.members.get(user)
    if present is None:
        return [_added(state, actor, own.role, Person(user, role or "member"))]
    if role is None or role == present.role:
        return []
    if not roles.may_change_role(own.role):
        raise Forbidden("only an owner may change roles")
    if present.role == "owner" and roles.owners(state.members) == 1:
        raise LastOwner
    return [_entry(state, actor, "role", Person(user, role))]


def _added(state: ChatState, actor: UserKey, own: Role, person: Person) -> Entry:
    if not roles.may_add(own, person.role):
        raise Forbidden("an admin may add users only as members; an owner may give any role")
    if len(state.members) >= limits.GROUP_MEMBERS_MAX:
        raise LimitReached(f"a group has at most {limits.GROUP_MEMBERS_MAX} members")
    return _entry(state, actor, "added", person)


def _remove(state: ChatState, actor: UserKey, user: UserKey) -> list[Entry]:
    own = membership_of(state, actor)
    check_group(state)
    member = state.members.get(user)
    if member is None:
        raise MemberNotFound
    if user != actor and not roles.may_remove(own.role, member.role):
        raise Forbidden("an admin may remove only plain members; an owner may remove anyone")
    return removal(state, actor, user, member)


def removal(state: ChatState, actor: UserKey, user: UserKey, member: Member) -> list[Entry]:
    """Return the entries that remove a member and, if this was the last owner, name a new owner."""
    entries = [_entry(state, actor, "removed", Person(user, member.role))]
    if member.role == "owner" and roles.owners(state.members) == 1:
        left = {other: m for other, m in state.members.items() if other != user}
        if heir := roles.successor(left):
            entries.append(_entry(state, actor, "role", Person(heir, "owner")))
    return entries


def _rename(state: ChatState, actor: UserKey, name: str) -> list[Entry]:
    own = membership_of(state, actor)
    check_group(state)
    if not roles.may_rename(own.role):
        raise Forbidden("only admins and owners may rename a group")
    if name == state.name:
        return []
    return [Entry(chat_id=state.chat_id, kind="renamed", sender=actor, name=name)]


def check_group(state: ChatState) -> None:
    """Refuse a direct chat, whose two members never change."""
    if state.type == "direct":
        raise DirectChatFixed


def _entry(state: ChatState, actor: UserKey, kind: Kind, person: Person) -> Entry:
    return Entry(chat_id=state.chat_id, kind=kind, sender=actor, people=(person,))


class RemoveAsTenant(msgspec.Struct, frozen=True):
    """Remove any member from a group of the tenant."""

    removing: Removing

    async def __call__(self, caller: Caller, tenant: str, chat: ChatId, user: str) -> None:
        """Remove the user; the entry names the tenant as its sender.

        If the user was the last owner, another member becomes owner.

        Raises:
            ChatNotFound: The tenant has no such chat.
            MemberNotFound: The user is not a member, or no longer a member.
            DirectChatFixed: The chat is direct, and its two members never change.
        """
        require_tenant(caller, tenant)
        if USER.fullmatch(user) is None:
            raise MemberNotFound
        key = user_key(tenant, user)
        await self.removing(chat, key, lambda state, _: _remove_as_tenant(state, tenant, key))


def _remove_as_tenant(state: ChatState, tenant: str, user: UserKey) -> list[Entry]:
    if state.tenant != tenant:
        raise ChatNotFound
    check_group(state)
    member = state.members.get(user)
    if member is None:
        raise MemberNotFound
    return removal(state, tenant_itself(tenant), user, member)


class LeaveChats(msgspec.Struct, frozen=True):
    """Leave up to a hundred chats, each independently of the others."""

    remove_member: RemoveMember

    async def __call__(
        self, user: UserKey, chats: Sequence[str]
    ) -> list[tuple[str, Refusal | None]]:
        """Leave the chats; return each distinct chat with its refusal, or with None if it was left.

        The chats are returned in the given order. A request without an answer, and a chat with a
        retryable refusal, can be repeated safely. A chat that the user has already left is then
        refused as not found, like any chat that the user is not in.
        """
        wanted = list(dict.fromkeys(chats))
        if not 1 <= len(wanted) <= limits.LEAVE_CHATS_MAX:
            raise Invalid(f"chats: must name 1 to {limits.LEAVE_CHATS_MAX} chats", "/chats")
        free = asyncio.Semaphore(LEFT_AT_ONCE)

        async def leave(chat: str) -> Refusal | None:
            async with free:
                return await self._leave(user, chat)

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(leave(chat)) for chat in wanted]
        return [(chat, task.result()) for chat, task in zip(wanted, tasks, strict=True)]

    async def _leave(self, user: UserKey, chat: str) -> Refusal | None:
        if CHAT.fullmatch(chat) is None:
            return ChatNotFound()
        try:
            await self.remove_member(user, ChatId(chat), user)
        except Refusal as refusal:
            return refusal
        return None

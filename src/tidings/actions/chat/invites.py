# SPDX-License-Identifier: Apache-2.0
"""Invitations of strangers into groups, and each user's daily budget for adding strangers.

A stranger to a user is somebody who has never created a direct chat with that user, nor written in
one.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import msgspec

from tidings.actions.chat.appender import Appender
from tidings.actions.chat.changes import change
from tidings.model import limits, roles
from tidings.model.chats import ChatState
from tidings.model.entries import Entry, Person
from tidings.model.ids import ChatId, UserKey, tenant_of
from tidings.model.refusals import (
    ChatNotFound,
    InviteNotFound,
    LimitReached,
    RateLimited,
    UserNotAddable,
)
from tidings.model.roles import Invite, Invites
from tidings.ports.bus import Bus, Invited
from tidings.ports.chats import Chats, InviteStore
from tidings.ports.sessions import Allowance, Budgets
from tidings.ports.world import Clock

INVITED_AT_ONCE: Final = 8


class Invitations(msgspec.Struct, frozen=True):
    """Invites strangers into groups, if the settings of the tenant require invitations."""

    invites: InviteStore
    rule: Callable[[str], Awaitable[Invites]]
    """Function that returns what a tenant's settings say about strangers."""
    bus: Bus
    clock: Clock

    async def must_ask(self, inviter: UserKey, strangers: Sequence[UserKey]) -> bool:
        """Return True if there are strangers, and the tenant requires that they are invited instead
        of added.

        Raises:
            UserNotAddable: There are strangers, and the tenant lets only contacts add somebody.
        """
        if not strangers:
            return False
        rule = await self.rule(tenant_of(inviter))
        if rule == "contacts":
            raise UserNotAddable
        return rule == "ask"

    async def ask(self, inviter: UserKey, chat: ChatId, name: str, person: Person) -> Invite:
        """Invite a user into a chat; notify their devices only if the invitation is new.

        Raises:
            LimitReached: The user has too many open invitations, in total or from this inviter, or
                declined recently. The refusal does not reveal which.
        """
        now = self.clock.now()
        invite = Invite(
            user_id=person.user,
            chat_id=chat,
            inviter=inviter,
            role=person.role,
            name=name,
            invited_at=now,
            expires_at=now + limits.INVITE_MS,
        )
        asked = await self.invites.put(invite, now)
        if asked == "refused":
            raise LimitReached("the user cannot be invited into the group now")
        if asked == "new":
            self.bus.publish(Invited(person.user, chat, inviter))
        return invite

    async def joined(self, user: UserKey, chat: ChatId) -> None:
        """Remove the open invitation, if any, of a user who has just been added to the chat."""
        if await self.rule(tenant_of(user)) != "open":
            await self.invites.remove(user, chat)

    async def ask_all(
        self, inviter: UserKey, chat: ChatId, name: str, users: Sequence[UserKey]
    ) -> None:
        """Invite several users with the role of member; skip those who cannot be invited now."""
        free = asyncio.Semaphore(INVITED_AT_ONCE)

        async def ask(user: UserKey) -> None:
            async with free:
                try:
                    await self.ask(inviter, chat, name, Person(user, "member"))
                except LimitReached:
                    return

        try:
            async with asyncio.TaskGroup() as group:
                for user in users:
                    group.create_task(ask(user))
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from None


class ListInvites(msgspec.Struct, frozen=True):
    """List a user's open invitations."""

    invites: InviteStore
    clock: Clock

    async def __call__(self, user: UserKey) -> list[Invite]:
        """Return the invitations, newest first."""
        return await self.invites.pending(user, self.clock.now())


class AcceptInvite(msgspec.Struct, frozen=True):
    """Accept an invitation and join the group."""

    invites: InviteStore
    chats: Chats
    appender: Appender
    clock: Clock

    async def __call__(self, user: UserKey, chat: ChatId) -> None:
        """Add the user to the group; do nothing if the user is already a member.

        The entry names the user as its sender.

        Raises:
            InviteNotFound: There is no invitation, it has expired, the inviter may no longer add
                members, or the group is gone.
            LimitReached: The group is full, or the user is in the maximum number of chats.
        """
        now = self.clock.now()
        # Read the membership first. A removal deletes the invitation before it removes the member,
        # so a member who is removed between these two reads cannot rejoin through the invitation.
        is_member = await self.chats.row(user, chat, now) is not None
        invite = await self.invites.get(user, chat, now)
        if invite is None and not is_member:
            raise InviteNotFound
        if invite is None:
            return
        try:
            if not is_member:
                await change(self.appender, chat, lambda state, _: _join(state, invite))
        except (InviteNotFound, ChatNotFound):
            await self.invites.remove(user, chat)
            raise InviteNotFound from None
        await self.invites.remove(user, chat)


class DeclineInvite(msgspec.Struct, frozen=True):
    """Decline an invitation; nobody can invite the user into this group for a week."""

    invites: InviteStore
    clock: Clock

    async def __call__(self, user: UserKey, chat: ChatId) -> None:
        """Decline the invitation, if there is one, without notifying anybody."""
        await self.invites.decline(user, chat, self.clock.now())


def _join(state: ChatState, invite: Invite) -> list[Entry]:
    if invite.user_id in state.members:
        return []
    inviter = state.members.get(invite.inviter)
    if inviter is None or not roles.may_add(inviter.role, invite.role):
        raise InviteNotFound
    if len(state.members) >= limits.GROUP_MEMBERS_MAX:
        raise LimitReached(f"a group has at most {limits.GROUP_MEMBERS_MAX} members")
    person = Person(invite.user_id, invite.role)
    return [Entry(chat_id=state.chat_id, kind="added", sender=invite.user_id, people=(person,))]


class StrangerBudget(msgspec.Struct, frozen=True):
    """Limits the number of strangers that a user may add per day.

    The count is in the store: all processes share it, and it survives a restart.
    """

    chats: Chats
    budgets: Budgets
    clock: Clock
    is_counting: bool = True
    """Whether strangers are counted; False if there is no limit."""

    async def among(self, user: UserKey, others: Sequence[UserKey]) -> list[UserKey]:
        """Return the users in `others` who are strangers to the user, in the given order."""
        if not others:
            return []
        known = await self.chats.acquainted(user, others)
        return [other for other in others if other not in known]

    async def spend(self, user: UserKey, count: int) -> "Spent":
        """Charge this many strangers to the user's budget, before the user adds them to a chat.

        Raises:
            RateLimited: The user may not add this many strangers today; nothing is charged.
        """
        now = self.clock.now()
        day = now // limits.DAY_MS
        ends_at = (day + 1) * limits.DAY_MS
        allowance = Allowance(
            name=f"strangers:{user}:{day}", most=limits.USER_DAY_STRANGERS_MAX, expires_at=ends_at
        )
        spent = Spent(self.budgets, allowance, count if self.is_counting else 0)
        if spent.count and await self.budgets.add(allowance, count) > allowance.most:
            await spent.give_back()
            raise RateLimited("too many strangers were added today", ends_at - now)
        return spent


class Spent(msgspec.Struct, frozen=True):
    """A charge to a user's budget, for the strangers in one request."""

    budgets: Budgets
    allowance: Allowance
    count: int

    async def give_back(self) -> None:
        """Undo the charge, because nobody was added."""
        if self.count:
            await self.budgets.add(self.allowance, -self.count)

# SPDX-License-Identifier: Apache-2.0
"""Invitations: asking strangers into a group, and their answers."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tidings.actions.chat.appender import Appender
from tidings.actions.chat.changes import change
from tidings.model import limits, roles
from tidings.model.chats import ChatState
from tidings.model.entries import Entry, Person
from tidings.model.ids import ChatId, UserKey, tenant_of
from tidings.model.invites import Invite
from tidings.model.refusals import ChatNotFound, InviteNotFound, LimitReached, RateLimited
from tidings.ports.bus import Bus, Invited
from tidings.ports.chats import Chats, InviteStore
from tidings.ports.logins import Allowance, Budgets
from tidings.ports.world import Clock

ASKED_AT_ONCE: Final = 8


@dataclass(frozen=True, slots=True)
class Invitations:
    """Asks strangers, in tenants that want them to be asked."""

    invites: InviteStore
    asks: Callable[[str], Awaitable[bool]]
    """Whether a tenant wants strangers to be asked."""
    bus: Bus
    clock: Clock

    async def must_ask(self, inviter: UserKey, strangers: Sequence[UserKey]) -> bool:
        """Whether these are asked before they are in a group."""
        return bool(strangers) and await self.asks(tenant_of(inviter))

    async def ask(self, inviter: UserKey, chat: ChatId, name: str, person: Person) -> Invite:
        """Ask one; their devices are told, but not again while the invitation waits.

        Raises:
            LimitReached: As many invitations wait for an answer as may, of all or of the inviter,
                or the user has declined not long ago. Which of these is not for others to know.
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
            raise LimitReached("the user cannot be asked into the group now")
        if asked == "new":
            self.bus.publish(Invited(person.user, chat, inviter))
        return invite

    async def joined(self, user: UserKey, chat: ChatId) -> None:
        """The user was added without being asked: what may wait for an answer waits no longer."""
        if await self.asks(tenant_of(user)):
            await self.invites.remove(user, chat)

    async def ask_all(
        self, inviter: UserKey, chat: ChatId, name: str, users: Sequence[UserKey]
    ) -> None:
        """Ask several to be members; who cannot be asked now is left out."""
        free = asyncio.Semaphore(ASKED_AT_ONCE)

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


@dataclass(frozen=True, slots=True)
class ListInvites:
    """What a user is asked."""

    invites: InviteStore
    clock: Clock

    async def __call__(self, user: UserKey) -> list[Invite]:
        """Newest first."""
        return await self.invites.pending(user, self.clock.now())


@dataclass(frozen=True, slots=True)
class AcceptInvite:
    """Join a group one was asked into."""

    invites: InviteStore
    chats: Chats
    appender: Appender
    clock: Clock

    async def __call__(self, user: UserKey, chat: ChatId) -> None:
        """The entry is the user's own: `added`, by oneself. Who is in the chat already stays.

        Raises:
            InviteNotFound: Nobody asked, or it is too long ago, or who asked may not add any more,
                or the group is gone.
            LimitReached: The group is full, or the user is in as many chats as one may be.
        """
        now = self.clock.now()
        # In this order: a member who is removed meanwhile must not come back by the invitation,
        # which is taken back before the removal.
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


@dataclass(frozen=True, slots=True)
class DeclineInvite:
    """Be asked no longer, by anybody into this group for a week."""

    invites: InviteStore
    clock: Clock

    async def __call__(self, user: UserKey, chat: ChatId) -> None:
        """Nobody is told. There need not be an invitation."""
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


@dataclass(frozen=True, slots=True)
class StrangerBudget:
    """Counts in the store: all processes share the count, and a restart forgets nothing."""

    chats: Chats
    budgets: Budgets
    clock: Clock
    is_counting: bool = True
    """False: as many as one likes."""

    async def among(self, user: UserKey, others: Sequence[UserKey]) -> list[UserKey]:
        """Those of the others who are strangers to the user, in their order."""
        if not others:
            return []
        known = await self.chats.acquainted(user, others)
        return [other for other in others if other not in known]

    async def spend(self, user: UserKey, count: int) -> "Spent":
        """Count so many strangers, before the user brings them into a chat.

        Raises:
            RateLimited: They are more than the user may bring into chats today. None is counted.
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


@dataclass(frozen=True, slots=True)
class Spent:
    """What was counted for one request."""

    budgets: Budgets
    allowance: Allowance
    count: int

    async def give_back(self) -> None:
        """Nobody was added after all."""
        if self.count:
            await self.budgets.add(self.allowance, -self.count)

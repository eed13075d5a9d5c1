# SPDX-License-Identifier: Apache-2.0
"""The scheduler in front of a store: who may ask now, and who has to wait.

It does no I/O and knows no clock. Tenants take turns, and within a tenant its users, so that one
who asks for a thousand things at once delays nobody else by more than a few of them. A user has
only a few requests at the store at a time, and only so many that wait.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final, Generic, Protocol, TypeVar

from tidings.model.refusals import RateLimited, Refusal, StoreUnavailable
from tidings.ports.requesters import Requester

DEBT_TURNS_MAX: Final = 20.0
"""Nobody sits out more turns than this, whatever a request has cost."""


class Turn:
    """One request: it waits, then it runs, then it is over."""

    __slots__ = ("_go", "_turn_away", "is_over", "is_running", "user")

    def __init__(
        self,
        user: "UserQueue",
        go: Callable[["Turn"], None],
        turn_away: Callable[[Refusal], None],
    ) -> None:
        self.user = user
        self.is_running = False
        self.is_over = False
        self._go = go
        self._turn_away = turn_away

    def start(self) -> None:
        """It is this one's turn."""
        self.is_running = True
        self._go(self)

    def turn_away(self, refusal: Refusal) -> None:
        """It was taken in, and has to make room for somebody else after all."""
        self.is_over = True
        self._turn_away(refusal)


class RingMember(Protocol):
    """Somebody in a ring."""

    debt: float
    """How many turns what it had so far has cost beyond its own."""
    is_listed: bool

    @property
    def can_go(self) -> bool:
        """Whether a request of it may start."""
        ...


M = TypeVar("M", bound=RingMember)


class Ring(Generic[M]):
    """Those who take turns. Who has been expensive sits out as many turns as that was worth."""

    def __init__(self) -> None:
        self._members: deque[M] = deque()

    def __bool__(self) -> bool:
        return bool(self._members)

    def add(self, member: M) -> None:
        """Let it take part, unless it does."""
        if not member.is_listed:
            member.is_listed = True
            self._members.append(member)

    def next(self) -> M | None:
        """Whose turn it is; None if nobody can go."""
        while self._members:
            member = self._members.popleft()
            if not member.can_go:
                member.is_listed = False
                continue
            self._members.append(member)
            if len(self._members) == 1:
                member.debt = 0.0  # nobody was kept waiting
            if member.debt < 1:
                return member
            member.debt -= 1
        return None


class UserQueue:
    """One user of a tenant, or the tenant itself."""

    __slots__ = ("at_once", "debt", "is_listed", "running", "tenant", "waiting", "who")

    def __init__(self, who: Requester, tenant: "TenantQueue", at_once: int) -> None:
        self.who = who
        self.tenant = tenant
        self.at_once = at_once
        self.waiting: deque[Turn] = deque()
        self.running = 0
        self.debt = 0.0
        self.is_listed = False

    @property
    def can_go(self) -> bool:
        return bool(self.waiting) and self.running < self.at_once


class TenantQueue:
    """All users of a tenant that ask for something now."""

    __slots__ = ("debt", "is_listed", "ring", "users", "waiting")

    def __init__(self) -> None:
        self.users: dict[str, UserQueue] = {}
        self.ring: Ring[UserQueue] = Ring()
        self.waiting = 0
        self.debt = 0.0
        self.is_listed = False

    @property
    def can_go(self) -> bool:
        return bool(self.ring)


def charge(member: RingMember, cost: float) -> None:
    """Let it sit out what a request has cost beyond the one turn that it took."""
    member.debt = min(DEBT_TURNS_MAX, member.debt + max(0.0, cost - 1.0))


class Scheduler:
    """Lets so many requests run at once, each when its turn has come."""

    def __init__(
        self, *, slots: int, user_slots: int, user_waiting_max: int, waiting_max: int
    ) -> None:
        self._slots = slots
        self._user_slots = user_slots
        self._user_waiting_max = user_waiting_max
        self._waiting_max = waiting_max
        self._tenants: dict[str, TenantQueue] = {}
        self._ring: Ring[TenantQueue] = Ring()
        self._running = 0
        self._waiting = 0

    @property
    def waiting(self) -> int:
        """How many have to wait."""
        return self._waiting

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs or waits."""
        return not (self._running or self._waiting or self._tenants)

    def enter(
        self,
        who: Requester,
        go: Callable[[Turn], None],
        turn_away: Callable[[Refusal], None],
    ) -> Turn:
        """Ask for a turn: `go` is called once, now or when it has come.

        Whoever asked has to leave again, once, whatever became of it. `turn_away` is called instead
        if the place is needed for a tenant of whose requests fewer wait.

        Raises:
            RateLimited: Too many requests of this user wait already.
            StoreUnavailable: Too many wait in all.
        """
        user = self._user(who)
        turn = Turn(user, go, turn_away)
        # Whenever a slot is free, all who wait are held back by their own bound.
        if self._running < self._slots and user.running < user.at_once:
            self._start(turn)
            return turn
        try:
            self._check_room(user)
        except Refusal:
            self._forget_if_idle(user)
            raise
        user.waiting.append(turn)
        user.tenant.waiting += 1
        self._waiting += 1
        self._list(user)
        return turn

    def leave(self, turn: Turn, cost: float = 1.0) -> None:
        """It is done, or nobody wants it any more. `cost` is in turns of ordinary requests."""
        if turn.is_over:
            return
        turn.is_over = True
        user = turn.user
        if turn.is_running:
            self._running -= 1
            user.running -= 1
            charge(user, cost)
            charge(user.tenant, cost)
            self._list(user)
        else:
            user.waiting.remove(turn)
            self._waits_no_more(user)
        self._forget_if_idle(user)
        self._start_waiting()

    def _user(self, who: Requester) -> UserQueue:
        tenant = self._tenants.get(who.tenant)
        if tenant is None:
            tenant = self._tenants[who.tenant] = TenantQueue()
        user = tenant.users.get(who.user)
        if user is None:
            user = tenant.users[who.user] = UserQueue(who, tenant, self._at_once(who))
        return user

    def _at_once(self, who: Requester) -> int:
        """The deployment's own work and a tenant's backend ask for many users at once."""
        if not who.tenant:
            return self._slots
        return self._user_slots if who.user else max(self._user_slots, self._slots // 2)

    def _check_room(self, user: UserQueue) -> None:
        if user.who.user and len(user.waiting) >= self._user_waiting_max:
            raise RateLimited("too many requests of yours are waiting")
        if self._waiting < self._waiting_max:
            return
        longest = max(self._tenants.values(), key=lambda tenant: tenant.waiting)
        if longest.waiting <= user.tenant.waiting + 1:
            raise _too_many()
        loudest = max(longest.users.values(), key=lambda one: len(one.waiting))
        newest = loudest.waiting.pop()
        self._waits_no_more(loudest)
        self._forget_if_idle(loudest)
        newest.turn_away(_too_many())

    def _waits_no_more(self, user: UserQueue) -> None:
        user.tenant.waiting -= 1
        self._waiting -= 1

    def _list(self, user: UserQueue) -> None:
        if user.can_go:
            user.tenant.ring.add(user)
            self._ring.add(user.tenant)

    def _start(self, turn: Turn) -> None:
        self._running += 1
        turn.user.running += 1
        turn.start()

    def _start_waiting(self) -> None:
        while self._running < self._slots and (tenant := self._ring.next()):
            if user := tenant.ring.next():
                turn = user.waiting.popleft()
                self._waits_no_more(user)
                self._start(turn)

    def _forget_if_idle(self, user: UserQueue) -> None:
        if user.running or user.waiting:
            return
        tenant = user.tenant
        tenant.users.pop(user.who.user, None)
        if not tenant.users:
            self._tenants.pop(user.who.tenant, None)


def _too_many() -> StoreUnavailable:
    return StoreUnavailable("too many requests are waiting")


async def wait_for_turn(scheduler: Scheduler, who: Requester, until: float | None = None) -> Turn:
    """A turn that has come; whoever gets it has to leave.

    Raises:
        TimeoutError: It has not come until this moment of the loop's time.
        RateLimited, StoreUnavailable: Too many wait.
    """
    come: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def go(_turn: Turn) -> None:
        if not come.done():
            come.set_result(None)

    def turn_away(refusal: Refusal) -> None:
        if not come.done():
            come.set_exception(refusal)

    turn = scheduler.enter(who, go, turn_away)
    try:
        if not turn.is_running:
            async with asyncio.timeout_at(until):
                await come
    except BaseException:
        scheduler.leave(turn)
        raise
    return turn


@asynccontextmanager
async def in_turn(
    scheduler: Scheduler, who: Requester, until: float | None = None
) -> AsyncIterator[None]:
    """Wait for a turn, as `wait_for_turn` does, and have it for as long as this lasts."""
    turn = await wait_for_turn(scheduler, who, until)
    try:
        yield
    finally:
        scheduler.leave(turn)

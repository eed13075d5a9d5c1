# SPDX-License-Identifier: Apache-2.0
"""The scheduler in front of a store, which decides which request runs next and which waits.

It does no I/O and reads no clock. Tenants take turns, and so do the users within a tenant. If a
user has a thousand simultaneous requests, everyone else therefore waits for only a few of them. A
user can have only a limited number of running requests and of waiting requests.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final, Generic, Protocol, TypeVar

from tidings.diagnosis import report_queue
from tidings.metrics import declared
from tidings.metrics.meters import report
from tidings.model.refusals import RateLimited, Refusal, StoreUnavailable
from tidings.ports.store import Requester

DEBT_TURNS_MAX: Final = 20.0
"""Maximum number of turns that a user or tenant has to skip after expensive requests."""


class Turn:
    """One request, which waits, then runs, then is over."""

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
        """Mark the request as running and call `go`."""
        self.is_running = True
        self._go(self)

    def turn_away(self, refusal: Refusal) -> None:
        """Refuse a waiting request, to make room for a request from another tenant."""
        self.is_over = True
        self._turn_away(refusal)


class RingMember(Protocol):
    """A user or a tenant that takes turns with the other members of a ring."""

    debt: float
    """Turns that the member still has to skip, because earlier requests cost more than a turn."""
    is_listed: bool

    @property
    def can_go(self) -> bool:
        """Whether a waiting request of this user or tenant may start."""
        ...


M = TypeVar("M", bound=RingMember)


class Ring(Generic[M]):
    """Members that take turns in order; a member whose requests were expensive skips turns."""

    def __init__(self) -> None:
        self._members: deque[M] = deque()

    def __bool__(self) -> bool:
        return bool(self._members)

    def add(self, member: M) -> None:
        """Add the member at the end, unless it is already in the ring."""
        if not member.is_listed:
            member.is_listed = True
            self._members.append(member)

    def next(self) -> M | None:
        """Return the member whose turn it is, or None if no request may start."""
        while self._members:
            member = self._members.popleft()
            if not member.can_go:
                member.is_listed = False
                continue
            self._members.append(member)
            if len(self._members) == 1:
                member.debt = 0.0  # no other member has to wait
            if member.debt < 1:
                return member
            member.debt -= 1
        return None


class UserQueue:
    """The requests of one user, or those that the tenant makes with its own key."""

    __slots__ = ("at_once", "debt", "is_listed", "requester", "running", "tenant", "waiting")

    def __init__(self, requester: Requester, tenant: "TenantQueue", at_once: int) -> None:
        self.requester = requester
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
    """The users of one tenant who have running or waiting requests."""

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
    """Make the member skip turns if a request cost more than one turn."""
    member.debt = min(DEBT_TURNS_MAX, member.debt + max(0.0, cost - 1.0))


class Scheduler:
    """Runs at most `slots` requests at once, and lets tenants and users take turns."""

    def __init__(
        self, name: str, *, slots: int, user_slots: int, user_waiting_max: int, waiting_max: int
    ) -> None:
        self._slots = slots
        self._user_slots = user_slots
        self._user_waiting_max = user_waiting_max
        self._waiting_max = waiting_max
        self._tenants: dict[str, TenantQueue] = {}
        self._ring: Ring[TenantQueue] = Ring()
        self._running = 0
        self._waiting = 0
        report_queue(name, self)
        report(self, lambda scheduler: [(declared.store_waiting, (), scheduler.waiting)])

    def depths(self) -> Mapping[str, int]:
        """Return the numbers of running requests, of waiting requests, and of their tenants."""
        return {"running": self._running, "waiting": self._waiting, "tenants": len(self._tenants)}

    @property
    def waiting(self) -> int:
        """The number of waiting requests."""
        return self._waiting

    @property
    def is_idle(self) -> bool:
        """Whether no request runs or waits."""
        return not (self._running or self._waiting or self._tenants)

    def enter(
        self,
        requester: Requester,
        go: Callable[[Turn], None],
        turn_away: Callable[[Refusal], None],
    ) -> Turn:
        """Request a turn; `go` is called once, either immediately or when the turn comes.

        `turn_away` is called instead if a tenant with fewer waiting requests needs the place in the
        queue. In either case the caller must call `leave` once.

        Raises:
            RateLimited: Too many requests of this user are already waiting.
            StoreUnavailable: Too many requests are waiting in total.
        """
        user = self._user(requester)
        turn = Turn(user, go, turn_away)
        # If a slot is free, the only waiting requests are from users who have no slot left, so
        # this request overtakes nobody who could start.
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
        """End a finished or cancelled request.

        If its `cost` is more than one turn, the user and the tenant skip turns later.
        """
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
            self._uncount_waiting(user)
        self._forget_if_idle(user)
        self._start_waiting()

    def _user(self, requester: Requester) -> UserQueue:
        tenant = self._tenants.get(requester.tenant)
        if tenant is None:
            tenant = self._tenants[requester.tenant] = TenantQueue()
        user = tenant.users.get(requester.user)
        if user is None:
            user = tenant.users[requester.user] = UserQueue(
                requester, tenant, self._at_once(requester)
            )
        return user

    def _at_once(self, requester: Requester) -> int:
        """Return how many requests of this requester may run at once.

        Background work and tenant keys may run more requests than a user, because they serve many
        users.
        """
        if not requester.tenant:
            return self._slots
        return self._user_slots if requester.user else max(self._user_slots, self._slots // 2)

    def _check_room(self, user: UserQueue) -> None:
        if user.requester.user and len(user.waiting) >= self._user_waiting_max:
            raise RateLimited("too many of your requests are waiting")
        if self._waiting < self._waiting_max:
            return
        longest = max(self._tenants.values(), key=lambda tenant: tenant.waiting)
        if longest.waiting <= user.tenant.waiting + 1:
            raise _too_many()
        busiest = max(longest.users.values(), key=lambda queue: len(queue.waiting))
        newest = busiest.waiting.pop()
        self._uncount_waiting(busiest)
        self._forget_if_idle(busiest)
        newest.turn_away(_too_many())

    def _uncount_waiting(self, user: UserQueue) -> None:
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
                self._uncount_waiting(user)
                self._start(turn)

    def _forget_if_idle(self, user: UserQueue) -> None:
        if user.running or user.waiting:
            return
        tenant = user.tenant
        tenant.users.pop(user.requester.user, None)
        if not tenant.users:
            self._tenants.pop(user.requester.tenant, None)


def _too_many() -> StoreUnavailable:
    return StoreUnavailable("too many requests are waiting")


async def wait_for_turn(
    scheduler: Scheduler, requester: Requester, until: float | None = None
) -> Turn:
    """Wait for a turn and return it; the caller must end it with `scheduler.leave`.

    Raises:
        TimeoutError: The turn did not come before `until`, a time on the event loop's clock.
        RateLimited, StoreUnavailable: Too many requests are waiting.
    """
    started: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def go(_turn: Turn) -> None:
        if not started.done():
            started.set_result(None)

    def turn_away(refusal: Refusal) -> None:
        if not started.done():
            started.set_exception(refusal)

    turn = scheduler.enter(requester, go, turn_away)
    try:
        if not turn.is_running:
            async with asyncio.timeout_at(until):
                await started
    except BaseException:
        scheduler.leave(turn)
        raise
    return turn


@asynccontextmanager
async def in_turn(
    scheduler: Scheduler, requester: Requester, until: float | None = None
) -> AsyncIterator[None]:
    """Wait for a turn like `wait_for_turn`, run the body of the context, and end the turn."""
    turn = await wait_for_turn(scheduler, requester, until)
    try:
        yield
    finally:
        scheduler.leave(turn)

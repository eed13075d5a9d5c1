# SPDX-License-Identifier: Apache-2.0
"""Turns: those who take them, and the ring in which they do."""

from collections import deque
from collections.abc import Callable
from typing import Final, Generic, Protocol, TypeVar

from tidings.model.refusals import Refusal
from tidings.ports.requesters import Requester

DEBT_TURNS_MAX: Final = 20.0
"""Nobody sits out more turns than this, whatever a request has cost."""


class Turn:
    """One request: it waits, then it runs, then it is over."""

    __slots__ = ("_go", "_turn_away", "is_over", "is_running", "user")

    def __init__(
        self,
        user: "User",
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


class Member(Protocol):
    """Somebody in a ring."""

    debt: float
    """How many turns what it had so far has cost beyond its own."""
    is_listed: bool

    @property
    def can_go(self) -> bool:
        """Whether a request of it may start."""
        ...


M = TypeVar("M", bound=Member)


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


class User:
    """One user of a tenant, or the tenant itself."""

    __slots__ = ("at_once", "debt", "is_listed", "running", "tenant", "waiting", "who")

    def __init__(self, who: Requester, tenant: "Tenant", at_once: int) -> None:
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


class Tenant:
    """All users of a tenant that ask for something now."""

    __slots__ = ("debt", "is_listed", "ring", "users", "waiting")

    def __init__(self) -> None:
        self.users: dict[str, User] = {}
        self.ring: Ring[User] = Ring()
        self.waiting = 0
        self.debt = 0.0
        self.is_listed = False

    @property
    def can_go(self) -> bool:
        return bool(self.ring)


def charge(member: Member, cost: float) -> None:
    """Let it sit out what a request has cost beyond the one turn that it took."""
    member.debt = min(DEBT_TURNS_MAX, member.debt + max(0.0, cost - 1.0))

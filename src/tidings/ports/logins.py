# SPDX-License-Identifier: Apache-2.0
"""Logging in by phone: codes that were sent, and what may be spent on sending them."""

from collections.abc import Sequence
from typing import Protocol

import msgspec


class LoginCode(msgspec.Struct, frozen=True, kw_only=True):
    """A code that was sent to a number; kept is only a keyed digest."""

    tenant: str
    phone_number: str
    digest: bytes
    expires_at: int
    asked_by: str | None = None
    """A keyed digest of the address that asked for it; None: nobody knows, or it is not counted."""


class KeptCode(msgspec.Struct, frozen=True, kw_only=True):
    """A code with the attempts that were counted."""

    code: LoginCode
    attempts: int
    attempts_elsewhere: int


class LoginCodes(Protocol):
    """The newest code of each number of a tenant. Every write is durable when it returns."""

    async def put(self, code: LoginCode) -> None:
        """Keep it, in place of an earlier one, with no attempt counted yet."""
        ...

    async def find(self, tenant: str, phone_number: str) -> KeptCode | None:
        """The newest code, expired or not; None if there is none, or if it is used."""
        ...

    async def restore(self, code: LoginCode, before: KeptCode) -> None:
        """Put `before` back in the place of `code`, with its attempts, if that is still there and
        not used."""
        ...

    async def attempt(
        self, tenant: str, phone_number: str, now: int, tried_by: str | None = None
    ) -> LoginCode | None:
        """Count an attempt from an address and return the code.

        None if there is none, if it has expired, or if `limits.CODE_ATTEMPTS_MAX` were counted
        before: however many attempts come at once, through however many processes. Also None if
        the address is not the one that asked for the code, where that is known, and
        `limits.CODE_ATTEMPTS_ELSEWHERE_MAX` of such were counted before: so whoever guesses from
        elsewhere leaves some attempts to who asked.
        """
        ...

    async def use(self, code: LoginCode) -> bool:
        """Take the code away; of all who try, one gets True."""
        ...


class Allowance(msgspec.Struct, frozen=True, kw_only=True):
    """So much of something, within a stretch of time that the name says."""

    name: str
    """What is counted and for which stretch: another stretch has another name."""
    most: int
    expires_at: int
    """When the stretch is over and the count may be forgotten."""


class Budgets(Protocol):
    """Counts that many processes share and that outlive a restart."""

    async def spend(self, allowances: Sequence[Allowance]) -> str | None:
        """Count one for each if none is used up; else count nothing and say which one is.

        At most 20 at once.
        """
        ...

    async def give_back(self, allowances: Sequence[Allowance]) -> None:
        """Take one off each again, never below zero: what it was spent on did not happen."""
        ...

    async def add(self, allowance: Allowance, count: int) -> int:
        """Count so many at once, whatever the most is; returns the sum."""
        ...

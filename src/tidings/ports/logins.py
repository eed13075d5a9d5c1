# SPDX-License-Identifier: Apache-2.0
"""Ports for login by phone: the codes that were sent, and the budgets for sending them."""

from collections.abc import Sequence
from typing import Protocol

import msgspec


class LoginCode(msgspec.Struct, frozen=True, kw_only=True):
    """A code that was sent to a phone number, stored only as a keyed digest."""

    tenant: str
    phone_number: str
    digest: bytes
    expires_at: int
    asked_by: str | None = None
    """Keyed digest of the address that requested the code; None if unknown or not counted."""


class KeptCode(msgspec.Struct, frozen=True, kw_only=True):
    """A stored code with the attempts counted so far."""

    code: LoginCode
    attempts: int
    attempts_elsewhere: int


class LoginCodes(Protocol):
    """Newest code of each phone number of a tenant. Every write is durable when it returns."""

    async def put(self, code: LoginCode) -> None:
        """Store a code in place of an earlier one, with no attempts counted."""
        ...

    async def find(self, tenant: str, phone_number: str) -> KeptCode | None:
        """Return the newest code, expired or not; None if there is none, or if it was used."""
        ...

    async def restore(self, code: LoginCode, before: KeptCode) -> None:
        """Replace `code` by `before` and its attempts, if `code` is still stored and unused."""
        ...

    async def attempt(
        self, tenant: str, phone_number: str, now: int, tried_by: str | None = None
    ) -> LoginCode | None:
        """Count an attempt from an address and return the code.

        None if there is no code, if it has expired, or if `limits.CODE_ATTEMPTS_MAX` attempts were
        counted before, even with many attempts at once through many processes. Also None if
        another address, as far as known, requested the code, and
        `limits.CODE_ATTEMPTS_ELSEWHERE_MAX` attempts from other addresses were counted before: an
        attacker who guesses from elsewhere leaves some attempts to the user.
        """
        ...

    async def use(self, code: LoginCode) -> bool:
        """Use up the code; exactly one of several callers gets True."""
        ...


class Allowance(msgspec.Struct, frozen=True, kw_only=True):
    """A limit on a count within one period of time, which is part of the name."""

    name: str
    """Name of the count and its period; the next period has another name."""
    most: int
    expires_at: int
    """When the period is over and the count may be removed."""


class Budgets(Protocol):
    """Counts that many processes share and that outlive a restart."""

    async def spend(self, allowances: Sequence[Allowance]) -> str | None:
        """Add 1 to each count if none is used up; else add nothing and return a used-up name.

        At most 20 allowances at once.
        """
        ...

    async def give_back(self, allowances: Sequence[Allowance]) -> None:
        """Subtract 1 from each count, never below zero, because what it paid for did not happen."""
        ...

    async def add(self, allowance: Allowance, count: int) -> int:
        """Add `count` at once, whatever the limit is, and return the sum."""
        ...

# SPDX-License-Identifier: Apache-2.0
"""Sessions, codes, allowances and issuers for the contract suites of identity."""

import asyncio
import itertools
from collections.abc import Awaitable, Sequence
from typing import Final, TypeVar

from tests.contract.engines import Store
from tests.contract.test_people import a_signing_key, a_tenant
from tests.support.clock import NOW
from tests.support.users import ANN
from tidings.model.ids import UserKey, ulid
from tidings.model.limits import CODE_MS, DAY_MS, SESSION_MS
from tidings.ports.people import TokenIssuer
from tidings.ports.sessions import Allowance, LoginCode, Session

PHONE: Final = "+491701234567"
OTHER_PHONE: Final = "+491709876543"

_numbers = itertools.count(1)

T = TypeVar("T")


def a_session(
    user: UserKey = ANN,
    *,
    device: str = "phone",
    created_at: int = NOW,
    expires_at: int | None = None,
) -> Session:
    """A session that was opened just then; each has another id and another refresh token."""
    number = next(_numbers)
    return Session(
        session_id=ulid(created_at, number.to_bytes(10, "big")),
        user=user,
        device=device,
        refresh_digest=number.to_bytes(32, "big"),
        created_at=created_at,
        rotated_at=created_at,
        expires_at=created_at + SESSION_MS if expires_at is None else expires_at,
    )


def a_code(
    phone_number: str = PHONE,
    *,
    tenant: str = "acme",
    digest: bytes = b"digest",
    expires_at: int = NOW + CODE_MS,
    asked_by: str | None = None,
) -> LoginCode:
    """A code that was sent."""
    return LoginCode(
        tenant=tenant,
        phone_number=phone_number,
        digest=digest,
        expires_at=expires_at,
        asked_by=asked_by,
    )


def an_allowance(name: str = "sms#all", most: int = 3) -> Allowance:
    """So much of something for a day."""
    return Allowance(name=name, most=most, expires_at=NOW + DAY_MS)


def an_issuer(tenant: str = "acme", issuer: str | None = "https://acme.example") -> TokenIssuer:
    """Keys with which a tenant signs for itself."""
    return TokenIssuer(tenant=tenant, issuer=issuer, document=b'{"keys":[]}', updated_at=NOW)


async def make_tenant(store: Store) -> None:
    """Acme, with one signing key, s1."""
    await store.tenants.put(a_tenant(), a_signing_key("s1"))


async def make_user(store: Store, user: UserKey = ANN) -> None:
    """A user of whom nothing is known."""
    await store.users.put(user, display_name=None, phone_number=None, now=NOW)


async def at_once(calls: Sequence[Awaitable[T]]) -> list[T]:
    """All of them side by side; what each returned, in the order given."""
    return list(await asyncio.gather(*calls))

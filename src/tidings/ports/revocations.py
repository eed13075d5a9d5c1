# SPDX-License-Identifier: Apache-2.0
"""The feed of revocations: what stopped counting, in an order on which all processes agree."""

from typing import Literal, Protocol

import msgspec

RevokedKind = Literal["tenant_key", "user", "tenant"]


class Revocation(msgspec.Struct, frozen=True, kw_only=True):
    """Something that may not be used any more."""

    kind: RevokedKind
    subject: str
    """The id of the tenant key, the user's key, or the tenant."""
    at: int


class Revocations(Protocol):
    """A log of its own: places 1, 2, ... without a hole, never changed.

    Whoever has read up to a place misses nothing that is appended later. `Tenants.revoke_key`
    appends by itself, together with what it revokes.
    """

    async def append(self, revocation: Revocation) -> None:
        """Put it at the end; durable when it returns.

        Raises:
            StoreUnavailable: Unknown outcome; a repeat puts it there twice, which is harmless.
        """
        ...

    async def head(self) -> int:
        """The last place; 0 if there is none. Read strongly."""
        ...

    async def after(self, place: int) -> list[Revocation]:
        """All that was appended after a place, in order, within a bound; read strongly."""
        ...

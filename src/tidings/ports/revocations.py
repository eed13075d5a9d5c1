# SPDX-License-Identifier: Apache-2.0
"""The feed of revocations: what stopped counting, in an order on which all processes agree."""

from typing import Literal, Protocol

import msgspec

RevokedKind = Literal["tenant_key", "user", "tenant", "session", "signing_key", "data_key"]


class Revocation(msgspec.Struct, frozen=True, kw_only=True):
    """Something that may not be used any more."""

    kind: RevokedKind
    subject: str
    """The id of the tenant key, session or signing key, the user's key, or the tenant.

    What a user was given after `at` counts. `data_key` is about the user whose content is erased.
    """
    at: int


class Revocations(Protocol):
    """A log of its own: places 1, 2, ... without a hole, never changed.

    Whoever has read up to a place misses nothing that is appended later. The other ports append by
    themselves, together with what they revoke, where they say so.
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

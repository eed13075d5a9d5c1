# SPDX-License-Identifier: Apache-2.0
"""Port for the ledger of erasures, which is never restored from a backup.

A store that was restored from a backup may know fewer erasures than the ledger. The erasures that
the store does not know are carried out again.
"""

from typing import Literal, Protocol

import msgspec

ErasureKind = Literal["user", "content", "chat", "inbox", "tenant"]


class LedgerEntry(msgspec.Struct, frozen=True):
    """An erasure, which no backup may undo."""

    kind: ErasureKind
    subject: str
    """Key of the user, id of the chat or of the tenant, or `tenant/inbox`."""
    at: int


class Ledger(Protocol):
    """Records the erasures of the deployment. Every write is durable when it returns."""

    async def append(self, erasure: LedgerEntry) -> None:
        """Record an erasure in the ledger, then record in the store that the store knows it.

        Both happen before the erasure itself. If a subject is erased several times, only the last
        erasure has to be kept.
        """
        ...

    async def unknown(self) -> list[LedgerEntry]:
        """Return the erasures in the ledger that the store does not know, oldest first."""
        ...

    async def note(self, erasure: LedgerEntry) -> None:
        """Record in the store that an erasure was carried out again."""
        ...

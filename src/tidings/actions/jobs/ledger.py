# SPDX-License-Identifier: Apache-2.0
"""Records erasures in the ledger, and repeats them in a store that was restored from a backup."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager

import msgspec

from tidings.ports.erasing import ErasureKind, Ledger, LedgerEntry
from tidings.ports.world import Clock

log = logging.getLogger("tidings.jobs")

Redo = Callable[[LedgerEntry], Awaitable[object]]
"""Function that carries out an erasure again."""


class Erasures(msgspec.Struct, frozen=True):
    """Records erasures in the ledger, each with the current time."""

    ledger: Ledger
    clock: Clock

    @asynccontextmanager
    async def recorded(self, kind: ErasureKind, subject: str, by: str = "") -> AsyncIterator[None]:
        """Record an erasure, which the caller carries out in this context.

        The record is durable before the context begins. The store knows of the erasure when the
        context ends, so a backup that is made meanwhile does not undo it. An erasure that fails was
        not answered and must be repeated. If the process dies, the next replay carries it out.
        """
        erasure = LedgerEntry(kind, subject, self.clock.now(), by)
        await self.ledger.append(erasure)
        try:
            yield
        finally:
            await self.ledger.finish(erasure)


class ReplayErasures(msgspec.Struct, frozen=True):
    """Carry out again the erasures of the ledger that are missing in a restored store."""

    ledger: Ledger
    redo: Mapping[ErasureKind, Redo]

    async def __call__(self) -> int:
        """Return the number of erasures that were carried out again.

        Raises:
            StoreUnavailable: Some erasures were not carried out; a repeated call continues.
        """
        erasures = await self.ledger.unknown()
        for erasure in erasures:
            await self.redo[erasure.kind](erasure)
            await self.ledger.note(erasure)
        if erasures:
            extra = {"action": "erasures_replayed", "erasures": len(erasures)}
            log.warning("the store was restored: erasures were carried out again", extra=extra)
        return len(erasures)

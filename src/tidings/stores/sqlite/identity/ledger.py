# SPDX-License-Identifier: Apache-2.0
"""The ledger of erasures beside the embedded store: a file that is not part of backups.

The table `known_erasures` is part of the store. If the store is replaced by an older one, the table
lacks the later erasures, and the file still has them.
"""

import asyncio
import errno
import logging
import os
from pathlib import Path
from typing import Final

import apsw
import msgspec

from tidings.model.refusals import StoreUnavailable
from tidings.ports.ledger import ErasureKind, Ledger, LedgerEntry
from tidings.stores.sqlite.engine.connections import Readers
from tidings.stores.sqlite.engine.writer import Writer

log = logging.getLogger("tidings.jobs")

LEDGER: Final = "erasures.jsonl"

_KNOWN: Final = "SELECT kind, subject, at FROM known_erasures ORDER BY kind, subject"
NOTE_ERASURE: Final = """
INSERT INTO known_erasures (kind, subject, at) VALUES (?, ?, ?)
ON CONFLICT DO UPDATE SET at = max(at, excluded.at)
"""

_line = msgspec.json.Decoder(LedgerEntry)


class SqliteLedger:
    """Records erasures in the file in the data folder, and in the table of the store."""

    def __init__(self, folder: Path, writer: Writer, readers: Readers) -> None:
        self._path = folder / LEDGER
        self._writer = writer
        self._readers = readers
        self._turn = asyncio.Lock()

    async def append(self, erasure: LedgerEntry) -> None:
        async with self._turn:
            try:
                await asyncio.to_thread(append_lines, self._path, [erasure])
            except OSError as error:
                extra = {"action": "ledger_unwritable"}
                log.error("the ledger cannot be written: %s", error, extra=extra)
                raise StoreUnavailable from error
        await self.note(erasure)

    async def note(self, erasure: LedgerEntry) -> None:
        def write(db: apsw.Connection) -> None:
            db.execute(NOTE_ERASURE, msgspec.structs.astuple(erasure))

        await self._writer.write(write)

    async def unknown(self) -> list[LedgerEntry]:
        known = await self._readers.read(known_erasures)
        recorded = await asyncio.to_thread(read_lines, self._path)
        times = {(each.kind, each.subject): each.at for each in known}
        missing = [e for e in recorded if times.get((e.kind, e.subject), -1) < e.at]
        return sorted(missing, key=lambda erasure: erasure.at)


def known_erasures(db: apsw.Connection) -> list[LedgerEntry]:
    """Return the erasures that the store knows, by kind and subject."""
    return [LedgerEntry(kind, subject, at) for kind, subject, at in db.execute(_KNOWN)]


def append_lines(path: Path, erasures: list[LedgerEntry]) -> None:
    """Add lines to the file, durably. A line that a crash cut off remains in the file."""
    lines = b"".join(b"\n" + msgspec.json.encode(erasure) for erasure in erasures)
    is_new = not path.exists()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    try:
        if os.write(descriptor, lines) < len(lines):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    if is_new:
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def read_lines(path: Path) -> list[LedgerEntry]:
    """Return the last erasure of each subject, without lines that were cut off."""
    last: dict[tuple[ErasureKind, str], LedgerEntry] = {}
    if not path.exists():
        return []
    for line in path.read_bytes().split(b"\n"):
        try:
            erasure = _line.decode(line)
        except msgspec.DecodeError:
            continue
        last[erasure.kind, erasure.subject] = erasure
    return list(last.values())


_conforms: type[Ledger] = SqliteLedger

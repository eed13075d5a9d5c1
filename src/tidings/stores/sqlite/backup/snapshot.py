# SPDX-License-Identifier: Apache-2.0
"""Reads a snapshot of a database page by page, while a server writes to it.

SQLite copies the pages of a snapshot into another database. That database is not a file: it passes
each page on to a function. All pages belong to one read transaction, so they are consistent,
however long the copy takes.
"""

import hashlib
import itertools
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

import apsw
import msgspec

from tidings.stores.sqlite.chat.uploads import all_uploads
from tidings.stores.sqlite.engine.connections import open_to_read

STEP_PAGES: Final = 1_000
KEY_TREES: Final = ("keys", "keys_by_master")
"""Table and index that contain the wrapped data keys of authors."""
_HEADER_BYTES: Final = 100
_LOCK_BYTE: Final = 2**30
"""Offset of the page that SQLite neither uses nor copies: other processes lock bytes in it."""
_numbers = itertools.count()


class _PageReceiver:
    """Stands for the file of a database, and passes on each page that is written to it."""

    def __init__(self, take: Callable[[int, bytes], None], page_size: int) -> None:
        self._take = take
        self._page_size = page_size
        self._first = b""

    def xRead(self, amount: int, offset: int) -> bytes:
        return self._first[offset : offset + amount]

    def xWrite(self, data: bytes, offset: int) -> None:
        if offset == 0:
            self._first = bytes(data[:_HEADER_BYTES])
        self._take(offset // self._page_size + 1, data)

    def xFileSize(self) -> int:
        return 0

    def xTruncate(self, size: int) -> None:
        """Do nothing, because the pages have been passed on."""

    def xSync(self, flags: int) -> None:
        """Do nothing, because nothing is stored here."""

    def xLock(self, level: int) -> None:
        """Do nothing, because nobody else has this database."""

    xUnlock = xLock

    def xCheckReservedLock(self) -> bool:
        return False

    def xFileControl(self, op: int, pointer: int) -> bool:
        return False

    def xDeviceCharacteristics(self) -> int:
        return 0

    def xSectorSize(self) -> int:
        return self._page_size

    def xClose(self) -> None:
        """Do nothing, because no file is open."""


class _Files(apsw.VFS):
    """Opens a page receiver instead of a file."""

    def __init__(self, name: str, receiver: _PageReceiver) -> None:
        super().__init__(name, "")
        self._receiver = receiver

    def xOpen(self, name: object, flags: list[int]) -> _PageReceiver:  # type: ignore[override]
        return self._receiver

    def xAccess(self, pathname: str, flags: int) -> bool:
        return False

    def xFullPathname(self, name: str) -> str:
        return name


class SnapshotFacts(msgspec.Struct, frozen=True):
    """What a manifest says about the snapshot."""

    schema: int
    epoch: str
    page_size: int
    pages: int
    chats: int
    entries: int
    heads: str


class Snapshot:
    """An open read transaction on a database that a server may be writing to."""

    def __init__(self, db: apsw.Connection) -> None:
        self._db = db
        self._page_size: int = db.pragma("page_size")

    def facts(self) -> SnapshotFacts:
        """Return what a manifest says about the snapshot."""
        chats, entries, heads = heads_of(self._db)
        return SnapshotFacts(
            schema=self._db.pragma("user_version"),
            epoch=str(self._db.execute("SELECT value FROM deployment WHERE name = 'epoch'").get),
            page_size=self._page_size,
            pages=self._db.pragma("page_count"),
            chats=chats,
            entries=entries,
            heads=heads,
        )

    def key_pages(self) -> set[int]:
        """Return the numbers of the pages that contain wrapped data keys."""
        marks = ", ".join("?" * len(KEY_TREES))
        rows = self._db.execute(f"SELECT pageno FROM dbstat WHERE name IN ({marks})", KEY_TREES)
        return {page for (page,) in rows}

    def file_parts(self) -> dict[str, bool]:
        """Return the keys of all parts of files, each with whether a message has the file.

        A key is the id of the attachment and the name of the part. It is empty for a store from
        before there were files.
        """
        if not self._db.execute("SELECT 1 FROM sqlite_schema WHERE name = 'uploads'").get:
            return {}
        return {
            upload.attachment_id + name: upload.chat_id is not None
            for upload in all_uploads(self._db)
            for name in upload.part_names
        }

    def copy(self, take: Callable[[int, bytes], None]) -> None:
        """Call `take` with the number and content of every page."""
        name = f"tidings-pages-{next(_numbers)}"
        receiver = _PageReceiver(take, self._page_size)
        files = _Files(name, receiver)
        try:
            with closing(apsw.Connection("pages", vfs=name)) as pages:
                pages.execute(
                    f"PRAGMA page_size = {self._page_size}; PRAGMA journal_mode = OFF;"
                    "PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE;"
                    "PRAGMA cache_size = -1024"
                ).fetchall()
                with pages.backup("main", self._db, "main") as copying:
                    while not copying.done:
                        copying.step(STEP_PAGES)
            lock_page = _LOCK_BYTE // self._page_size + 1
            if lock_page <= self._db.pragma("page_count"):
                take(lock_page, bytes(self._page_size))
        finally:
            files.unregister()


@contextmanager
def open_snapshot(folder: Path) -> Iterator[Snapshot]:
    """Open a snapshot of the store in a folder, whether or not a server uses it.

    Raises:
        SetupError: There is no store in the folder, or it cannot be read.
    """
    with open_to_read(folder) as db:
        db.execute("PRAGMA cache_size = -1024").fetchall()  # each page is read once
        db.execute("SELECT 1 FROM sqlite_schema").fetchall()  # the snapshot begins with a read
        yield Snapshot(db)


def heads_of(db: apsw.Connection) -> tuple[int, int, str]:
    """Return the number of chats and of entries, and a digest of the ends of all logs."""
    rows = db.execute(
        "SELECT chat_id, (SELECT max(sequence) FROM messages WHERE messages.chat_id = c.chat_id)"
        " FROM chats AS c ORDER BY chat_id"
    )
    digest, chats, entries = hashlib.sha256(), 0, 0
    for chat, head in rows:
        chats += 1
        entries += head or 0
        digest.update(f"{chat} {head}\n".encode())
    return chats, entries, digest.hexdigest()

# SPDX-License-Identifier: Apache-2.0
"""Storage for the state that outlives a client: positions, read marks, and the outbox."""

import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from tidings_client.errors import StorageBusy, StorageTrouble
from tidings_client.events import Attachment
from tidings_client.saved import Changes, Held, Outgoing, Saved

VERSION: Final = 4

_SCHEMA: Final = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE held (chat TEXT PRIMARY KEY, epoch TEXT NOT NULL, have INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE reads (place INTEGER PRIMARY KEY AUTOINCREMENT, chat TEXT NOT NULL UNIQUE,
    sequence INTEGER NOT NULL);
CREATE TABLE outbox (place INTEGER PRIMARY KEY AUTOINCREMENT, chat TEXT NOT NULL,
    client_message_id TEXT NOT NULL, content TEXT NOT NULL, created_at_ms INTEGER NOT NULL,
    content_type TEXT, ttl_seconds INTEGER, after_sequence INTEGER, epoch TEXT,
    reply_to INTEGER, mentions TEXT NOT NULL DEFAULT '[]', silent INTEGER NOT NULL DEFAULT 0,
    attachments TEXT NOT NULL DEFAULT '[]', UNIQUE (chat, client_message_id));
"""
_FROM_VERSION_3: Final = """
ALTER TABLE outbox ADD COLUMN attachments TEXT NOT NULL DEFAULT '[]';
"""
_FROM_VERSION_2: Final = f"""
ALTER TABLE outbox ADD COLUMN reply_to INTEGER;
ALTER TABLE outbox ADD COLUMN mentions TEXT NOT NULL DEFAULT '[]';
ALTER TABLE outbox ADD COLUMN silent INTEGER NOT NULL DEFAULT 0;
{_FROM_VERSION_3}
"""
_FROM_VERSION_1: Final = f"""
ALTER TABLE outbox ADD COLUMN after_sequence INTEGER;
ALTER TABLE outbox ADD COLUMN epoch TEXT;
{_FROM_VERSION_2}
"""
_STEPS: Final = {0: _SCHEMA, 1: _FROM_VERSION_1, 2: _FROM_VERSION_2, 3: _FROM_VERSION_3}
"""The steps to the schema of this version, from each earlier version."""


class Storage(Protocol):
    """The stored state of one client. Its methods are never called concurrently."""

    def load(self) -> Saved:
        """Open the storage, and return the saved state.

        Raises:
            StorageBusy: Another client has the storage open.
            StorageTrouble: The storage cannot be read.
        """
        ...

    def save(self, changes: Changes) -> None:
        """Save all changes or, if this raises, none of them.

        If the storage is on disk, the changes survive a power loss once this returns.

        Raises:
            StorageTrouble: The storage cannot be written.
        """
        ...

    def close(self) -> None:
        """Close the storage. This may be called without `load`, and more than once."""
        ...


class MemoryStorage:
    """Storage in memory, which is lost when the process ends; for tests and unimportant clients."""

    def __init__(self) -> None:
        self._saved = Saved()

    def load(self) -> Saved:
        """Return a copy of the saved state."""
        saved = self._saved
        return Saved(
            saved.user,
            saved.epoch,
            dict(saved.held),
            dict(saved.reads),
            list(saved.outbox),
            saved.erasures,
        )

    def save(self, changes: Changes) -> None:
        """Save the changes."""
        saved = self._saved
        saved.user = changes.user or saved.user
        if changes.epoch is not None:
            saved.epoch, saved.reads = changes.epoch, {}
        for chat, held in changes.held.items():
            saved.held.pop(chat, None)
            if held is not None:
                saved.held[chat] = held
        for chat, sequence in changes.reads.items():
            saved.reads.pop(chat, None)
            if sequence is not None:
                saved.reads[chat] = sequence
        saved.outbox = [one for one in saved.outbox if one.key not in changes.settled]
        saved.outbox += changes.posted.values()
        if changes.erasures is not None:
            saved.erasures = changes.erasures

    def close(self) -> None:
        """Do nothing."""


class FileStorage:
    """Storage in an SQLite file, which only its owner can read, and one client at a time uses."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self._database: sqlite3.Connection | None = None

    def load(self) -> Saved:
        """Open the file, or create it if there is none; return the saved state."""
        try:
            self._database = self._open()
            return _load(self._database)
        except sqlite3.OperationalError as error:
            self.close()
            if error.sqlite_errorcode == sqlite3.SQLITE_BUSY:
                raise StorageBusy(f"{self._path}: another client has it open") from None
            raise StorageTrouble(f"{self._path}: {error}") from error
        except (sqlite3.Error, OSError) as error:
            self.close()
            raise StorageTrouble(f"{self._path}: {error}") from error

    def save(self, changes: Changes) -> None:
        """Save the changes in one transaction."""
        if self._database is None:
            raise StorageTrouble(f"{self._path}: not open")
        try:
            with self._database:
                self._database.execute("BEGIN")
                _save(self._database, changes)
        except sqlite3.Error as error:
            raise StorageTrouble(f"{self._path}: {error}") from error

    def close(self) -> None:
        """Close the file."""
        database, self._database = self._database, None
        if database is not None:
            with suppress(sqlite3.Error):
                database.close()

    def _open(self) -> sqlite3.Connection:
        # Create the file before SQLite does, so that nobody else can ever read the outbox.
        os.close(os.open(self._path, os.O_CREAT | os.O_RDWR, 0o600))
        database = sqlite3.connect(
            self._path, timeout=0, isolation_level=None, check_same_thread=False
        )
        try:
            # Lock the file: two clients would overwrite each other's state.
            database.execute("PRAGMA locking_mode = EXCLUSIVE")
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = FULL")
            _prepare(database)
        except BaseException:
            database.close()
            raise
        return database


def _prepare(database: sqlite3.Connection) -> None:
    (version,) = database.execute("PRAGMA user_version").fetchone()
    if version in _STEPS:
        steps = _STEPS[version]
        database.executescript(f"BEGIN; {steps} PRAGMA user_version = {VERSION}; COMMIT;")
    elif version != VERSION:
        raise sqlite3.DatabaseError(f"made by another version ({version}) of this client")


def _load(database: sqlite3.Connection) -> Saved:
    facts = dict(database.execute("SELECT name, value FROM facts"))
    held = {
        chat: Held(epoch, have)
        for chat, epoch, have in database.execute("SELECT chat, epoch, have FROM held")
    }
    reads = dict(database.execute("SELECT chat, sequence FROM reads ORDER BY place"))
    outbox = database.execute(
        "SELECT chat, client_message_id, content, created_at_ms, content_type, ttl_seconds, "
        "after_sequence, epoch, reply_to, mentions, silent, attachments FROM outbox "
        "ORDER BY place"
    )
    erasures = facts.get("erasures")
    return Saved(
        facts.get("user"),
        facts.get("epoch"),
        held,
        reads,
        [_outgoing(row) for row in outbox],
        None if erasures is None else int(erasures),
    )


def _save(database: sqlite3.Connection, changes: Changes) -> None:
    if changes.epoch is not None:
        database.execute("DELETE FROM reads")
    facts = [("user", changes.user), ("epoch", changes.epoch), ("erasures", changes.erasures)]
    database.executemany(
        "REPLACE INTO facts VALUES (?, ?)", [fact for fact in facts if fact[1] is not None]
    )
    database.executemany(
        "DELETE FROM held WHERE chat = ?",
        [(chat,) for chat, held in changes.held.items() if held is None],
    )
    database.executemany(
        "REPLACE INTO held VALUES (?, ?, ?)",
        [(chat, held.epoch, held.have) for chat, held in changes.held.items() if held is not None],
    )
    database.executemany("DELETE FROM reads WHERE chat = ?", [(chat,) for chat in changes.reads])
    database.executemany(
        "INSERT INTO reads (chat, sequence) VALUES (?, ?)",
        [read for read in changes.reads.items() if read[1] is not None],
    )
    database.executemany(
        "DELETE FROM outbox WHERE chat = ? AND client_message_id = ?", changes.settled
    )
    database.executemany(
        "INSERT INTO outbox (chat, client_message_id, content, created_at_ms, content_type, "
        "ttl_seconds, after_sequence, epoch, reply_to, mentions, silent, attachments) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [_row(message) for message in changes.posted.values()],
    )


def _row(message: Outgoing) -> tuple[str | int | None, ...]:
    *fields, mentions, silent, attachments = msgspec.structs.astuple(message)
    texts = [msgspec.json.encode(each).decode() for each in (mentions, attachments)]
    return *fields, texts[0], silent, texts[1]


def _outgoing(row: tuple[Any, ...]) -> Outgoing:
    *fields, mentions, silent, attachments = row
    names = msgspec.json.decode(mentions, type=tuple[str, ...])
    files = msgspec.json.decode(attachments, type=tuple[Attachment, ...])
    return Outgoing(*(*fields, names, bool(silent), files))


_conforms: tuple[type[Storage], type[Storage]] = (MemoryStorage, FileStorage)

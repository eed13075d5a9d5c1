# SPDX-License-Identifier: Apache-2.0
"""Wrapped data keys, and the deployment's epoch and encrypted secrets, on SQLite."""

from typing import Any, Final

import apsw
import msgspec

from tidings.model.formats import NEWEST
from tidings.model.ids import UserKey
from tidings.ports.secrets import DataKeys, Deployment, WrappedKey
from tidings.ports.sessions import Revocation
from tidings.stores.sqlite.engine.connections import Readers
from tidings.stores.sqlite.engine.writer import Writer
from tidings.stores.sqlite.identity.sessions import revoked

_KEY: Final = "SELECT author, generation, wrapped, master_key_id FROM keys"


class SqliteDataKeys:
    """Stores wrapped data keys.

    The row of a destroyed key remains, so that its generation is never used again.
    """

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def current(self, author: UserKey) -> WrappedKey | None:
        return await self._readers.read(lambda db: _current(db, author))

    async def get(self, author: UserKey, generation: int) -> WrappedKey | None:
        return await self._readers.read(
            lambda db: _key(
                db.execute(
                    f"{_KEY} WHERE author = ? AND generation = ?", (author, generation)
                ).fetchone()
            )
        )

    async def add(self, key: WrappedKey) -> WrappedKey:
        return await self._writer.write(lambda db: _add(db, key))

    async def end(self, author: UserKey, now: int) -> int | None:
        def write(db: apsw.Connection) -> int | None:
            current = _current(db, author)
            if current is None:
                return None
            db.execute(
                "UPDATE keys SET wrapped = NULL, master_key_id = NULL WHERE author = ?", (author,)
            )
            revoked(db, Revocation(kind="data_key", subject=author, at=now))
            revoked(db, Revocation(kind="author", subject=author, at=now))
            # SQLite overwrites the key in the database, but the write-ahead log still contains it.
            self._writer.empty_log_after_commit()
            return current.generation

        return await self._writer.write(write)

    async def destroy(self, author: UserKey, generation: int, now: int) -> None:
        """Do nothing, because `end` has already destroyed the key.

        `end` can do so at once, because no other process uses the store.
        """

    async def wrapped_by_others(self, master_key_id: str, limit: int) -> list[WrappedKey]:
        def read(db: apsw.Connection) -> list[WrappedKey]:
            rows = db.execute(
                f"{_KEY} WHERE master_key_id < ?1 UNION ALL {_KEY} WHERE master_key_id > ?1"
                " LIMIT ?2",
                (master_key_id, limit),
            )
            return [key for row in rows if (key := _key(row))]

        return await self._readers.read(read)

    async def rewrap(self, keys: list[WrappedKey]) -> None:
        rows = [(key.wrapped, key.master_key_id, key.author, key.generation) for key in keys]

        def write(db: apsw.Connection) -> None:
            db.executemany(
                "UPDATE keys SET wrapped = ?, master_key_id = ?"
                " WHERE author = ? AND generation = ? AND wrapped IS NOT NULL",
                rows,
            )

        await self._writer.write(write)


class SqliteDeployment:
    """Stores the deployment's epoch and encrypted secrets."""

    def __init__(self, writer: Writer, readers: Readers, epoch: str) -> None:
        self._writer = writer
        self._readers = readers
        self._epoch = epoch

    @property
    def epoch(self) -> str:
        return self._epoch

    @property
    def writes(self) -> int:
        return NEWEST  # an older version refuses to open the database

    async def sealed(self, name: str) -> tuple[str, bytes] | None:
        return await self._readers.read(lambda db: _sealed(db, name))

    async def keep_first_sealed(
        self, name: str, master_key_id: str, sealed: bytes
    ) -> tuple[str, bytes]:
        def write(db: apsw.Connection) -> tuple[str, bytes]:
            new = (name, master_key_id, sealed)
            db.execute("INSERT OR IGNORE INTO sealed_secrets VALUES (?, ?, ?)", new)
            kept = _sealed(db, name)
            assert kept is not None, "a secret that was put exists"
            return kept

        return await self._writer.write(write)

    async def replace_sealed(
        self, name: str, before: tuple[str, bytes], master_key_id: str, sealed: bytes
    ) -> bool:
        def write(db: apsw.Connection) -> bool:
            db.execute(
                "UPDATE sealed_secrets SET master_key_id = ?, sealed = ?"
                " WHERE name = ? AND master_key_id = ? AND sealed = ?",
                (master_key_id, sealed, name, *before),
            )
            is_replaced = db.changes() > 0
            # This is the last write of a rotation of the master key. Keys that were wrapped with
            # the old master key must not remain in the write-ahead log.
            self._writer.empty_log_after_commit()
            return is_replaced

        return await self._writer.write(write)


def ensure_epoch(db: apsw.Connection) -> str:
    """Return the store's epoch; a new store gets a random one. Call this outside a transaction."""
    db.execute("INSERT OR IGNORE INTO deployment VALUES ('epoch', lower(hex(randomblob(8))))")
    return str(db.execute("SELECT value FROM deployment WHERE name = 'epoch'").get)


def renew_epoch(db: apsw.Connection) -> str:
    """Give the store a new epoch, so that clients start over; return it."""
    db.execute("UPDATE deployment SET value = lower(hex(randomblob(8))) WHERE name = 'epoch'")
    return ensure_epoch(db)


def _sealed(db: apsw.Connection, name: str) -> tuple[str, bytes] | None:
    row = db.execute(
        "SELECT master_key_id, sealed FROM sealed_secrets WHERE name = ?", (name,)
    ).fetchone()
    return (row[0], row[1]) if row else None


def _key(row: tuple[Any, ...] | None) -> WrappedKey | None:
    if row is None or row[2] is None:
        return None
    author, generation, wrapped, master_key_id = row
    return WrappedKey(
        author=author, generation=generation, wrapped=wrapped, master_key_id=master_key_id
    )


def _current(db: apsw.Connection, author: UserKey) -> WrappedKey | None:
    return _key(
        db.execute(
            f"{_KEY} WHERE author = ? ORDER BY generation DESC LIMIT 1", (author,)
        ).fetchone()
    )


def _add(db: apsw.Connection, key: WrappedKey) -> WrappedKey:
    current = _current(db, key.author)
    if current is not None:
        return current
    last = db.execute(
        "SELECT coalesce(max(generation), 0) FROM keys WHERE author = ?", (key.author,)
    ).get
    db.execute(
        "INSERT INTO keys (author, generation, wrapped, master_key_id) VALUES (?, ?, ?, ?)",
        (key.author, last + 1, key.wrapped, key.master_key_id),
    )
    return msgspec.structs.replace(key, generation=last + 1)


_conforms_keys: type[DataKeys] = SqliteDataKeys
_conforms_deployment: type[Deployment] = SqliteDeployment

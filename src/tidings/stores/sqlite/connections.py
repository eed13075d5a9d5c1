# SPDX-License-Identifier: Apache-2.0
"""Connections to the database file, all set up alike."""

from pathlib import Path

import apsw

from tidings.stores.sqlite.trouble import DISK_TROUBLE, StoreRefused

DATABASE = "tidings.db"


def connect(path: Path) -> apsw.Connection:
    """Open the file, making it if there is none; nobody but its owner may read it.

    Raises:
        StoreRefused: It cannot be opened, or is no database.
    """
    try:
        db = apsw.Connection(str(path))
        path.chmod(0o600)
        db.set_busy_timeout(5_000)
        settings = db.execute(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0;"
            "PRAGMA secure_delete = ON; PRAGMA temp_store = MEMORY; PRAGMA cache_size = -65536;"
            "PRAGMA mmap_size = 268435456"
        )
        settings.fetchall()  # a statement runs only once the rows of the one before were taken
    except DISK_TROUBLE as error:
        raise StoreRefused(f"{path} cannot be opened: {error}") from error
    return db

# SPDX-License-Identifier: Apache-2.0
"""Connections to the database file, all set up alike."""

from pathlib import Path
from typing import Final

import apsw

from tidings.stores.sqlite.trouble import DISK_TROUBLE, StoreRefused

DATABASE = "tidings.db"
SMALL_CACHE_KIB: Final = 1_024
"""Pages of the file are read where they are mapped; only those in the log are copied."""
WRITER_CACHE_KIB: Final = 8 * 1_024
"""What a few thousand messages change. Any long writing fills it, whatever its size."""


def connect(path: Path, *, cache_kib: int = SMALL_CACHE_KIB) -> apsw.Connection:
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
            "PRAGMA secure_delete = ON; PRAGMA temp_store = MEMORY;"
            f"PRAGMA cache_size = -{cache_kib}; PRAGMA mmap_size = 268435456"
        )
        settings.fetchall()  # a statement runs only once the rows of the one before were taken
    except DISK_TROUBLE as error:
        raise StoreRefused(f"{path} cannot be opened: {error}") from error
    return db

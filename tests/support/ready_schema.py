# SPDX-License-Identifier: Apache-2.0
"""Copies the schema into each new embedded store, because making it takes fifteen milliseconds.

The migrations make the schema that is copied, once for each process. A store that exists already is
migrated as usual.
"""

from functools import cache
from threading import Lock
from typing import Final

import apsw

from tidings.stores.sqlite import store
from tidings.stores.sqlite.engine import schema

_copying: Final = Lock()


def copy_schema_into_new_stores() -> None:
    """Make stores that are opened in this process from now on copy their schema if they are new."""
    vars(store).update(migrate=_migrate)


def _migrate(db: apsw.Connection) -> None:
    if not db.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall():
        with _copying, db.backup("main", _migrated(schema.MIGRATIONS), "main") as copy:
            copy.step()
    schema.migrate(db)


@cache
def _migrated(_: tuple[str, ...]) -> apsw.Connection:
    """Return a store in memory with the schema of these migrations, which a test may change."""
    made = apsw.Connection(":memory:")
    schema.migrate(made)
    return made

# SPDX-License-Identifier: Apache-2.0
"""Copies a database with the schema into the folder of each new embedded store, because making the
schema takes fifteen milliseconds.

The migrations make the database that is copied, once for each process. A store that exists already
is migrated as usual.
"""

import os
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import apsw

from tidings.stores.sqlite import store
from tidings.stores.sqlite.engine import schema
from tidings.stores.sqlite.engine.connections import DATABASE, RESTORING, connect


def copy_schema_into_new_stores(*, ready: bool = False) -> None:
    """Make stores that are opened in this process from now on copy their schema if they are new.

    If it is ready, forks of this process need not make it.
    """
    vars(store).update(connect=_connect)
    if ready:
        _migrated(schema.MIGRATIONS)


def _connect(path: Path, *, cache_kib: int | None = None) -> apsw.Connection:
    if not path.exists() and not path.with_name(RESTORING).exists():
        with suppress(OSError):  # the store itself says why it cannot be made
            _write_whole(path, _migrated(schema.MIGRATIONS))
    return connect(path) if cache_kib is None else connect(path, cache_kib=cache_kib)


def _write_whole(path: Path, content: bytes) -> None:
    """Write a new file, of which no other process sees a part, and no kill leaves one."""
    part = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        part.write_bytes(content)
        os.link(part, path)
    finally:
        part.unlink(missing_ok=True)


@cache
def _migrated(_: tuple[str, ...]) -> bytes:
    """Return the file of a store with the schema of these migrations, which a test may change."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / DATABASE
        with closing(connect(path)) as made:
            schema.migrate(made)
        return path.read_bytes()

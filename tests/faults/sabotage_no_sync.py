# SPDX-License-Identifier: Apache-2.0
"""A server that never waits for the disk: what the power-loss test exists to find.

Run in place of `python -m tidings`.
"""

import sys
from pathlib import Path

import apsw

from tidings.cli import main
from tidings.stores.sqlite import store
from tidings.stores.sqlite.engine.connections import SMALL_CACHE_KIB, connect


def connect_without_sync(path: Path, *, cache_kib: int = SMALL_CACHE_KIB) -> apsw.Connection:
    db = connect(path, cache_kib=cache_kib)
    db.execute("PRAGMA synchronous = OFF")
    return db


if __name__ == "__main__":
    vars(store)["connect"] = connect_without_sync
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""What can be wrong with a store: refused at the start, or broken while it runs."""

from typing import Final

import apsw

from tidings.stores.errors import StoreRefused as StoreRefused

DISK_TROUBLE: Final = (
    apsw.IOError,
    apsw.FullError,
    apsw.CorruptError,
    apsw.NotADBError,
    apsw.CantOpenError,
    apsw.ReadOnlyError,
    apsw.NoMemError,
    apsw.BusyError,
    apsw.ProtocolError,
)
"""Errors that say something about the disk and nothing about the statement that met them."""


class StoreBroken(Exception):
    """The disk failed under a running store. It stops: what it would say next could be untrue."""

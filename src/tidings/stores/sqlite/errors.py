# SPDX-License-Identifier: Apache-2.0
"""Errors of the embedded store: refused when it is opened, or broken while it runs."""

from typing import Final

import apsw

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
"""Errors caused by the disk or the machine, not by the statement that raised them."""


class StoreBroken(Exception):
    """The disk failed under a running store, which stops, since later answers could be wrong."""

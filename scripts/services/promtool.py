# SPDX-License-Identifier: Apache-2.0
"""Finds the programs of Prometheus: the installed ones, or those of Debian's package."""

import shutil
from pathlib import Path
from typing import Final

from scripts.services.debian import obtain_files
from scripts.services.obtaining import Unavailable

NAME: Final = "promtool"


def obtain(name: str = NAME) -> Path:
    """Return the path of a program; unpack the package of Prometheus if necessary.

    By default this is promtool, which checks alert rules. The programs are linked statically, so
    the packages on which that of Prometheus depends are not unpacked.
    """
    if (installed := shutil.which(name)) is not None:
        return Path(installed)
    found = obtain_files("prometheus", alone=True) / "usr" / "bin" / name
    if not found.is_file():
        raise Unavailable(f"the package prometheus does not contain {name}")
    return found

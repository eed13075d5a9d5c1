# SPDX-License-Identifier: Apache-2.0
"""Finds promtool, which checks alert rules: the installed program, or that of Debian's package."""

import shutil
from pathlib import Path
from typing import Final

from scripts.services.debian import obtain_files
from scripts.services.obtaining import Unavailable

NAME: Final = "promtool"


def obtain() -> Path:
    """Return the path of the program; unpack the package of Prometheus if necessary.

    The program is linked statically, so the packages on which that of Prometheus depends are not
    unpacked.
    """
    if (installed := shutil.which(NAME)) is not None:
        return Path(installed)
    found = obtain_files("prometheus", alone=True) / "usr" / "bin" / NAME
    if not found.is_file():
        raise Unavailable(f"the package prometheus does not contain {NAME}")
    return found

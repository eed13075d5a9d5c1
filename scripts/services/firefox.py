# SPDX-License-Identifier: Apache-2.0
"""Finds Firefox for tests in a browser: the installed program, or Debian's unpacked package."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from scripts.services.debian import library_path, obtain_files
from scripts.services.obtaining import FOLDER

_PACKAGE: Final = "firefox-esr"
_PROGRAM: Final = Path("usr", "lib", _PACKAGE, _PACKAGE)


def find() -> Path | None:
    """Return the path of the browser if it is installed, or was obtained before."""
    if (installed := shutil.which(_PACKAGE)) is not None:
        return Path(installed)
    unpacked = FOLDER / _PACKAGE / _PROGRAM
    return unpacked if unpacked.is_file() else None


def obtain() -> Path:
    """Return the path of the browser; unpack its package if it is not there."""
    return find() or obtain_files(_PACKAGE) / _PROGRAM


def environment(browser: Path) -> Mapping[str, str]:
    """Return the environment variables with which the browser finds its libraries."""
    return library_path(browser.parent) if FOLDER in browser.parents else {}

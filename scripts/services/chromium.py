# SPDX-License-Identifier: Apache-2.0
"""Chromium for tests in a browser: the one of this machine, or Debian's packages, unpacked."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from scripts.services.debian import library_path, obtain_program
from scripts.services.obtaining import FOLDER

NAME: Final = "Chromium"

_FONTS: Final = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "urn:fontconfig:fonts.dtd">
<fontconfig><dir>/usr/share/fonts</dir><dir>{fonts}</dir><cachedir>{cache}</cachedir></fontconfig>
"""


def obtain() -> Path:
    """Return the path of the browser itself, not of the script that starts it on a desktop."""
    script = obtain_program("chromium", "chromium", FOLDER)
    browser = script.parents[1] / "lib" / "chromium" / "chromium"
    return browser if browser.is_file() else script


def environment(browser: Path) -> Mapping[str, str]:
    """Return what tells a browser that was unpacked where its libraries and fonts are."""
    if FOLDER not in browser.parents:
        return {}
    root = FOLDER / "chromium"
    fonts = root / "fonts.conf"
    places = {"fonts": root / "usr" / "share" / "fonts", "cache": root / "fonts-cache"}
    fonts.write_text(_FONTS.format(**places))
    return {**library_path(root / "usr" / "bin" / "chromium"), "FONTCONFIG_FILE": str(fonts)}

# SPDX-License-Identifier: Apache-2.0
"""Finds Chromium for tests in a browser: the installed program, or Debian's unpacked packages."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from scripts.services.debian import library_path, obtain_files, obtain_program
from scripts.services.obtaining import FOLDER, Unavailable

NAME: Final = "Chromium"

_EMOJI: Final = "fonts-noto-color-emoji"
_FONTS: Final = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "urn:fontconfig:fonts.dtd">
<fontconfig>
<include ignore_missing="yes">/etc/fonts/fonts.conf</include>
<dir>{browser}/usr/share/fonts</dir>
<dir>{emoji}/usr/share/fonts</dir>
<cachedir>{emoji}/cache</cachedir>
</fontconfig>
"""


def obtain() -> Path:
    """Return the path of the browser itself, not of the script that starts it on a desktop."""
    script = obtain_program("chromium", "chromium", FOLDER)
    _fonts()
    browser = script.parents[1] / "lib" / "chromium" / "chromium"
    return browser if browser.is_file() else script


def environment(browser: Path) -> Mapping[str, str]:
    """Return the environment variables with which the browser finds its fonts and libraries."""
    unpacked = FOLDER / "chromium" / "usr" / "bin" / "chromium"
    libraries = library_path(unpacked) if FOLDER in browser.parents else {}
    return {**libraries, **_fonts()}


def _fonts() -> Mapping[str, str]:
    """Return the environment variables that add the fonts of the packages to those of the machine.

    Without a font for emoji, pages show boxes in their place, and nothing else changes.
    """
    try:
        emoji = obtain_files(_EMOJI)
    except Unavailable:
        return {}
    fonts = emoji / "fonts.conf"
    fonts.write_text(_FONTS.format(browser=FOLDER / "chromium", emoji=emoji))
    return {"FONTCONFIG_FILE": str(fonts)}

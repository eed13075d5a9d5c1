# SPDX-License-Identifier: Apache-2.0
"""Finds Chromium for tests in a browser: the installed program, or Debian's unpacked packages."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from scripts.services.debian import library_path, obtain_files, obtain_program
from scripts.services.obtaining import FOLDER, Unavailable

NAME: Final = "Chromium"

_SHELL: Final = "chromium-headless-shell"
_LIBRARY: Final = Path("usr/lib/chromium")
_EMOJI: Final = "fonts-noto-color-emoji"
_FONTS: Final = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "urn:fontconfig:fonts.dtd">
<fontconfig>
<include ignore_missing="yes">/etc/fonts/fonts.conf</include>
<dir>{folder}/chromium/usr/share/fonts</dir>
<dir>{folder}/{shell}/usr/share/fonts</dir>
<dir>{emoji}/usr/share/fonts</dir>
<cachedir>{emoji}/cache</cachedir>
</fontconfig>
"""


def obtain_headless() -> Path:
    """Return the path of a browser that shows no window: the one without all that is around a
    page, which needs less than half of the CPU time, or else the whole one."""
    with suppress(Unavailable):  # not every distribution has this package
        return _shell()
    return obtain()


def obtain() -> Path:
    """Return the path of the browser itself, not of the script that starts it on a desktop."""
    script = obtain_program("chromium", "chromium", FOLDER)
    _fonts()
    browser = script.parents[1] / "lib" / "chromium" / "chromium"
    return browser if browser.is_file() else script


def environment(browser: Path) -> Mapping[str, str]:
    """Return the environment variables with which the browser finds its fonts and libraries."""
    # The first parents are usr, lib and chromium.
    libraries = library_path(browser.parent) if FOLDER in browser.parents else {}
    return {**libraries, **_fonts()}


def _shell() -> Path:
    installed = Path("/") / _LIBRARY
    if (browser := installed / _SHELL).is_file():
        return browser
    unpacked = obtain_files(_SHELL) / _LIBRARY
    if installed.is_dir():
        # It shares files with the whole browser, and looks for them beside itself.
        for file in installed.iterdir():
            with suppress(FileExistsError):
                (unpacked / file.name).symlink_to(file)
    if not (browser := unpacked / _SHELL).is_file():
        raise Unavailable(f"the package {_SHELL} does not contain {browser.name}")
    _fonts()
    return browser


def _fonts() -> Mapping[str, str]:
    """Return the environment variables that add the fonts of the packages to those of the machine.

    Without a font for emoji, pages show boxes in their place, and nothing else changes.
    """
    try:
        emoji = obtain_files(_EMOJI)
    except Unavailable:
        return {}
    fonts = emoji / "fonts.conf"
    fonts.write_text(_FONTS.format(folder=FOLDER, shell=_SHELL, emoji=emoji))
    return {"FONTCONFIG_FILE": str(fonts)}

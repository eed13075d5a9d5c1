# SPDX-License-Identifier: Apache-2.0
"""Finds programs of Debian's packages: installed on this machine, or unpacked into our folder."""

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from scripts.services.obtaining import FOLDER, Unavailable, kept, program, run


def obtain_program(name: str, package: str, folder: Path = FOLDER) -> Path:
    """Return the path of the program; unpack its package if the program is not installed."""
    if (installed := shutil.which(name)) is not None:
        return Path(installed)
    unpacked = obtain_files(package, package.partition("-")[0], folder)
    for place in ("bin", "sbin"):
        if (found := unpacked / "usr" / place / name).is_file():
            return found
    raise Unavailable(f"the package {package} does not contain {name}")


def obtain_files(
    package: str, name: str | None = None, folder: Path = FOLDER, *, alone: bool = False
) -> Path:
    """Return the folder with the unpacked files of a package, without packages that are installed.

    With `alone`, the packages on which it depends are left out.
    """
    return kept(folder / (name or package), lambda part: _unpack(package, part, alone=alone), "apt")


def library_path(path: Path) -> Mapping[str, str]:
    """Return the environment variables with which an unpacked program finds its libraries."""
    if FOLDER not in path.parents:
        return {}
    libraries = {str(file.parent) for file in path.parents[2].rglob("*.so*")}
    return {"LD_LIBRARY_PATH": ":".join(sorted(libraries))}


def _unpack(package: str, folder: Path, *, alone: bool) -> None:
    """Unpack the packages that apt would install; apt verifies its downloads."""
    apt = program("apt-get")
    missing = _missing_packages(apt, package, folder)
    if wanted := [package] if alone else missing:
        run([apt, "download", *wanted], folder)
    for archive in folder.glob("*.deb"):
        run([program("dpkg-deb"), "--extract", str(archive), str(folder)], folder)
        archive.unlink()


def _missing_packages(apt: str, package: str, folder: Path) -> list[str]:
    simulate = [apt, "install", "--simulate", "--no-install-recommends", package]
    try:
        told = run(simulate, folder)
    except Unavailable:
        if os.getuid() != 0:
            raise
        run([apt, "update"], folder)  # a fresh container has no list of packages yet
        told = run(simulate, folder)
    return re.findall(r"^Inst (\S+)", told, re.MULTILINE)

# SPDX-License-Identifier: Apache-2.0
"""Programs from Debian's packages: installed on this machine, or unpacked beside us."""

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from scripts.services.obtaining import FOLDER, Unavailable, kept, program, run


def obtain_program(name: str, package: str, folder: Path = FOLDER) -> Path:
    """The program, with its libraries somewhere below the same folder if we unpacked it."""
    if (installed := shutil.which(name)) is not None:
        return Path(installed)
    unpacked = kept(folder / package.partition("-")[0], lambda part: _unpack(package, part))
    for place in ("bin", "sbin"):
        if (found := unpacked / "usr" / place / name).is_file():
            return found
    raise Unavailable(f"the package {package} holds no {name}")


def library_path(path: Path) -> Mapping[str, str]:
    """What tells a program that was unpacked where its libraries are."""
    if FOLDER not in path.parents:
        return {}
    libraries = {str(file.parent) for file in path.parents[2].rglob("*.so*")}
    return {"LD_LIBRARY_PATH": ":".join(sorted(libraries))}


def _unpack(package: str, folder: Path) -> None:
    """Unpack the packages that apt would install; it checks what it downloads."""
    apt = program("apt-get")
    for missing in _missing_packages(apt, package, folder):
        run([apt, "download", missing], folder)
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

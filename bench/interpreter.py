# SPDX-License-Identifier: Apache-2.0
"""Runs the benchmark with the fastest interpreter for the installed packages."""

import os
import sys
import sysconfig
from pathlib import Path
from typing import Final

from scripts.interpreters import fastest

CHOSEN: Final = "BENCH_INTERPRETER"
"""Environment variable that is set when the interpreter was chosen. Set it to anything to keep the
interpreter that runs the benchmark."""


def use_fastest() -> None:
    """Continue this program with a clearly faster interpreter, if there is one.

    There is none if make chose the interpreter of `.venv`.
    """
    if CHOSEN in os.environ or (found := fastest()).path == sys.executable:
        return
    packages = sysconfig.get_path("purelib")
    paths = os.pathsep.join(path for path in (os.getcwd(), *_sources(packages), packages) if path)
    environment = os.environ | {CHOSEN: found.path, "PYTHONPATH": paths}
    os.execve(found.path, [found.path, "-m", "bench", *sys.argv[1:]], environment)


def _sources(packages: str) -> list[str]:
    """Return the folders that are installed by reference, which `PYTHONPATH` does not follow."""
    files = sorted(Path(packages).glob("*.pth"))
    lines = [line for file in files for line in file.read_text().splitlines()]
    return [line for line in lines if Path(line).is_dir()]

# SPDX-License-Identifier: Apache-2.0
"""Finds the fastest interpreter on this machine for the installed packages, and runs with it.

CPython is a third faster if it was built with profile-guided optimisation. Not every build names
this among its flags: Debian's does not. Therefore each interpreter runs a small piece of Python,
and the CPU time decides.
"""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from bench.yardstick import python_ns

GAIN_MIN: Final = 0.15
"""Share of the CPU time that another interpreter has to save, so that it is used."""
CHOSEN: Final = "BENCH_INTERPRETER"
"""Environment variable that is set when the interpreter was chosen. Set it to anything to keep the
interpreter that runs the benchmark."""

_FOLDERS: Final = ("/usr/bin", "/usr/local/bin", "/opt/python/bin")
_MANAGED: Final = (".pyenv/versions/*/bin", ".local/share/uv/python/*/bin")
_ASK: Final = """\
import json, sys, sysconfig
sys.path.insert(0, sys.argv[1])
from bench.yardstick import python_ns
flags = sysconfig.get_config_var("CONFIG_ARGS") or ""
print(json.dumps({"path": sys.executable, "flags": flags, "ns": python_ns()}))
"""


class Interpreter(msgspec.Struct, frozen=True):
    """A Python of the same minor version, which can load the same packages."""

    path: str
    flags: str
    """Arguments of `configure` with which it was built."""
    ns: float
    """CPU time of a small piece of Python."""

    @property
    def build(self) -> str:
        """What is known of its optimisation, in words."""
        named = [
            name
            for flag, name in (("--enable-optimizations", "PGO"), ("--with-lto", "LTO"))
            if flag in self.flags
        ]
        return " and ".join(named) if named else "no optimisation among its build flags"


def this_interpreter() -> Interpreter:
    """Return the interpreter that runs this process."""
    flags = sysconfig.get_config_var("CONFIG_ARGS") or ""
    return Interpreter(sys.executable, flags, python_ns())


def use_fastest() -> None:
    """Continue this program with a clearly faster interpreter, if there is one."""
    if CHOSEN in os.environ:
        return
    current = this_interpreter()
    found = min(_others(), key=lambda other: other.ns, default=current)
    if found.ns > (1 - GAIN_MIN) * current.ns:
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


def _others() -> Iterator[Interpreter]:
    """Yield the other interpreters of this minor version on this machine."""
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    managed = [str(folder) for pattern in _MANAGED for folder in Path.home().glob(pattern)]
    seen = {os.path.realpath(sys.executable)}
    for folder in (*os.environ.get("PATH", "").split(os.pathsep), *_FOLDERS, *managed):
        path = shutil.which(name, path=folder)
        if path is None or os.path.realpath(path) in seen:
            continue
        seen.add(os.path.realpath(path))
        if (asked := _ask(path)) is not None:
            yield asked


def _ask(path: str) -> Interpreter | None:
    asked = [path, "-c", _ASK, os.getcwd()]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=False)
    try:
        return msgspec.convert(json.loads(done.stdout), Interpreter)
    except ValueError:
        return None  # it does not work here, or is a script that chooses among others

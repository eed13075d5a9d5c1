# SPDX-License-Identifier: Apache-2.0
"""Finds the fastest build of a version of Python on this machine, with which make creates `.venv`.

CPython is a third faster if it was built with profile-guided optimisation. Not every build names
this among its flags: Debian's does not. Therefore each interpreter runs a small piece of Python,
and the CPU time decides. A virtual machine that shares its cores may be half as fast for some
seconds; therefore the interpreters run several times in turn, and the best time of each counts.
Nothing here has to be installed.
"""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from scripts.yardstick import python_ns

GAIN_MIN: Final = 0.15
"""Share of the CPU time that another interpreter has to save, so that it is used."""

ROUNDS: Final = 5
"""How often each interpreter is measured."""

_FOLDERS: Final = ("/usr/bin", "/usr/local/bin", "/opt/python/bin")
_MANAGED: Final = (".pyenv/versions/*/bin", ".local/share/uv/python/*/bin")
_ROOT: Final = Path(__file__).parents[1]
_ASK: Final = """\
import ensurepip, json, sys, sysconfig, venv
sys.path.insert(0, sys.argv[1])
from scripts.yardstick import python_ns
flags = sysconfig.get_config_var("CONFIG_ARGS") or ""
print(json.dumps({"path": sys.executable, "flags": flags, "ns": python_ns()}))
"""


@dataclass(frozen=True)
class Interpreter:
    """A Python that can create virtual environments."""

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


def fastest() -> Interpreter:
    """Return a clearly faster interpreter of the same minor version, or this one."""
    measured = [one for _ in range(ROUNDS) for one in (this_interpreter(), *_others())]
    found = min(measured, key=lambda one: one.ns)
    current = min((one for one in measured if one.path == sys.executable), key=lambda one: one.ns)
    return found if found.ns <= (1 - GAIN_MIN) * current.ns else current


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
    asked = [path, "-c", _ASK, str(_ROOT)]
    try:
        done = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=False)
        return Interpreter(**json.loads(done.stdout))
    except (OSError, subprocess.TimeoutExpired, ValueError, TypeError):
        return None  # it does not work here, or is a script that chooses among others


if __name__ == "__main__":
    print(fastest().path)

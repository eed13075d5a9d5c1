# SPDX-License-Identifier: Apache-2.0
"""For the suite about backups: a store, a folder for its backups, and folders that fail."""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from tests.contract.builders import a_chat, append, message
from tests.contract.moving_ground import FolderPlace, Killed
from tests.support.clock import NOW, ManualClock
from tests.support.users import ANN, BOB
from tidings.ports.log import Kept
from tidings.stores.sqlite.backup.manifest import (
    Manifest,
    ManifestEnd,
    backup_ids,
    read_manifest,
)
from tidings.stores.sqlite.backup.place import BackupFolder, BackupPlace
from tidings.stores.sqlite.backup.restoring import restore
from tidings.stores.sqlite.backup.writing import BackupResult, take_backup


class Forged(Exception):
    """The signature is another one."""


class Signature:
    """Signs every digest, and knows its own signature."""

    def sign(self, sha256: str) -> tuple[str, str]:
        return "key", sha256[::-1]

    def check(self, closing: ManifestEnd) -> None:
        if (closing.master_key_id, closing.mac) != self.sign(closing.sha256):
            raise Forged


class DyingPlace(BackupFolder):
    """A place in which the n-th step kills the process: before it, or with half of a file."""

    def __init__(self, place: BackupFolder, step: int) -> None:
        super().__init__(place.folder)
        self._left = step

    def _step(self) -> None:
        self._left -= 1
        if self._left == 0:
            raise Killed

    @contextmanager
    def create(self, name: str) -> Iterator[BinaryIO]:
        self._step()
        with super().create(name) as file:
            yield file
            self._step()

    def remove(self, name: str) -> None:
        self._step()
        super().remove(name)
        self._step()


class BadDisk(BackupFolder):
    """A place that changes what it is given of one kind."""

    def __init__(self, place: BackupFolder, ending: str) -> None:
        super().__init__(place.folder)
        self._ending = ending

    @contextmanager
    def create(self, name: str) -> Iterator[BinaryIO]:
        with super().create(name) as file:
            yield file
            if name.endswith(self._ending):
                file.write(b"!")
                file.seek(0)
                file.write(b"?")


class Bench:
    """A store with one of everything, and a folder for its backups."""

    def __init__(self, folder: Path) -> None:
        self.store = FolderPlace(folder / "data")
        self.place = BackupFolder(folder / "backups")
        self.clock = ManualClock()
        self._folder = folder
        self._numbers = itertools.count()

    def back_up(self, place: BackupPlace | None = None, keep: int | None = None) -> BackupResult:
        self.clock.time += 1_000
        return take_backup(
            self.store.folder, place or self.place, Signature(), self.clock, "1.0", keep
        )

    def restored(self, manifest: Manifest, *ledgers: bytes) -> FolderPlace:
        folder = FolderPlace(self._folder / f"restored{next(self._numbers)}")
        restore(self.place, manifest, folder.folder, ledgers, NOW)
        return folder

    def manifests(self) -> list[Manifest]:
        return [read_manifest(self.place, found, Signature()) for found in backup_ids(self.place)]

    async def send(self, text: str) -> None:
        async with self.store.open() as store:
            state = await a_chat(store, ANN, BOB)
            assert await append(store, state, message(ANN, text)) == Kept()

# SPDX-License-Identifier: Apache-2.0
"""Makes a backup: stores the pages that changed since the last one, then verifies them.

The manifest is written last, after everything else is durable and verified. A backup that is killed
before leaves files that no manifest names; the next backup removes them.
"""

import hashlib
from collections import Counter
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from tidings.data_folder import keep_attachments
from tidings.model.attachments import ATTACHMENT_CHARS
from tidings.model.ids import rfc3339
from tidings.model.setup_error import SetupError
from tidings.ports.world import Clock
from tidings.stores.sqlite.backup.files import FileBackup, FileCopies, FileIndex
from tidings.stores.sqlite.backup.manifest import (
    ERASURES,
    FILES,
    FORMAT,
    INDEX,
    KEY_PAGE,
    KEYS,
    MANIFEST,
    PAGES,
    BackupDamaged,
    BackupPart,
    Manifest,
    PageIndex,
    Proof,
    backup_ids,
    digest_of,
    encode_keys,
    encode_manifest,
    read_index,
    read_manifest,
    read_part,
)
from tidings.stores.sqlite.backup.place import BackupPlace, write_out
from tidings.stores.sqlite.backup.snapshot import SnapshotFacts, open_snapshot
from tidings.stores.sqlite.engine.connections import open_to_read
from tidings.stores.sqlite.identity.erasing import LEDGER

PACKS_MAX: Final = 64
"""Maximum number of files of pages that a backup refers to. Pages of the smallest are stored
again."""
WORN_SHARE: Final = 0.5
"""If a smaller share of a file of pages is still in use, these pages are stored again, so that the
file can be removed with the older backups."""


FLUSH_PAGES: Final = 1_000
"""Number of pages after which the system begins to write them to the disk. Otherwise the sync at
the end would write all of them at once, and commits of the server would wait for it."""


class Base(msgspec.Struct):
    """The backup on which the next one builds."""

    index: PageIndex
    packs: tuple[str, ...] = ()
    """Files of pages that the next backup uses too."""
    numbers: dict[int, int] = {}
    """Maps the number of a file in the index to its number in `packs`."""
    page_size: int = 0


class BackupResult(msgspec.Struct, frozen=True):
    """A finished backup."""

    manifest: Manifest
    new_pages: int
    removed: tuple[str, ...]
    """Ids of older backups that were removed."""
    missing_files: tuple[str, ...] = ()
    """Ids of attachments of messages whose bytes the deployment lacks."""


def take_backup(
    folder: Path,
    place: BackupPlace,
    proof: Proof,
    clock: Clock,
    version: str,
    keep: int | None,
    files: FileBackup | None = None,
) -> BackupResult:
    """Back up the store in a folder; then remove all but the newest `keep` backups.

    The files of attachments are copied after the snapshot of the store, if `files` is given.
    Meanwhile the server deletes none.

    Raises:
        SetupError: There is no store in the folder, another backup into the place is running, or
            the place has backups of another deployment.
        BackupDamaged: What was written cannot be read back. Earlier backups have not changed.
    """
    with place.alone():
        remove_unused(place)
        last = _last(place)
        _refuse_another_deployment(place, last, folder, proof)
        base = _base(place, last)
        writing = _Writing(place, base, max(clock.now(), 0 if last is None else last.at + 1))
        with keep_attachments(folder):
            writing.copy(folder)
            if files is not None:
                writing.copy_files(files, read_files(place, last))
        manifest = writing.manifest(folder, version)
        verify_new(place, manifest)
        with place.create(manifest.backup_id + MANIFEST) as file:
            file.write(encode_manifest(manifest, proof))
        read_manifest(place, manifest.backup_id, proof)
        removed = _retire(place, keep)
        if files is not None:
            _retain_files(place, files)
        return BackupResult(manifest, writing.new_pages, removed, writing.missing_files)


class _Writing:
    """Writes the parts of one backup, except its manifest."""

    _of_snapshot: SnapshotFacts
    """Set by `copy`, like the three attributes below."""
    _key_pages: set[int]
    _index: PageIndex
    _file_parts: dict[str, bool]

    def __init__(self, place: BackupPlace, base: Base, now: int) -> None:
        self._place = place
        self._base = base
        self._at = now
        self._id = id_of(now)
        self._keys: dict[int, bytes] = {}
        self._files: FileCopies | None = None
        self.new_pages = 0

    @property
    def missing_files(self) -> tuple[str, ...]:
        """Ids of attachments of messages whose bytes the deployment lacks."""
        missing = () if self._files is None else self._files.missing
        # The user may have replaced the bytes of a file that is not sent.
        ids = {key[:ATTACHMENT_CHARS] for key in missing if self._file_parts[key]}
        return tuple(sorted(ids))

    def copy_files(self, files: FileBackup, base: FileIndex) -> None:
        """Copy the bytes of files that the place lacks."""
        self._files = files.copy(self._file_parts, base)

    def copy(self, folder: Path) -> None:
        """Store the pages of a snapshot that the base does not have.

        The snapshot ends before the pages are synced, because it keeps the server from restarting
        its write-ahead log.
        """
        with self._place.create(self._id + PAGES) as file:
            with open_snapshot(folder) as snapshot:
                self._of_snapshot = snapshot.facts()
                if self._of_snapshot.page_size != self._base.page_size:
                    self._base = Base(PageIndex.empty(0))
                self._key_pages = snapshot.key_pages()
                self._file_parts = snapshot.file_parts()
                self._index = PageIndex.empty(self._of_snapshot.pages)
                snapshot.copy(lambda page, data: self._take(file, page, data))

    def manifest(self, folder: Path, version: str) -> Manifest:
        """Write all other parts; return the manifest that names them."""
        ledger = folder / LEDGER
        # The ledger is read after the snapshot, so it has every erasure of the snapshot.
        erasures = self._part(ERASURES, ledger.read_bytes() if ledger.exists() else b"")
        keys = self._part(KEYS, encode_keys(self._keys))
        index = self._part(INDEX, bytes(self._index))
        new_bytes = self.new_pages * self._of_snapshot.page_size
        files = None
        if self._files is not None:
            files = self._part(FILES, bytes(self._files.index))
            new_bytes += self._files.new_bytes + files.size
        return Manifest(
            format=FORMAT,
            backup_id=self._id,
            at=self._at,
            version=version,
            **msgspec.structs.asdict(self._of_snapshot),
            packs=(*self._base.packs, self._id + PAGES),
            index=index,
            keys=keys,
            erasures=erasures,
            new_bytes=new_bytes + index.size + keys.size + erasures.size,
            files=files,
            file_parts=0 if self._files is None else len(self._files.index),
            file_bytes=0 if self._files is None else sum(r.size for r in self._files.index),
        )

    def _take(self, file: BinaryIO, page: int, data: bytes) -> None:
        digest = digest_of(data)
        if page in self._key_pages:
            self._keys[page] = bytes(data)
            self._index.put(page, digest, KEY_PAGE, 0)
            return
        if page <= len(self._base.index):
            before, pack, slot = self._base.index[page]
            number = self._base.numbers.get(pack)
            if before == digest and number is not None:
                self._index.put(page, digest, number, slot)
                return
        file.write(data)
        self._index.put(page, digest, len(self._base.packs), self.new_pages)
        self.new_pages += 1
        if self.new_pages % FLUSH_PAGES == 0:
            write_out(file)

    def _part(self, ending: str, content: bytes) -> BackupPart:
        name = self._id + ending
        with self._place.create(name) as file:
            file.write(content)
        return BackupPart(name, len(content), hashlib.sha256(content).hexdigest())


def id_of(at: int) -> str:
    """Return the id of the backup made at this time. Ids sort by time."""
    return rfc3339(at).replace("-", "").replace(":", "")


def _last(place: BackupPlace) -> Manifest | None:
    """Return the newest backup that can be read, or None."""
    for backup_id in reversed(backup_ids(place)):
        try:
            return read_manifest(place, backup_id, None)
        except BackupDamaged:
            continue
    return None


def _refuse_another_deployment(
    place: BackupPlace, last: Manifest | None, folder: Path, proof: Proof
) -> None:
    """Refuse a place whose backups this deployment must not remove.

    A restore gives a deployment another epoch, and a rotation another master key. A backup with
    another epoch and an unknown master key is therefore of another deployment.
    """
    with open_to_read(folder) as db:
        epoch = db.execute("SELECT value FROM deployment WHERE name = 'epoch'").get
    if last is None or last.epoch == epoch:
        return
    try:
        read_manifest(place, last.backup_id, proof)
    except Exception as error:  # each proof has an exception of its own
        raise SetupError(
            f"the newest backup there, {last.backup_id}, is of another deployment: use a folder or "
            "prefix of its own for each deployment"
        ) from error


def _base(place: BackupPlace, last: Manifest | None) -> Base:
    """Return what the next backup can build on. Without a usable backup it stores every page."""
    if last is None:
        return Base(PageIndex.empty(0))
    try:
        index = read_index(place, last)
    except BackupDamaged:
        return Base(PageIndex.empty(0))
    used, ends = Counter[int](), Counter[int]()
    for _, pack, slot in index:
        used[pack] += 1
        ends[pack] = max(ends[pack], slot + 1)
    slots = [place.size(name) // last.page_size for name in last.packs]
    whole = [n for n, count in enumerate(slots) if 0 < ends[n] <= count]
    good = [n for n in whole if used[n] >= WORN_SHARE * slots[n]]
    kept = sorted(sorted(good, key=lambda number: -used[number])[: PACKS_MAX - 1])
    numbers = {number: at for at, number in enumerate(kept)}
    packs = tuple(last.packs[number] for number in kept)
    return Base(index, packs, numbers, last.page_size)


def read_files(place: BackupPlace, manifest: Manifest | None) -> FileIndex:
    """Return the index of files of a backup; it is empty if it cannot be used."""
    if manifest is None or manifest.files is None:
        return FileIndex()
    try:
        return FileIndex(read_part(place, manifest.files))
    except BackupDamaged:
        return FileIndex()


def verify_new(place: BackupPlace, manifest: Manifest) -> None:
    """Read back what a backup has written, and compare the digests.

    Raises:
        BackupDamaged: A part differs from what was written.
    """
    for part in manifest.parts:
        read_part(place, part)
    index = read_index(place, manifest)
    own = len(manifest.packs) - 1
    expected = {slot: digest for digest, pack, slot in index if pack == own}
    name = manifest.packs[own]
    with place.open(name) as file:
        slot = 0
        while page := file.read(manifest.page_size):
            if slot in expected and digest_of(page) != expected.pop(slot):
                raise BackupDamaged(f"{name} was changed")
            slot += 1
    if expected:
        raise BackupDamaged(f"{name} is too short")


def _retire(place: BackupPlace, keep: int | None) -> tuple[str, ...]:
    """Remove the oldest backups, so that `keep` readable ones remain; return the removed ids."""
    ids = backup_ids(place)
    good = [backup_id for backup_id in ids if _can_be_read(place, backup_id)]
    old = [backup_id for backup_id in ids if keep and backup_id < good[-keep:][0]]
    for backup_id in old:
        place.remove(backup_id + MANIFEST)
    if old:
        remove_unused(place)
    return tuple(old)


def _retain_files(place: BackupPlace, files: FileBackup) -> None:
    """Remove the parts of files that no backup needs. Nothing is removed if an index cannot be
    read."""
    used: set[str] = set()
    for backup_id in backup_ids(place):
        try:
            manifest = read_manifest(place, backup_id, None)
            if manifest.files is not None:
                used |= {each.key for each in FileIndex(read_part(place, manifest.files))}
        except BackupDamaged:
            return
    files.retain(used)


def _can_be_read(place: BackupPlace, backup_id: str) -> bool:
    try:
        read_manifest(place, backup_id, None)
    except BackupDamaged:
        return False
    return True


def remove_unused(place: BackupPlace) -> None:
    """Remove the files that no backup needs. Nothing is removed if a manifest cannot be read."""
    used: set[str] = set()
    for backup_id in backup_ids(place):
        try:
            manifest = read_manifest(place, backup_id, None)
        except BackupDamaged:
            return
        parts = {part.name for part in manifest.parts}
        used |= {backup_id + MANIFEST, *manifest.packs, *parts}
    for name in place.names():
        if name not in used and not name.endswith(MANIFEST):
            place.remove(name)

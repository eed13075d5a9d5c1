# SPDX-License-Identifier: Apache-2.0
"""Restores a backup into an empty folder, and checks backups without restoring them.

The digest of every page is compared before the store gets its name. Until then no server opens the
folder.
"""

import os
from array import array
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import apsw
import msgspec

from tidings.data_folder import ATTACHMENTS, LOCK, MASTER_KEY, ROOT_KEY, only_process, sync_folder
from tidings.model.setup_error import SetupError
from tidings.stores.sqlite.backup.files import FileBackup, FileIndex
from tidings.stores.sqlite.backup.manifest import (
    KEY_PAGE,
    BackupDamaged,
    Manifest,
    PageIndex,
    decode_keys,
    digest_of,
    read_index,
    read_part,
)
from tidings.stores.sqlite.backup.place import BackupPlace
from tidings.stores.sqlite.backup.snapshot import KEY_TREES, heads_of
from tidings.stores.sqlite.chat.scheduled import has_table, mark_restored
from tidings.stores.sqlite.engine.connections import DATABASE, RESTORING, connect
from tidings.stores.sqlite.identity.erasing import LEDGER, append_lines, parse_lines, read_lines
from tidings.stores.sqlite.identity.secrets import renew_epoch
from tidings.stores.sqlite.inbox.escalations import end_overdue_escalations
from tidings.stores.sqlite.inbox.scheduled_notifications import mark_notifications_restored

_MAY_EXIST: Final = frozenset({LOCK, MASTER_KEY, ROOT_KEY, LEDGER, RESTORING, ATTACHMENTS})
"""Files that may be in the folder before a restore."""
_EMPTY_LEAF: Final = b"\x0a\0\0\0\0"
"""Beginning of a page of an index without entries."""
_DESTROYED_KEYS: Final = """
INSERT INTO keys (author, generation) SELECT author, max(generation) FROM (
    SELECT sender AS author, box_key AS generation FROM messages WHERE box IS NOT NULL
    UNION ALL SELECT tenant || ':*', box_key FROM notifications WHERE box IS NOT NULL
    UNION ALL SELECT tenant || ':*', box_key FROM announcements WHERE box IS NOT NULL
    UNION ALL SELECT tenant || ':*', box_key FROM export_parts {}
) GROUP BY author
"""
_SCHEDULED_KEYS: Final = "UNION ALL SELECT user_id, box_key FROM scheduled WHERE box IS NOT NULL"


class RestoreResult(msgspec.Struct, frozen=True):
    """A finished restore."""

    epoch: str
    has_keys: bool
    """False if the file of keys was missing; then all content reads as erased."""
    erasures: int
    """Number of erasures in the ledger, which the server carries out again if it has to."""
    lost_files: tuple[str, ...] = ()
    """Parts of files that the backup should have, and that are missing or were changed."""


def restore(
    place: BackupPlace,
    manifest: Manifest,
    folder: Path,
    ledgers: Iterable[bytes],
    now: int,
    files: FileBackup | None = None,
    *,
    skips_damaged: bool = False,
) -> RestoreResult:
    """Restore a backup into a folder without a store, with a new epoch.

    `ledgers` are ledgers of erasures from later than the backup, if there are any. Scheduled
    messages that were due before `now` are not sent any more. The files of attachments are restored
    if `files` is given; with `skips_damaged`, those that cannot be used are left out.

    Raises:
        SetupError: The folder is not empty.
        BackupDamaged: A part of the backup is missing or was changed; the folder has no store.
    """
    with only_process(folder):
        _refuse_used(folder)
        path = folder / RESTORING
        index = read_index(place, manifest)
        has_keys = place.size(manifest.keys.name) >= 0
        with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600), "r+b") as file:
            file.truncate(manifest.pages * manifest.page_size)
            for page, content in _pages(place, manifest, index, has_keys=has_keys):
                os.pwrite(file.fileno(), content, (page - 1) * manifest.page_size)
            os.fsync(file.fileno())
        if not has_keys:
            _forget_keys(path, manifest.page_size)
        epoch = _finish(path, manifest, now)
        erasures = _restore_ledger(place, manifest, folder, ledgers)
        lost: list[str] = []
        if files is not None and manifest.files is not None:
            parts = FileIndex(read_part(place, manifest.files))
            lost = files.restore(parts, skips_damaged=skips_damaged)
        path.rename(folder / DATABASE)
        sync_folder(folder)
        return RestoreResult(epoch, has_keys, erasures, tuple(lost))


def check_backup(place: BackupPlace, manifest: Manifest, files: FileBackup | None = None) -> None:
    """Read every part of a backup and compare its digest, with the files of attachments if `files`
    is given.

    Raises:
        BackupDamaged: A part is missing or was changed.
    """
    read_part(place, manifest.erasures)
    for _ in _pages(place, manifest, read_index(place, manifest), has_keys=True):
        pass
    if manifest.files is not None:
        parts = FileIndex(read_part(place, manifest.files))
        if files is not None:
            files.check(parts)


def _refuse_used(folder: Path) -> None:
    others = sorted({entry.name for entry in folder.iterdir()} - _MAY_EXIST)
    # The files that SQLite adds to an unfinished restore are replaced together with it.
    others = [name for name in others if not name.startswith(RESTORING)]
    if others:
        raise SetupError(
            f"{folder} is not empty (it has {others[0]}): a restore needs a folder of its own, "
            "choose another folder with --data"
        )
    for entry in folder.glob(f"{RESTORING}*"):
        entry.unlink()


def _pages(
    place: BackupPlace, manifest: Manifest, index: PageIndex, *, has_keys: bool
) -> Iterator[tuple[int, bytes]]:
    """Yield every page of a backup, after its digest was compared."""
    by_pack: list[array[int]] = [array("Q") for _ in manifest.packs]
    for page, (_, pack, slot) in enumerate(index, start=1):
        if pack != KEY_PAGE:
            by_pack[pack].append(slot << 32 | page)
    for name, places in zip(manifest.packs, by_pack, strict=True):
        yield from _of_pack(place, name, sorted(places), manifest.page_size, index)
    if has_keys:
        for page, content in decode_keys(read_part(place, manifest.keys), manifest.page_size):
            if digest_of(content) != index[page][0]:
                raise BackupDamaged(f"{manifest.keys.name} was changed")
            yield page, content


def _of_pack(
    place: BackupPlace, name: str, places: list[int], page_size: int, index: PageIndex
) -> Iterator[tuple[int, bytes]]:
    if not places:
        return
    try:
        with place.open(name) as file:
            for slot_and_page in places:
                slot, page = slot_and_page >> 32, slot_and_page & 0xFFFFFFFF
                file.seek(slot * page_size)
                content = file.read(page_size)
                if digest_of(content) != index[page][0]:
                    raise BackupDamaged(f"{name} was changed")
                yield page, content
    except OSError as error:
        raise BackupDamaged(f"{name} cannot be read: {error}") from None


def _forget_keys(path: Path, page_size: int) -> None:
    """Make the table of data keys empty, and mark the keys of all authors as destroyed."""
    with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)) as db:
        marks = ", ".join("?" * len(KEY_TREES))
        roots = db.execute(
            f"SELECT rootpage FROM sqlite_schema WHERE name IN ({marks})", KEY_TREES
        ).fetchall()
    leaf = _EMPTY_LEAF + (page_size & 0xFFFF).to_bytes(2, "big")
    with path.open("r+b") as file:
        for (root,) in roots:
            assert isinstance(root, int), "a table and an index begin at a page"
            os.pwrite(file.fileno(), leaf, (root - 1) * page_size)
    with closing(connect(path)) as db:
        has_scheduled = has_table(db)
        db.execute(_DESTROYED_KEYS.format(_SCHEDULED_KEYS if has_scheduled else ""))
        db.execute("VACUUM")  # the other pages of the table belong to nothing now


def _finish(path: Path, manifest: Manifest, now: int) -> str:
    """Compare the ends of all logs with the manifest, mark what was due before the restore, and
    give the store a new epoch."""
    with closing(connect(path)) as db:
        if heads_of(db) != (manifest.chats, manifest.entries, manifest.heads):
            raise BackupDamaged(f"the logs differ from those of {manifest.backup_id}")
        mark_restored(db, now)
        mark_notifications_restored(db, now)
        end_overdue_escalations(db, now)
        epoch = renew_epoch(db)
        db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    return epoch


def _restore_ledger(
    place: BackupPlace, manifest: Manifest, folder: Path, ledgers: Iterable[bytes]
) -> int:
    """Add the erasures of all ledgers to the ledger of the folder; return how many it has."""
    path = folder / LEDGER
    last = {(each.kind, each.subject): each for each in read_lines(path)}
    missing = {}
    for ledger in (read_part(place, manifest.erasures), *ledgers):
        for erasure in parse_lines(ledger):
            subject = (erasure.kind, erasure.subject)
            if subject not in last or last[subject].at < erasure.at:
                last[subject] = missing[subject] = erasure
    if missing:
        append_lines(path, list(missing.values()))
    return len(last)

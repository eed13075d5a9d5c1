# SPDX-License-Identifier: Apache-2.0
"""`tidings backup` and `tidings restore`: back up the embedded store, and restore a backup."""

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic
from typing import Final

from tidings import __version__
from tidings.actions.export.exporting import Unproven
from tidings.assembly.foundation import backup_proof
from tidings.assembly.system import SystemClock
from tidings.cli.backup_files import open_files, open_stored_files
from tidings.config import Config, DynamoDb
from tidings.data_folder import LAST_BACKUP, replace_private_file
from tidings.model.ids import from_rfc3339, rfc3339
from tidings.model.refusals import StoreUnavailable
from tidings.model.setup_error import SetupError, optional_import
from tidings.stores.sqlite.backup.files import FileBackup
from tidings.stores.sqlite.backup.manifest import (
    MANIFEST,
    BackupDamaged,
    Manifest,
    Proof,
    backup_ids,
    read_manifest,
    read_part,
)
from tidings.stores.sqlite.backup.place import BackupFolder, BackupPlace
from tidings.stores.sqlite.backup.restoring import RestoreResult, check_backup
from tidings.stores.sqlite.backup.restoring import restore as restore_backup
from tidings.stores.sqlite.backup.writing import BackupResult, id_of, take_backup
from tidings.stores.sqlite.engine.connections import DISK_TROUBLE
from tidings.stores.sqlite.identity.erasing import parse_lines

NICENESS: Final = 10
"""A tenth of the CPU share of a server. With less, a busy machine would take too long: the server
keeps its whole write-ahead log meanwhile."""
DAMAGED: Final = 1
"""Exit code if a backup is damaged."""
KEY_IS_ELSEWHERE: Final = (
    "The master key is NOT in the backup. Without it nobody can read the content, you included: "
    "keep a copy of it, apart from the backups."
)


def add_backup_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `tidings backup`."""
    parser.add_argument(
        "target", metavar="TARGET", help="the folder for backups, or s3://bucket/prefix"
    )
    parser.add_argument(
        "--keep",
        type=backup_count,
        metavar="N",
        help="afterwards remove all but the newest N backups (keep all)",
    )


def add_restore_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `tidings restore`."""
    parser.add_argument(
        "source", metavar="SOURCE", help="the folder with backups, or s3://bucket/prefix"
    )
    parser.add_argument("--list", action="store_true", help="list the backups, restore nothing")
    parser.add_argument(
        "--check",
        action="store_true",
        help="read every part of every backup, restore nothing; exit with 1 if one is damaged",
    )
    parser.add_argument("--backup", metavar="ID", help="the backup to restore (the newest)")
    parser.add_argument(
        "--at",
        type=_time,
        metavar="TIME",
        help="restore the newest backup made at or before this time, such as 2026-11-16T12:00:00Z",
    )
    parser.add_argument(
        "--erasures",
        metavar="FILE",
        help="the erasures.jsonl of the old data folder; the server carries out its erasures again",
    )
    parser.add_argument(
        "--skip-damaged",
        action="store_true",
        help="restore without the files of attachments that are missing or damaged in the backup",
    )
    parser.add_argument(
        "--unsigned",
        action="store_true",
        help="accept a backup without checking its signature; its checksums are still checked",
    )


def backup_count(text: str) -> int:
    """Return the number of backups to keep, from an option.

    Raises:
        argparse.ArgumentTypeError: The text is not a number, or is less than one.
    """
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of backups, 1 or more")
    return int(text)


def _time(text: str) -> int:
    try:
        return from_rfc3339(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time in RFC 3339") from None


def open_place(name: str) -> BackupPlace:
    """Return the place with this name: a folder, or a bucket such as `s3://bucket/prefix`.

    Raises:
        SetupError: A library is missing, or the name has no bucket.
    """
    if not name.startswith("s3://"):
        return BackupFolder(Path(name))
    with optional_import():
        from tidings.stores.sqlite.backup.bucket import open_bucket
    return open_bucket(name)


def backup(config: Config, options: argparse.Namespace) -> int:
    """Back up the store while the server runs; return the exit code.

    Raises:
        SetupError: The operator has to change something first.
    """
    began = monotonic()
    done = back_up(config, options.target, options.keep)
    made = done.manifest
    print(
        f"Backup {made.backup_id}: {made.chats:,} chats, {made.entries:,} entries, "
        f"{_size(made.pages * made.page_size)}, files {_size(made.file_bytes)}; wrote and verified "
        f"{_size(made.new_bytes)} in {monotonic() - began:.1f} s."
    )
    if done.missing_files:
        print(
            f"tidings: {len(done.missing_files):,} attachments have lost their bytes, "
            f"{done.missing_files[0]} among them: `tidings verify` lists them",
            file=sys.stderr,
        )
    for backup_id in done.removed:
        print(f"Removed {backup_id}.")
    print(KEY_IS_ELSEWHERE)
    return 0


def back_up(config: Config, target: str, keep: int | None) -> BackupResult:
    """Make a backup at low priority.

    Raises:
        SetupError: The operator has to change something first, or the backup failed.
    """
    if isinstance(config.store, DynamoDb):
        raise SetupError(
            "the tables on DynamoDB have point-in-time recovery and daily backups: see "
            "docs/operations/restore-dynamodb.md"
        )
    place = open_place(target)
    if isinstance(place, BackupFolder) and place.folder.resolve() == config.data.resolve():
        raise SetupError(f"{config.data} is the data folder: name another folder for the backups")
    proof = backup_proof(config)
    if proof is None:
        raise SetupError(
            "the master key is missing: without it the backup could be neither signed nor used"
        )
    with suppress(OSError):
        os.nice(NICENESS)
    with _told("the backup failed, earlier backups have not changed"):
        began_at = SystemClock().now()
        with open_files(config, target) as files:
            done = take_backup(config.data, place, proof, SystemClock(), __version__, keep, files)
    # If the clock was wrong once, the times in manifests stay ahead of it. The age must not.
    _record_time(config.data, began_at)
    return done


def _record_time(folder: Path, at: int) -> None:
    """Write down when the backup was made, so that the server can show its age."""
    try:
        replace_private_file(folder / LAST_BACKUP, rfc3339(at))
    except SetupError as reason:
        print(f"tidings: the backup is complete, but {reason}", file=sys.stderr)


def restore(config: Config, options: argparse.Namespace) -> int:
    """Restore a backup into an empty folder; or list or check backups; return the exit code.

    Raises:
        SetupError: The operator has to change something first.
    """
    place = open_place(options.source)
    proof = None if options.unsigned else backup_proof(config)
    if options.list or options.check:
        with _told("the backups cannot be listed"):
            with open_stored_files(options.source) as files:
                return _list(place, proof, files, is_checked=options.check)
    chosen = choose(place, proof, options.backup, options.at)
    began = monotonic()
    done = restore_chosen(
        config, options.source, proof, chosen, options.erasures, skips_damaged=options.skip_damaged
    )
    print(
        f"Restored {chosen.backup_id} into {config.data}: {chosen.chats:,} chats, "
        f"{chosen.entries:,} entries, in {monotonic() - began:.1f} s. "
        f"The new epoch is {done.epoch}; the ledger has {done.erasures:,} erasures."
    )
    if done.lost_files:
        print(
            f"tidings: {len(done.lost_files):,} parts of attachments could not be restored, "
            f"the first is: {done.lost_files[0]}",
            file=sys.stderr,
        )
    if not done.has_keys:
        print("tidings: the file of keys is missing: all content reads as erased", file=sys.stderr)
    if proof is None:
        print(
            "tidings: the signature was not checked. Before you start the server, give it the "
            "master key from the time of the backup",
            file=sys.stderr,
        )
    return 0


def restore_chosen(
    config: Config,
    source: str,
    proof: Proof | None,
    chosen: Manifest,
    ledger: str | None,
    *,
    skips_damaged: bool = False,
) -> RestoreResult:
    """Restore a backup with its files, the erasures of the newest backup, and those of a ledger.

    Raises:
        SetupError: The folder is not empty, the backup is damaged, or the ledger is not valid.
    """
    place = open_place(source)
    with _told(f"{chosen.backup_id} cannot be restored"):
        ledgers = [Path(ledger).read_bytes()] if ledger is not None else []
        if any(content.strip() and not parse_lines(content) for content in ledgers):
            raise SetupError(f"{ledger} is not a ledger of erasures")
        ledgers.append(_newest_ledger(place, proof))
        with open_files(config, source) as files:
            return restore_backup(
                place,
                chosen,
                config.data,
                ledgers,
                SystemClock().now(),
                files,
                skips_damaged=skips_damaged,
            )


def _newest_ledger(place: BackupPlace, proof: Proof | None) -> bytes:
    """Return the ledger of the newest backup whose ledger can be used."""
    lost: list[str] = []
    for backup_id in reversed(backup_ids(place)):
        try:
            ledger = read_part(place, read_manifest(place, backup_id, proof).erasures)
        except (BackupDamaged, Unproven) as reason:
            lost.append(f"that of {backup_id} cannot be used ({reason})")
            continue
        if lost:
            print(
                f"tidings: this has the erasures up to {backup_id}, because {lost[0]}. Without the "
                "newest erasures.jsonl (--erasures), those erased later come back",
                file=sys.stderr,
            )
        return ledger
    return b""


def choose(
    place: BackupPlace, proof: Proof | None, backup_id: str | None, at: int | None
) -> Manifest:
    """Return the manifest of the backup with this id, or of the newest one up to this time.

    Raises:
        SetupError: There is no such backup, or its manifest is damaged.
    """
    with _told("the backup cannot be used"):
        if backup_id is not None:
            return read_manifest(place, backup_id, proof)
        for found in reversed(backup_ids(place)):
            if at is None or found <= id_of(at):
                return read_manifest(place, found, proof)
    raise SetupError(
        "there is no backup" if at is None else f"there is no backup up to {rfc3339(at)}"
    )


def _list(place: BackupPlace, proof: Proof | None, files: FileBackup, *, is_checked: bool) -> int:
    damaged, found = 0, backup_ids(place)
    if not found:
        raise SetupError("there is no backup")
    for backup_id in found:
        try:
            manifest = read_manifest(place, backup_id, proof)
            if is_checked:
                check_backup(place, manifest, files)
        except (BackupDamaged, Unproven) as reason:
            if place.size(backup_id + MANIFEST) < 0:
                continue  # another backup has removed this one meanwhile
            damaged += 1
            print(f"{backup_id}  cannot be used: {reason}")
        else:
            print(_line(manifest) + ("  OK" if is_checked else ""))
    return DAMAGED if damaged else 0


def _line(manifest: Manifest) -> str:
    return (
        f"{manifest.backup_id}  {rfc3339(manifest.at)}  {manifest.chats:,} chats  "
        f"{manifest.entries:,} entries  {_size(manifest.pages * manifest.page_size)}  "
        f"files {_size(manifest.file_bytes)}  "
        f"added {_size(manifest.new_bytes)}"
    )


def _size(count: int) -> str:
    return f"{count / 1_000_000:,.1f} MB"


@contextmanager
def _told(what: str) -> Iterator[None]:
    """Turn the reasons why a backup cannot be made or used into errors for the operator."""
    try:
        yield
    except (BackupDamaged, Unproven) as reason:
        raise SetupError(f"{what}: {reason}", DAMAGED) from None
    except StoreUnavailable as reason:
        raise SetupError(f"{what}: {reason.__cause__ or reason}") from reason
    except (OSError, *DISK_TROUBLE) as error:
        raise SetupError(f"{what}: {error}") from error

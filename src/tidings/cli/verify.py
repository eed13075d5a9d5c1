# SPDX-License-Identifier: Apache-2.0
"""`tidings verify`, `repair` and `drill`: check and correct stored data, and practise a restore."""

import argparse
import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Final

import msgspec

from tidings.actions.content.wrapping import Wrapping
from tidings.actions.export.verifying import Verified, verify_all
from tidings.assembly.foundation import backup_proof, master_keys
from tidings.assembly.stores import open_blobs, open_inspection, repair_tables
from tidings.assembly.system import SystemChance, SystemClock
from tidings.cli.backup import back_up, backup_count, restore_chosen
from tidings.cli.terminal import ProgressLine
from tidings.config import Config, DynamoDb
from tidings.data_folder import LOCK, is_in_use, only_process, replace_private_file
from tidings.model.ids import ChatId, rfc3339
from tidings.model.setup_error import SetupError

if TYPE_CHECKING:
    from tidings.stores.dynamodb.export.repairing import Repaired

VIOLATED: Final = 1
"""Exit code if stored data breaks a rule."""
SHOWN_MAX: Final = 50
SCRATCH: Final = "tidings-drill-"
"""Prefix of the names of folders into which drills restore."""
_LOG_SECONDS: Final = 10.0
_SAVE_SECONDS: Final = 5.0


class Progress(msgspec.Struct, frozen=True):
    """How far a verification came."""

    epoch: str
    after: str
    violations: int = 0
    """Number of violations that were found so far."""


class Drill(msgspec.Struct, frozen=True):
    """What a drill found."""

    backup_id: str
    at: str
    chats: int
    entries: int
    database_bytes: int
    file_bytes: int
    written_bytes: int
    backup_seconds: float
    restore_seconds: float
    verify_seconds: float
    age_seconds: float
    """Age of the restored data when the drill ended."""
    violations: int


class VerifyProgress(ProgressLine):
    """Shows the progress of a verification, and stores it in a file if there is one."""

    def __init__(self, path: Path | None, epoch: str) -> None:
        super().__init__(_LOG_SECONDS)
        self._path = path
        self._epoch = epoch
        self._saved_at = monotonic()

    def __call__(self, verified: Verified) -> None:
        if self.is_due:
            self.show(f"verified {verified.facts:,} facts, {verified.chats:,} chats")
        is_old = monotonic() - self._saved_at >= _SAVE_SECONDS
        if self._path is not None and verified.after is not None and is_old:
            self._saved_at = monotonic()
            progress = Progress(self._epoch, verified.after, verified.violations)
            replace_private_file(self._path, msgspec.json.encode(progress).decode())


def add_verify_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `tidings verify`."""
    parser.add_argument(
        "--progress",
        metavar="FILE",
        help="store the progress in this file; the same command then continues after an"
        " interruption",
    )


def add_repair_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `tidings repair`."""
    parser.add_argument(
        "--yes", action="store_true", help="really give the tables a new epoch and change them"
    )


def add_drill_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `tidings drill`."""
    parser.add_argument(
        "target", metavar="TARGET", help="the folder for backups, or s3://bucket/prefix"
    )
    parser.add_argument(
        "--keep", type=backup_count, metavar="N", help="keep only the newest N backups"
    )
    parser.add_argument(
        "--scratch",
        metavar="FOLDER",
        help="where to restore; needs room for the database (the system's temporary folder)",
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def verify(config: Config, options: argparse.Namespace) -> int:
    """Check the stored data, without changing it; return the exit code.

    Raises:
        SetupError: The operator has to change something first.
        StoreUnavailable: The store does not answer; the same command continues.
    """
    began = monotonic()
    path = Path(options.progress) if options.progress else None
    verified = asyncio.run(_verify(config, _wrapping(config), path))
    if path is not None:
        path.unlink(missing_ok=True)
    print(
        f"Verified {verified.chats:,} chats, {verified.entries:,} entries, {verified.facts:,} "
        f"facts in {monotonic() - began:.1f} s: {verified.violations:,} violations."
    )
    return VIOLATED if verified.violations else 0


def _wrapping(config: Config) -> Wrapping | None:
    master = master_keys(config, SystemChance())
    if master.current is None:
        print("tidings: there is no master key, so content is not decrypted", file=sys.stderr)
        return None
    return Wrapping(master, SystemChance())


async def _verify(config: Config, wrapping: Wrapping | None, path: Path | None) -> Verified:
    blobs = open_blobs(config, SystemClock(), SystemChance())
    async with open_inspection(config) as store, blobs as files:
        verified = _reached(path, store.epoch)
        with VerifyProgress(path, store.epoch) as line:
            async for violation in verify_all(
                store,
                SystemClock().now(),
                wrapping,
                line,
                verified,
                files if config.attachments != "off" else None,
            ):
                if verified.violations <= SHOWN_MAX:
                    print(f"{violation.where}: {violation.what}")
        return verified


def _reached(path: Path | None, epoch: str) -> Verified:
    """Return how far an interrupted verification of this store came."""
    if path is None or not path.exists():
        return Verified()
    with suppress(msgspec.MsgspecError):
        progress = msgspec.json.decode(path.read_bytes(), type=Progress)
        if progress.epoch == epoch:
            print(
                f"Continuing after the chat {progress.after}, with {progress.violations:,} "
                "violations so far.",
                file=sys.stderr,
            )
            return Verified(after=ChatId(progress.after), violations=progress.violations)
    raise SetupError(f"{path} is not the progress of a verification of this store")


def repair(config: Config, options: argparse.Namespace) -> int:
    """Make restored tables on DynamoDB agree with the logs, under a new epoch.

    Raises:
        SetupError: The operator has to change something first.
        StoreUnavailable: The tables do not answer; repeat the command.
    """
    if not options.yes:
        raise SetupError(
            "this gives the tables a new epoch, so that every device starts over: stop all "
            "processes, and add --yes if you mean it"
        )
    with ProgressLine(_LOG_SECONDS) as line:

        def report(done: "Repaired") -> None:
            if line.is_due:
                line.show(f"compared {done.chats:,} chats")

        done = asyncio.run(repair_tables(config, report))
    print(
        f"Compared {done.chats:,} chats with their logs: {done.members:,} members corrected, "
        f"{done.removed:,} removed. The new epoch is {done.epoch}."
    )
    return 0


def drill(config: Config, options: argparse.Namespace) -> int:
    """Make a backup, restore it elsewhere and verify it; return the exit code.

    Raises:
        SetupError: The operator has to change something first, or the drill failed.
    """
    if isinstance(config.store, DynamoDb):
        raise SetupError(
            "a drill on DynamoDB has steps on AWS: docs/operations/restore-dynamodb.md"
        )
    if options.scratch is not None and not Path(options.scratch).is_dir():
        raise SetupError(f"{options.scratch} is not a folder: name another one with --scratch")
    with _scratch(options.scratch) as scratch:
        result = _drill(config, options.target, options.keep, scratch)
    if options.json:
        print(msgspec.json.encode(result).decode())
    else:
        print(
            f"Drill of {result.backup_id}: {result.chats:,} chats, {result.entries:,} entries, "
            f"{result.database_bytes / 1e6:,.1f} MB, files {result.file_bytes / 1e6:,.1f} MB. "
            f"Backup {result.backup_seconds:.1f} s ({result.written_bytes / 1e6:,.1f} MB written), "
            f"restore {result.restore_seconds:.1f} s, verification {result.verify_seconds:.1f} s "
            f"with {result.violations:,} violations. The logs end as in the backup. "
            f"The data is {result.age_seconds:.1f} s old."
        )
    return VIOLATED if result.violations else 0


@contextmanager
def _scratch(parent: str | None) -> Iterator[Path]:
    """Make a folder for this drill, and remove the folders of drills that were killed."""
    for left in Path(parent or tempfile.gettempdir()).glob(f"{SCRATCH}*"):
        # A drill locks its folder. In a shared folder, others may have made something of this name.
        if left.lstat().st_uid == os.getuid() and (left / LOCK).exists() and not is_in_use(left):
            shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=SCRATCH, dir=parent) as folder:
        with only_process(Path(folder)):
            yield Path(folder)


def _drill(config: Config, target: str, keep: int | None, scratch: Path) -> Drill:
    began = monotonic()
    manifest = back_up(config, target, keep).manifest
    backed_up = monotonic()
    elsewhere = _elsewhere(config, scratch / "restored")
    restore_chosen(elsewhere, target, backup_proof(config), manifest, None)
    restored = monotonic()
    verified = asyncio.run(_verify(elsewhere, _wrapping(config), None))
    return Drill(
        backup_id=manifest.backup_id,
        at=rfc3339(manifest.at),
        chats=manifest.chats,
        entries=manifest.entries,
        database_bytes=manifest.pages * manifest.page_size,
        file_bytes=manifest.file_bytes,
        written_bytes=manifest.new_bytes,
        backup_seconds=round(backed_up - began, 3),
        restore_seconds=round(restored - backed_up, 3),
        verify_seconds=round(monotonic() - restored, 3),
        age_seconds=round((SystemClock().now() - manifest.at) / 1000, 3),
        violations=verified.violations,
    )


def _elsewhere(config: Config, folder: Path) -> Config:
    """Return the settings of a deployment whose data and files are in another folder."""
    place = config.attachments
    if place != "off":
        place = msgspec.structs.replace(place, folder=None)
    return msgspec.structs.replace(config, data=folder, attachments=place, blobs=None)

# SPDX-License-Identifier: Apache-2.0
"""Checks of the settings, the data folder, the disk, the clock, and the limits of processes."""

import os
import stat
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final

from tidings.data_folder import LAST_BACKUP, LOCK, MASTER_KEY, ROOT_KEY, is_in_use
from tidings.doctor.findings import Finding, Subject, fault, fine, unknown, warning
from tidings.model.ids import from_rfc3339
from tidings.model.limits import SECOND_MS
from tidings.stores.sqlite.engine.connections import DATABASE

MIB: Final = 1_048_576
FREE_BYTES_MIN: Final = 256 * MIB
"""Room for the write-ahead log, which grows to 70 MiB, and for what is written meanwhile."""
FREE_BYTES_WANTED: Final = 1_024 * MIB
FREE_FILES_MIN: Final = 1_000
SYNC_SECONDS_SLOW: Final = 0.020
SYNC_SECONDS_MAX: Final = 0.200
"""If a flush takes longer than this, people notice that messages wait for the disk."""
CLOCK_MS_MAX: Final = 10 * SECOND_MS
"""Tokens allow for this difference between clocks."""
BACKUP_HOURS_MAX: Final = 26
FILES_WANTED: Final = 10_000
FILES_USED_MAX: Final = 0.8
_SHARED: Final = (
    "nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "ceph", "lustre", "afs", "fuse.sshfs",
    "fuse.glusterfs", "fuse.s3fs", "fuse.gcsfuse",
)  # fmt: skip
_IN_MEMORY: Final = ("tmpfs", "ramfs")
_HOUR_MS: Final = 3_600 * SECOND_MS


async def look_at_settings(subject: Subject) -> AsyncIterator[Finding]:
    """Check settings that are valid and yet wrong for a deployment."""
    config = subject.config
    if config.process.failpoints:
        yield fault("TIDINGS_FAILPOINTS ends the server on purpose", "unset it: it is for tests")
    if not config.network.has_limits:
        yield warning("rate limits are off", "remove TIDINGS_LIMITS=off")
    if config.network.is_public and config.sms_per_day == 0 and config.sms != "off":
        yield warning(
            "TIDINGS_SMS_PER_DAY is 0, so nobody can log in by phone",
            "set it to the number of texts that you are ready to pay for, or TIDINGS_SMS=off",
        )
    yield fine("the settings are valid")


async def look_at_files(subject: Subject) -> AsyncIterator[Finding]:
    """Check who owns and who may read the files of the data folder."""
    folder = subject.config.data
    if not folder.exists():
        yield fine(f"{folder} does not exist yet: the first start creates it")
        return
    state = folder.stat()
    wrong = [*_readable_by_others(folder, state), *_of_another_owner(folder, state.st_uid)]
    for finding in wrong:
        yield finding
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        yield fault(
            f"this user may not write to {folder}",
            "run the doctor as the user of the server, or give that user the folder with chown",
        )
    elif not wrong:
        yield fine(f"only its owner can read {folder}")


def _readable_by_others(folder: Path, state: os.stat_result) -> Iterator[Finding]:
    if state.st_mode & 0o077:
        mode = stat.S_IMODE(state.st_mode)
        yield warning(f"others may enter {folder} (mode {mode:04o})", f"chmod 700 {folder}")
    for path in _files(folder):
        if not path.lstat().st_mode & 0o077 or path.name == LOCK or path.is_dir():
            continue
        if path.name in (MASTER_KEY, ROOT_KEY):
            yield fault(
                f"others may read {path}, so the server does not start",
                f"use a new key if somebody may have read it; otherwise: chmod 600 {path}",
            )
        elif path.name.startswith(DATABASE):
            yield warning(f"others may read {path}", f"chmod 600 {path}")


def _of_another_owner(folder: Path, owner: int) -> Iterator[Finding]:
    strange = [path.name for path in _files(folder) if path.lstat().st_uid != owner]
    if strange:
        yield fault(
            f"{', '.join(strange)} in {folder} do not belong to the owner of the folder, which "
            "happens if a command runs as root",
            f"chown --recursive --reference={folder} {folder}",
        )


def _files(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except PermissionError:
        return []


async def look_at_disk(subject: Subject) -> AsyncIterator[Finding]:
    """Check the file system of the data folder, its free space, and the time of a flush."""
    folder, machine = subject.config.data, subject.machine
    if not folder.exists():
        yield unknown(f"{folder} does not exist yet, so its disk was not examined")
        return
    for finding in (*_kind_of_disk(subject), *_free_space(subject)):
        yield finding
    try:
        seconds = machine.sync_seconds(folder)
    except OSError as error:
        yield fault(
            f"{folder} cannot be written: {error.strerror}",
            "look at the disk with dmesg and at the rights of the folder; a failed flush means "
            "that the disk must be checked before the next start",
        )
        return
    told = f"a flush to the disk takes {seconds * 1_000:.1f} ms"
    cure = "use a local SSD, and look for other programs that write to it (iostat -x 1)"
    if seconds > SYNC_SECONDS_MAX:
        yield fault(told, cure)
    elif seconds > SYNC_SECONDS_SLOW:
        yield warning(told, cure)
    else:
        yield fine(told)


def _kind_of_disk(subject: Subject) -> Iterator[Finding]:
    folder, kind = subject.config.data, subject.machine.file_system(subject.config.data)
    if kind in _SHARED:
        yield fault(
            f"{folder} is on a network file system ({kind}), where locks and the write-ahead log "
            "do not work",
            "move the folder to a local disk, or the data to DynamoDB",
        )
    elif kind in _IN_MEMORY:
        yield fault(
            f"{folder} is in memory ({kind}): a restart of the machine deletes it",
            "move the folder to a disk",
        )
    else:
        yield fine(f"the file system is {kind or 'not known'}")


def _free_space(subject: Subject) -> Iterator[Finding]:
    folder = subject.config.data
    free, files = subject.machine.free_bytes(folder), subject.machine.free_files(folder)
    told = f"{free / MIB:,.0f} MiB are free for {folder}"
    cure = "free some space or use a larger disk; when the disk is full, the server stops"
    database = folder / DATABASE
    used = database.stat().st_size if database.exists() else 0
    if free < FREE_BYTES_MIN:
        yield fault(told, cure)
    elif free < max(FREE_BYTES_WANTED, used // 4):
        yield warning(told, cure)
    else:
        yield fine(told)
    if files is not None and files < FREE_FILES_MIN:
        yield fault(f"only {files:,} files can still be created on the disk of {folder}", cure)


async def look_at_clock(subject: Subject) -> AsyncIterator[Finding]:
    """Check that something synchronises the clock, and that it did not go back."""
    folder, now = subject.config.data, subject.clock.now()
    database = folder / DATABASE
    written = [path for path in (database, Path(f"{database}-wal")) if path.exists()]
    newest = max((path.stat().st_mtime_ns // 1_000_000 for path in written), default=0)
    if newest > now + CLOCK_MS_MAX:
        yield fault(
            f"the store was written {(newest - now) / SECOND_MS:,.0f} s in the future: the clock "
            "was or is wrong",
            "set the clock (timedatectl), then look at docs/operations/failure.md#the-clock-jumps",
        )
    match subject.machine.is_clock_synchronised():
        case None:
            yield unknown("the kernel does not say whether its clock is synchronised")
        case False:
            yield warning(
                "nothing synchronises the clock of this machine",
                "run chrony or systemd-timesyncd: timedatectl set-ntp true",
            )
        case True:
            yield fine("the clock is synchronised")


async def look_at_limits(subject: Subject) -> AsyncIterator[Finding]:
    """Check how many files the server may open, and how many it has open."""
    pid = server_pid(subject.config.data)
    try:
        used, limit = subject.machine.open_files(pid)
    except OSError as error:
        yield unknown(f"the limits of process {pid} cannot be read: {error.strerror}")
        return
    cure = "set LimitNOFILE=65536 in the unit (or `ulimit -n 65536`), and restart the server"
    whose = "the server" if pid is not None else "a server started from here"
    if used is not None and used > FILES_USED_MAX * limit:
        yield fault(f"the server has {used:,} of {limit:,} files open", cure)
    elif limit < FILES_WANTED:
        yield warning(f"{whose} may open {limit:,} files, one for each connection", cure)
    else:
        yield fine(f"{whose} may open {limit:,} files")


def server_pid(folder: Path) -> int | None:
    """Return the id of the process that has the folder open; None if there is none."""
    if not is_in_use(folder):
        return None
    text = (folder / LOCK).read_text().strip()
    return int(text) if text.isdecimal() else None


async def look_at_backups(subject: Subject) -> AsyncIterator[Finding]:
    """Check the age of the newest backup of the embedded store."""
    folder = subject.config.data
    cure = "run `tidings backup TARGET` every night: docs/operations/backup.md"
    if not (folder / DATABASE).exists():
        yield fine("there is nothing to back up yet")
        return
    try:
        age = subject.clock.now() - from_rfc3339((folder / LAST_BACKUP).read_text().strip())
    except FileNotFoundError:
        yield warning("this data folder was never backed up", cure)
        return
    except (OSError, ValueError) as error:
        yield unknown(f"{folder / LAST_BACKUP} cannot be read: {error}")
        return
    told = f"the newest backup is {age / _HOUR_MS:,.1f} hours old"
    yield warning(told, cure) if age > BACKUP_HOURS_MAX * _HOUR_MS else fine(told)

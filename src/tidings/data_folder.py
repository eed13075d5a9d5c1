# SPDX-License-Identifier: Apache-2.0
"""Reads and writes private files in a data folder, and locks the folder for one process."""

import contextlib
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tidings.model.ids import from_rfc3339
from tidings.model.setup_error import SetupError

LOCK: Final = "lock"
MASTER_KEY: Final = "master.key"
ROOT_KEY: Final = "root.key"
ATTACHMENTS: Final = "attachments"
"""Folder with the bytes of attachments, here and among backups."""
SERVER_FILE: Final = "server.json"
"""File with the URL of the server that has the folder open, for commands."""
ATTACHMENTS_LOCK: Final = "attachments.lock"
"""File that a backup locks, so that no attachment is deleted before it is copied."""
LAST_BACKUP: Final = "last-backup"
"""File with the time of the newest backup, for the metrics of the server."""

_OWNER_ONLY: Final = 0o600
_FILE_BYTES_MAX: Final = 65_536


def is_in_use(folder: Path) -> bool:
    """Return True if a process holds the folder's lock."""
    try:
        with (folder / LOCK).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


@contextmanager
def only_process(folder: Path) -> Iterator[None]:
    """Hold the folder's lock inside this context.

    The kernel releases the lock when the process ends, even after SIGKILL.

    Raises:
        SetupError: Another process holds the lock.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with open(folder / LOCK, "a+", opener=_open_itself) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            raise SetupError(
                f"{folder} is in use by another Tidings process (pid {lock.read().strip()}): "
                "stop that process first, or choose another folder with --data"
            ) from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield


@contextmanager
def keep_attachments(folder: Path) -> Iterator[None]:
    """Let nobody delete the bytes of attachments inside this context, which a backup uses.

    This waits until a deletion that has begun is over.
    """
    with open(folder / ATTACHMENTS_LOCK, "a+", opener=_open_itself) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


class AttachmentsLock:
    """Lets the bytes of attachments be deleted only while no backup is made."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextmanager
    def deleting(self) -> Iterator[bool]:
        """Yield whether bytes may be deleted; no backup begins before the context ends."""
        with open(self._folder / ATTACHMENTS_LOCK, "a+", opener=_open_itself) as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            yield True


def _open_itself(path: str, flags: int) -> int:
    """Open a file, but not the target of a link: another user may have made the link."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


def last_backup_at(folder: Path) -> int | None:
    """Return the time of the newest backup of a folder; None if there is none."""
    with contextlib.suppress(OSError, ValueError):
        return from_rfc3339((folder / LAST_BACKUP).read_text())
    return None


def read_private_file(path: Path) -> str | None:
    """Return the text of a file; None if the file does not exist.

    Raises:
        SetupError: Others may read or change the file, or the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            state = os.fstat(file.fileno())
            _check(path, state)
            return file.read(_FILE_BYTES_MAX).decode("ascii")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise SetupError(f"{path} cannot be read: {error}") from error


def create_private_file(path: Path, text: str) -> bool:
    """Write a new file durably; return False and change nothing if it exists.

    Raises:
        SetupError: The file cannot be written.
    """
    return _write(path, text, keep_existing=True)


def replace_private_file(path: Path, text: str) -> None:
    """Replace the content of a file atomically and durably.

    Raises:
        SetupError: The file cannot be written. Its content has not changed.
    """
    _write(path, text, keep_existing=False)


def _check(path: Path, state: os.stat_result) -> None:
    if not stat.S_ISREG(state.st_mode):
        raise SetupError(f"{path} is not a file")
    if state.st_mode & 0o077:
        raise SetupError(
            f"{path} may be read or changed by others (mode {stat.S_IMODE(state.st_mode):04o}). "
            f"If nobody has read the key: chmod 600 {path}; otherwise use a new key"
        )


def _write(path: Path, text: str, *, keep_existing: bool) -> bool:
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        _write_durably(draft, text)
        if not keep_existing:
            draft.replace(path)
        elif not _link(draft, path):
            return False
        sync_folder(path.parent)
    except OSError as error:
        raise SetupError(f"{path} cannot be written: {error}") from error
    finally:
        with contextlib.suppress(OSError):
            draft.unlink()
    return True


def _write_durably(path: Path, text: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, _OWNER_ONLY)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        os.fchmod(descriptor, _OWNER_ONLY)
        file.write(text)
        file.flush()
        os.fsync(descriptor)


def _link(draft: Path, path: Path) -> bool:
    try:
        os.link(draft, path)  # unlike a rename, fails if the file exists
    except FileExistsError:
        return False
    return True


def sync_folder(folder: Path) -> None:
    """Make the names of the files in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

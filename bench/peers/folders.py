# SPDX-License-Identifier: Apache-2.0
"""Creates folders that the accounts of the other server can enter, on the same disk as those of our
server."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.peers.processes import PeerError, group_id, is_root, user_id
from bench.server import OUTPUT

# Kept over a restart, so not in memory: an fsync costs there what it costs on a disk.
_ELSEWHERE = Path("/var/tmp")


@contextmanager
def reachable_folder(*accounts: str) -> Iterator[Path]:
    """Create a temporary folder beside that of our server, or elsewhere on the same disk if the
    accounts cannot enter that place."""
    OUTPUT.mkdir(exist_ok=True)
    place = OUTPUT.absolute() if all(_reaches(name, OUTPUT) for name in accounts) else _ELSEWHERE
    if place.stat().st_dev != OUTPUT.stat().st_dev:
        raise PeerError(
            f"{' and '.join(accounts)} may not enter {OUTPUT.absolute()}, and {_ELSEWHERE} is on"
            " another disk: clone to a place that every account may enter."
        )
    with tempfile.TemporaryDirectory(prefix="peer-", dir=place) as name:
        folder = Path(name)
        folder.chmod(0o711)  # the accounts pass through it to their own folders
        yield folder


def own_folder(parent: Path, name: str, account: str) -> Path:
    """Create a folder that belongs to an account, and that only this account may enter."""
    folder = parent / name
    folder.mkdir(mode=0o700)
    if is_root():
        os.chown(folder, user_id(account), group_id(account))
    return folder


def give_file(path: Path, text: str) -> None:
    """Create a file for the account that owns its folder."""
    path.touch(mode=0o600)
    path.write_text(text)
    if is_root():
        owner = path.parent.stat()
        os.chown(path, owner.st_uid, owner.st_gid)


def _reaches(account: str, folder: Path) -> bool:
    if not is_root():
        return True  # then everything runs under one account
    done = subprocess.run(
        ["test", "-x", folder.absolute()],
        check=False,
        user=user_id(account),
        group=group_id(account),
        extra_groups=[],
    )
    return done.returncode == 0

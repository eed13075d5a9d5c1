# SPDX-License-Identifier: Apache-2.0
"""Search what test servers left on disk for what must not be there: content, tokens, keys.

`python tests/canary_scan.py FOLDER` looks into every file below the folder, databases and their
write-ahead logs included, and fails if it finds something, or had nothing worth looking into.
A user's own tokens may be in one place: the login file of a client, closed to everybody else.
"""

import re
import sys
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from tests.support.canary import MARK  # noqa: E402

CHUNK_BYTES: Final = 1 << 20
OVERLAP_BYTES: Final = 4_096
"""Longer than anything searched for, so that nothing hides on the edge of a chunk."""
JSON: Final = urlsafe_b64encode(b'{"a')[:3]
"""How the parts of a token start."""
RECEIPT: Final = urlsafe_b64encode(b'{"alg":"EdDSA","kid":"receipt.').removeprefix(JSON)
# Each pattern starts with a fixed text: the search for it is twenty times as fast as any other.
SECRETS: Final = {
    "content of a message": re.compile(re.escape(MARK.encode())),
    # A receipt has the same form, and is stored. Its header says what it is.
    "a user token": re.compile(
        rb"%b(?!%b)[A-Za-z0-9_-]{8,}\.%b[A-Za-z0-9_-]{8,}\." % (JSON, RECEIPT, JSON)
    ),
    "a refresh token": re.compile(rb"rt_[A-Za-z0-9_-]{8,}_[A-Za-z0-9_-]{43}"),
    "a tenant key": re.compile(rb"sk_[0-9a-f]{16}_[A-Za-z0-9_-]{43}"),
}
LOGIN_FILE_SUFFIX: Final = ".login"
LOGIN_FILE_HOLDS: Final = {"a user token", "a refresh token"}


@dataclass(slots=True)
class Scan:
    """What was looked into, and what was found."""

    files: int = 0
    databases: int = 0
    write_ahead_logs: int = 0
    logs: int = 0
    bytes: int = 0
    found: list[str] = field(default_factory=list)

    @property
    def trouble(self) -> list[str]:
        """Why the scan fails; empty if it does not."""
        vain = [
            f"there is no {what} to look into: the scan showed nothing"
            for what, number in (
                ("database", self.databases),
                ("write-ahead log", self.write_ahead_logs),
                ("log", self.logs),
            )
            if number == 0
        ]
        return vain + self.found


def scan(folder: Path) -> Scan:
    """Look into every file below the folder."""
    result = Scan()
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not path.is_file() or path.stat().st_size == 0:
            continue
        result.files += 1
        result.bytes += path.stat().st_size
        result.databases += path.suffix == ".db"
        result.write_ahead_logs += path.suffix == ".db-wal"
        result.logs += path.suffix == ".log"
        result.found += [f"{path} holds {what}" for what in _misplaced_in(path)]
    return result


def _misplaced_in(path: Path) -> list[str]:
    closed_to_others = path.stat().st_mode & 0o077 == 0
    is_a_login = path.suffix == LOGIN_FILE_SUFFIX and closed_to_others
    return sorted(_secrets_in(path) - (LOGIN_FILE_HOLDS if is_a_login else set()))


def _secrets_in(path: Path) -> set[str]:
    return {
        what
        for chunk in _chunks(path)
        for what, pattern in SECRETS.items()
        if pattern.search(chunk)
    }


def _chunks(path: Path) -> Iterator[bytes]:
    tail = b""
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            yield tail + chunk
            tail = chunk[-OVERLAP_BYTES:]


def main(folder: Path) -> int:
    """Scan and say what came of it; returns the exit code."""
    result = scan(folder)
    print(
        f"Canary scan of {folder}: {result.files} files, among them {result.databases} databases,"
        f" {result.write_ahead_logs} write-ahead logs, {result.logs} logs;"
        f" {result.bytes / 1e6:.0f} MB"
    )
    for trouble in result.trouble:
        print(f"  {trouble}", file=sys.stderr)
    return 1 if result.trouble else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))

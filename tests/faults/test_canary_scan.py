# SPDX-License-Identifier: Apache-2.0
"""The test of the scan: it finds what it looks for, wherever that is, and looks at something."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import canary_scan
from tests.support.canary import canary

WATCHED = ("tidings.db", "tidings.db-wal", "server.log")
TOKEN = b"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbm4ifQ.c2lnbmF0dXJl"
REFRESH_TOKEN = b"rt_" + b"01ARZ3NDEKTSV4RRFFQ69G5FAV" + b"_" + b"y" * 43
KEY = b"sk_" + b"0123456789abcdef" + b"_" + b"x" * 43


@pytest.fixture
def folder() -> Iterator[Path]:
    """Not below pytest's own folder, where the real scan would find what is planted here."""
    with tempfile.TemporaryDirectory() as name:
        for file in WATCHED:
            (Path(name) / file).write_bytes(b"nothing to see")
        yield Path(name)


def test_a_clean_folder_passes(folder: Path) -> None:
    assert canary_scan.main(folder) == 0


@pytest.mark.attack("H05")
@pytest.mark.parametrize("name", [*WATCHED, "a/b/other"])
@pytest.mark.parametrize("secret", [canary("hello").encode(), TOKEN, REFRESH_TOKEN, KEY])
def test_a_secret_in_any_file_is_found(folder: Path, name: str, secret: bytes) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\0" * 100 + secret + b"\0" * 100)
    assert canary_scan.main(folder) == 1


def test_a_secret_on_the_edge_of_a_chunk_is_found(folder: Path) -> None:
    text = canary("hello").encode()
    (folder / "large").write_bytes(b"\0" * (canary_scan.CHUNK_BYTES - 5) + text)
    assert canary_scan.main(folder) == 1


@pytest.mark.parametrize("name", WATCHED)
def test_a_scan_that_had_nothing_to_look_into_fails(folder: Path, name: str) -> None:
    (folder / name).unlink()
    assert canary_scan.main(folder) == 1


@pytest.mark.parametrize(
    ("mode", "secret", "exit_code"),
    [
        (0o600, TOKEN, 0),
        (0o600, REFRESH_TOKEN, 0),
        (0o644, TOKEN, 1),
        (0o600, KEY, 1),
        (0o600, canary("hello").encode(), 1),
    ],
)
def test_a_login_file_may_hold_tokens_if_nobody_else_reads_it(
    folder: Path, mode: int, secret: bytes, exit_code: int
) -> None:
    file = folder / "ann.login"
    file.write_bytes(secret)
    file.chmod(mode)
    assert canary_scan.main(folder) == exit_code

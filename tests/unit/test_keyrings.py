# SPDX-License-Identifier: Apache-2.0
"""Key files: private, whole or not there, and never replaced by accident."""

import os
import stat
from base64 import b64decode, b64encode
from pathlib import Path

import pytest

from tidings import data_folder
from tidings.assembly.system import SystemChance
from tidings.keyrings import EnvironmentKeyring, FileKeyring, ensure_root_key, read_root_key
from tidings.model.setup_error import SetupError
from tidings.ports.secrets import master_key


def secrets_in(folder: Path) -> list[bytes]:
    lines = (folder / "master.key").read_text().splitlines()
    return [b64decode(line) for line in lines if not line.startswith("#")]


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def made(folder: Path) -> FileKeyring:
    keyring = FileKeyring(folder, SystemChance())
    await keyring.ensure()
    return keyring


def test_a_key_tells_its_id_and_nothing_else() -> None:
    key = master_key(b"s" * 32)
    assert key.key_id == master_key(b"s" * 32).key_id != master_key(b"t" * 32).key_id
    assert len(key.key_id) == 16
    assert "sss" not in repr(key)
    assert key.key_id in repr(key)


async def test_the_first_key_is_made_when_asked_for(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "data"
    keyring = FileKeyring(folder, SystemChance())
    assert (keyring.current, keyring.previous) == (None, ())
    assert not folder.exists(), "looking makes nothing"
    await keyring.ensure()
    assert mode_of(folder / "master.key") == 0o600
    assert mode_of(folder) == 0o700
    assert [path.name for path in folder.iterdir()] == ["master.key"], "no draft is left"
    key = keyring.current
    await keyring.ensure()
    assert keyring.current == key is not None
    assert FileKeyring(folder, SystemChance()).current == key


async def test_two_that_start_at_once_agree_on_one_key(tmp_path: Path) -> None:
    one, two = FileKeyring(tmp_path, SystemChance()), FileKeyring(tmp_path, SystemChance())
    await one.ensure()
    await two.ensure()
    assert one.current == two.current is not None


async def test_a_rotation_holds_both_keys_until_it_is_finished(tmp_path: Path) -> None:
    keyring = await made(tmp_path)
    old = keyring.current
    await keyring.begin_rotation()
    new = keyring.current
    assert new != old
    assert keyring.previous == (old,)
    again = FileKeyring(tmp_path, SystemChance())
    assert (again.current, again.previous) == (new, (old,)), "durable, in this order"
    await again.begin_rotation()
    assert again.current == new, "an unfinished rotation goes on; no third key is made"
    await again.finish_rotation()
    last = FileKeyring(tmp_path, SystemChance())
    assert (last.current, last.previous) == (new, ())
    assert mode_of(tmp_path / "master.key") == 0o600


async def test_a_write_that_fails_leaves_file_and_keyring_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keyring = await made(tmp_path)
    key, before = keyring.current, (tmp_path / "master.key").read_text()

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    for call in ("os.fsync", "pathlib.Path.replace"):
        with monkeypatch.context() as patch:
            patch.setattr(call, fail)
            with pytest.raises(SetupError, match=r"cannot be written: .*No space left"):
                await keyring.begin_rotation()
        assert (tmp_path / "master.key").read_text() == before
        assert (keyring.current, keyring.previous) == (key, ())
        assert [path.name for path in tmp_path.iterdir()] == ["master.key"]


async def test_a_key_is_on_disk_before_it_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keyring = await made(tmp_path)
    steps: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def seen_fsync(descriptor: int) -> None:
        is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        steps.append("sync folder" if is_folder else "sync file")
        fsync(descriptor)

    def seen_replace(self: Path, target: Path) -> Path:
        steps.append("rename")
        return replace(self, target)

    monkeypatch.setattr("os.fsync", seen_fsync)
    monkeypatch.setattr("pathlib.Path.replace", seen_replace)
    await keyring.begin_rotation()
    assert steps == ["sync file", "rename", "sync folder"]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o606, 0o644])
async def test_a_key_file_that_others_may_touch_is_refused(tmp_path: Path, mode: int) -> None:
    await made(tmp_path)
    (tmp_path / "master.key").chmod(mode)
    with pytest.raises(SetupError, match=f"mode {mode:04o}.*chmod 600"):
        FileKeyring(tmp_path, SystemChance())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# only a comment\n",
        "not base64!\n",
        b64encode(b"short").decode(),
        "\n".join([b64encode(b"k" * 32).decode()] * 3),
        "é",
    ],
)
def test_a_key_file_that_makes_no_sense_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "master.key"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(SetupError, match=r"master\.key"):
        FileKeyring(tmp_path, SystemChance())


def test_only_a_file_is_a_key_file(tmp_path: Path) -> None:
    (tmp_path / "master.key").mkdir(mode=0o700)
    with pytest.raises(SetupError):
        FileKeyring(tmp_path, SystemChance())
    (tmp_path / "root.key").symlink_to("/dev/null")
    with pytest.raises(SetupError, match="is not a file"):
        read_root_key(tmp_path)


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    with pytest.raises(SetupError):
        ensure_root_key(tmp_path / "data", SystemChance())


def test_a_draft_left_by_a_crash_is_in_nobody_s_way(tmp_path: Path) -> None:
    (tmp_path / f".root.key.{os.getpid()}").write_text("half a k")
    assert ensure_root_key(tmp_path, SystemChance()) == read_root_key(tmp_path)


def test_make_keeps_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "key"
    assert data_folder.create_private_file(path, "one")
    assert not data_folder.create_private_file(path, "two")
    assert data_folder.read_private_file(path) == "one"
    data_folder.replace_private_file(path, "three")
    assert data_folder.read_private_file(path) == "three"


def test_the_root_key_is_made_once_long_and_private(tmp_path: Path) -> None:
    assert read_root_key(tmp_path) is None
    key = ensure_root_key(tmp_path, SystemChance())
    assert len(key) == 43
    assert key == ensure_root_key(tmp_path, SystemChance()) == read_root_key(tmp_path)
    assert mode_of(tmp_path / "root.key") == 0o600
    (tmp_path / "root.key").chmod(0o644)
    with pytest.raises(SetupError, match="chmod 600"):
        ensure_root_key(tmp_path, SystemChance())


@pytest.mark.parametrize("text", ["", "\n", "two words\n", "two\nlines\n"])
def test_a_root_key_file_that_makes_no_sense_is_refused(tmp_path: Path, text: str) -> None:
    data_folder.create_private_file(tmp_path / "root.key", text)
    with pytest.raises(SetupError, match="one key on one line"):
        read_root_key(tmp_path)


async def test_keys_from_the_environment_are_the_operator_s_to_change() -> None:
    keyring = EnvironmentKeyring(b"a" * 32, None)
    await keyring.ensure()
    assert keyring.current == master_key(b"a" * 32)
    assert keyring.previous == ()
    with pytest.raises(SetupError, match="TIDINGS_MASTER_KEY_PREVIOUS"):
        await keyring.begin_rotation()


async def test_secrets_in_the_file_are_what_the_keyring_says(tmp_path: Path) -> None:
    keyring = await made(tmp_path)
    await keyring.begin_rotation()
    assert keyring.current is not None
    assert secrets_in(tmp_path) == [keyring.current.secret, keyring.previous[0].secret]

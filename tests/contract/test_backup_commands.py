# SPDX-License-Identifier: Apache-2.0
"""The commands about backups: what they refuse, and what they tell the operator."""

import asyncio
import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import pytest

from tests.contract.backup_bench import Bench, Signature
from tidings.actions.export.verifying import Verified
from tidings.assembly.system import SystemChance, SystemClock
from tidings.cli import backup, main, verify
from tidings.data_folder import LAST_BACKUP, LOCK, only_process
from tidings.keyrings import FileKeyring
from tidings.model.ids import ChatId, from_rfc3339
from tidings.model.limits import DAY_MS
from tidings.model.setup_error import SetupError
from tidings.ports.erasing import LedgerEntry
from tidings.stores.sqlite.backup.manifest import BackupDamaged, Manifest
from tidings.stores.sqlite.backup.place import BackupFolder
from tidings.stores.sqlite.backup.writing import take_backup
from tidings.stores.sqlite.engine.connections import DATABASE
from tidings.stores.sqlite.export.inspecting import open_inspection
from tidings.stores.sqlite.identity.erasing import LEDGER, append_lines, read_lines


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    bench = Bench(tmp_path)
    asyncio.run(bench.send("hello"))
    return bench


def restore(bench: Bench, folder: Path, *options: str) -> int:
    """The exit code of a restore into a folder."""
    place = str(bench.place.folder)
    return main(["restore", place, "--unsigned", "--data", str(folder), *options])


def test_a_place_without_backups_is_told(
    bench: Bench, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for option in ("--list", "--check"):
        assert restore(bench, tmp_path / "new", option) == 2
        assert "there is no backup" in capsys.readouterr().err


def test_a_backup_that_is_removed_during_a_check_is_not_damaged(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        bench.back_up()
    first, _ = bench.manifests()

    def check(place: BackupFolder, manifest: Manifest, _: object) -> None:
        if manifest == first:
            place.remove(f"{first.backup_id}.backup")
            raise BackupDamaged("a part is gone")

    monkeypatch.setattr(backup, "check_backup", check)
    assert restore(bench, tmp_path / "new", "--check") == 0


def test_a_later_damaged_backup_does_not_prevent_an_earlier_restore(
    bench: Bench, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = bench.store.folder / LEDGER
    append_lines(ledger, [LedgerEntry("user", "acme:a", 1)])
    early = bench.back_up().manifest
    late = bench.back_up().manifest
    (bench.place.folder / f"{late.backup_id}.backup").write_bytes(b"{}")
    at = early.backup_id
    time = f"{at[:4]}-{at[4:6]}-{at[6:11]}:{at[11:13]}:{at[13:]}"

    assert restore(bench, tmp_path / "new", "--at", time) == 0

    told = capsys.readouterr()
    assert f"Restored {early.backup_id}" in told.out
    assert f"the erasures up to {early.backup_id}, because that of {late.backup_id}" in told.err
    assert len(read_lines(tmp_path / "new" / LEDGER)) == 1


def test_a_file_that_is_no_ledger_is_refused(
    bench: Bench, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.back_up()
    file = tmp_path / "server.log"
    file.write_text('{"level":"info"}\n')

    assert restore(bench, tmp_path / "new", "--erasures", str(file)) == 2

    assert "server.log is not a ledger of erasures" in capsys.readouterr().err
    assert not (tmp_path / "new" / DATABASE).exists()


@pytest.mark.parametrize("command", ["backup", "drill"])
@pytest.mark.parametrize("keep", ["0", "-1"])
def test_at_least_one_backup_is_kept(command: str, keep: str, tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as end:
        main([command, str(tmp_path), f"--keep={keep}", "--data", str(tmp_path)])
    assert end.value.code == 2


def test_the_age_of_a_backup_is_right_after_the_clock_was_wrong(bench: Bench) -> None:
    folder = bench.store.folder
    asyncio.run(FileKeyring(folder, SystemChance()).ensure())
    bench.clock.time = SystemClock().now() + DAY_MS
    bench.back_up()

    assert main(["backup", str(bench.place.folder), "--data", str(folder)]) == 0

    assert from_rfc3339((folder / LAST_BACKUP).read_text()) <= SystemClock().now()


def test_a_backup_is_not_in_the_data_folder(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(bench.store.folder)
    assert main(["backup", folder, "--data", folder]) == 2
    assert "name another folder for the backups" in capsys.readouterr().err


def test_a_drill_needs_its_scratch_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = str(tmp_path / "missing")
    assert main(["drill", str(tmp_path), "--scratch", missing, "--data", str(tmp_path)]) == 2
    assert f"{missing} is not a folder" in capsys.readouterr().err


def test_a_continued_verification_knows_what_was_found_before(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody interrupts a verification that has found a violation."""
    monkeypatch.setattr(verify, "_SAVE_SECONDS", 0)
    file = tmp_path / "progress.json"

    async def epoch() -> str:
        async with open_inspection(bench.store.folder) as store:
            return store.epoch

    line = verify.VerifyProgress(file, asyncio.run(epoch()))
    line(Verified(after=ChatId("c"), violations=1))

    assert main(["verify", "--progress", str(file), "--data", str(bench.store.folder)]) == 1
    assert not file.exists()


def test_a_full_disk_is_told_as_such(bench: Bench) -> None:
    class FullFile:
        def __init__(self, file: BinaryIO) -> None:
            self.fileno = file.fileno
            self.flush = file.flush

        def write(self, _: bytes) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    class FullDisk(BackupFolder):
        @contextmanager
        def create(self, name: str) -> Iterator[BinaryIO]:
            with super().create(name) as file:
                yield FullFile(file)  # type: ignore[misc]

    with pytest.raises(OSError, match="No space left"):
        bench.back_up(FullDisk(bench.place.folder))


def test_a_lock_is_not_a_link_to_a_file_of_somebody(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.write_text("content")
    (tmp_path / LOCK).symlink_to(mine)

    with pytest.raises(OSError, match="symbolic links"), only_process(tmp_path):
        pass
    assert mine.read_text() == "content"


def test_a_place_of_another_deployment_is_refused(bench: Bench, tmp_path: Path) -> None:
    place = bench.place
    first = bench.back_up(keep=1).manifest
    other = Bench(tmp_path / "other")
    asyncio.run(other.send("hello"))

    class OtherKey(Signature):
        """Signs with another master key."""

        def sign(self, sha256: str) -> tuple[str, str]:
            return "other", sha256

    with pytest.raises(SetupError, match=f"{first.backup_id}, is of another deployment"):
        take_backup(other.store.folder, place, OtherKey(), bench.clock, "1.0", 1)
    assert bench.manifests() == [first]
    # The same deployment after a restore has another epoch, and its master key.
    again = bench.restored(first)
    bench.clock.time += 1_000
    take_backup(again.folder, place, Signature(), bench.clock, "1.0", 1)
    assert len(bench.manifests()) == 1


def test_a_drill_removes_what_killed_drills_left(bench: Bench, tmp_path: Path) -> None:
    asyncio.run(FileKeyring(bench.store.folder, SystemChance()).ensure())
    scratch = tmp_path / "scratch"
    for name in ("killed", "running", "else"):
        (scratch / f"{verify.SCRATCH}{name}").mkdir(parents=True)
    (scratch / f"{verify.SCRATCH}killed" / LOCK).touch()
    with only_process(scratch / f"{verify.SCRATCH}running"):
        words = ["drill", str(tmp_path / "drills"), "--scratch", str(scratch)]
        main([*words, "--data", str(bench.store.folder)])
    left = sorted(path.name.removeprefix(verify.SCRATCH) for path in scratch.iterdir())
    assert left == ["else", "running"]


def test_a_repair_is_not_begun_by_mistake(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TIDINGS_STORE", "dynamodb")
    monkeypatch.setenv("TIDINGS_DYNAMODB_ENDPOINT", "http://127.0.0.1:9")
    assert main(["repair"]) == 2
    assert "add --yes" in capsys.readouterr().err

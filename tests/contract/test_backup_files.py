# SPDX-License-Identifier: Apache-2.0
"""The files of attachments in backups: copied once, checked bit by bit, and kept as long as the
backups that need them."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.contract.backup_bench import Bench, Signature
from tests.contract.moving_files import a_folder, an_upload, bytes_in, fill_files
from tests.support.clock import NOW
from tests.support.users import ANN
from tidings.assembly.system import SystemChance, SystemClock
from tidings.blobs.folder import FolderBlobs
from tidings.cli import main
from tidings.data_folder import ATTACHMENTS, AttachmentsLock, keep_attachments
from tidings.keyrings import FileKeyring
from tidings.model.attachments import Upload
from tidings.stores.sqlite.backup.files import FileBackup, FileIndex, FileRecord
from tidings.stores.sqlite.backup.manifest import BackupDamaged, Manifest
from tidings.stores.sqlite.backup.restoring import check_backup, restore
from tidings.stores.sqlite.backup.writing import BackupResult, take_backup


class FileBench(Bench):
    """A store with files, and a folder for its backups."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.live = asyncio.run(a_folder(self.store.folder / ATTACHMENTS))
        self.stored = asyncio.run(a_folder(self.place.folder / ATTACHMENTS))

    @contextmanager
    def files(self, live: FolderBlobs | None = None) -> Iterator[FileBackup]:
        with asyncio.Runner() as runner:
            yield FileBackup(live or self.live, self.stored, runner)

    async def fill(self) -> list[Upload]:
        async with self.store.open() as store:
            return await fill_files(store, self.live)

    def back_up_files(self, keep: int | None = None) -> BackupResult:
        self.clock.time += 1_000
        with self.files() as files:
            return take_backup(
                self.store.folder, self.place, Signature(), self.clock, "1.0", keep, files
            )

    def restored_files(
        self, manifest: Manifest, folder: Path, *, skips_damaged: bool = False
    ) -> tuple[str, ...]:
        live = asyncio.run(a_folder(folder / ATTACHMENTS))
        with self.files(live) as files:
            done = restore(
                self.place, manifest, folder, [], NOW, files, skips_damaged=skips_damaged
            )
        return done.lost_files


@pytest.fixture
def bench(tmp_path: Path) -> FileBench:
    return FileBench(tmp_path)


def test_files_are_copied_once_and_come_back(bench: FileBench, tmp_path: Path) -> None:
    asyncio.run(bench.fill())
    before = asyncio.run(bytes_in(bench.live))

    first = bench.back_up_files().manifest
    second = bench.back_up_files().manifest

    assert asyncio.run(bytes_in(bench.stored)) == before
    assert (first.file_parts, second.file_parts) == (5, 5)
    assert (
        first.file_bytes == second.file_bytes == sum(len(data or b"") for data in before.values())
    )
    assert first.new_bytes > first.file_bytes > 100 * second.new_bytes
    assert bench.restored_files(second, tmp_path / "new") == ()
    assert asyncio.run(bytes_in(asyncio.run(a_folder(tmp_path / "new" / ATTACHMENTS)))) == before


def test_what_the_place_lost_is_copied_again(bench: FileBench) -> None:
    upload, *_ = asyncio.run(bench.fill())
    bench.back_up_files()
    asyncio.run(bench.stored.delete(upload.attachment_id, [upload.parts[0].name]))
    (bench.place.folder / f"{bench.manifests()[0].backup_id}.files").write_bytes(b"damaged")
    made = bench.back_up_files()
    with bench.files() as files:
        check_backup(bench.place, made.manifest, files)


def test_a_changed_part_is_found_before_it_is_used(bench: FileBench, tmp_path: Path) -> None:
    asyncio.run(bench.fill())
    made = bench.back_up_files().manifest
    parts = sorted((bench.place.folder / ATTACHMENTS).glob("*/*/*"))
    assert len(parts) == 5
    for number, path in enumerate(parts):
        sound = path.read_bytes()
        for damage in (sound[:-1] + bytes([sound[-1] ^ 1]), sound[:-1], sound + b"x", None):
            if damage is None:
                path.unlink()
            else:
                path.write_bytes(damage)
            with bench.files() as files, pytest.raises(BackupDamaged, match=path.name):
                check_backup(bench.place, made, files)
            with pytest.raises(BackupDamaged, match=path.name):
                bench.restored_files(made, tmp_path / f"refused{number}")
            assert not list((tmp_path / f"refused{number}" / ATTACHMENTS).glob(f"*/*/{path.name}"))
        lost = bench.restored_files(made, tmp_path / f"new{number}", skips_damaged=True)
        assert [path.name in text for text in lost] == [True]
        path.write_bytes(sound)


def test_files_go_with_the_last_backup_that_needs_them(bench: FileBench) -> None:
    upload, *_ = asyncio.run(bench.fill())
    bench.back_up_files()

    async def forget() -> None:
        async with bench.store.open() as store:
            await store.uploads.remove(ANN, upload.attachment_id)
        await bench.live.delete(upload.attachment_id, await bench.live.names(upload.attachment_id))

    asyncio.run(forget())
    bench.back_up_files()
    assert len(asyncio.run(bytes_in(bench.stored))) == 5
    bench.back_up_files(keep=1)
    assert asyncio.run(bytes_in(bench.stored)) == asyncio.run(bytes_in(bench.live))


def test_nothing_is_removed_while_a_manifest_cannot_be_read(bench: FileBench) -> None:
    asyncio.run(bench.fill())
    first = bench.back_up_files().manifest
    (bench.place.folder / f"{first.backup_id}.files").write_bytes(b"damaged")
    extra = an_upload(9).attachment_id
    asyncio.run(bench.stored.put(extra, "f" * 16, [b"of a backup that was killed"]))
    bench.back_up_files()
    assert extra in {key for key, _ in asyncio.run(bytes_in(bench.stored))}
    bench.back_up_files(keep=1)
    assert extra not in {key for key, _ in asyncio.run(bytes_in(bench.stored))}


def test_lost_bytes_of_a_message_are_told_and_do_not_stop_a_backup(bench: FileBench) -> None:
    sent, _, unsent = asyncio.run(bench.fill())
    for upload in (sent, unsent):
        asyncio.run(bench.live.delete(upload.attachment_id, [upload.parts[0].name]))
    done = bench.back_up_files()
    assert done.missing_files == (sent.attachment_id,)
    assert done.manifest.file_parts == 3


def test_no_file_is_deleted_during_a_backup(bench: FileBench) -> None:
    lock = AttachmentsLock(bench.store.folder)
    bench.store.folder.mkdir(exist_ok=True)
    with lock.deleting() as first, lock.deleting() as second:
        assert first and second
    with keep_attachments(bench.store.folder), lock.deleting() as may_delete:
        assert not may_delete
    with lock.deleting() as may_delete:
        assert may_delete


def test_an_index_of_files_is_sorted() -> None:
    one, two = FileRecord("0" * 26, "b" * 16, b"d" * 32, 5), FileRecord("1" * 26, "a" * 16, b"", 6)
    index = FileIndex.of([two, one])
    assert [record.size for record in FileIndex(bytes(index))] == [5, 6]
    assert len(index) == 2


def test_the_commands_carry_files(
    bench: FileBench,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder, place = bench.store.folder, str(bench.place.folder)
    upload, *_ = asyncio.run(bench.fill())
    asyncio.run(FileKeyring(folder, SystemChance()).ensure())
    bench.clock.time = SystemClock().now()

    assert main(["backup", place, "--data", str(folder)]) == 0
    assert "files 2.1 MB" in capsys.readouterr().out
    assert main(["restore", place, "--check", "--data", str(folder)]) == 0
    assert "OK" in capsys.readouterr().out
    new = tmp_path / "new"
    assert main(["restore", place, "--unsigned", "--data", str(new)]) == 0
    copied = asyncio.run(bytes_in(asyncio.run(a_folder(new / ATTACHMENTS))))
    assert copied == asyncio.run(bytes_in(bench.live))

    asyncio.run(bench.stored.delete(upload.attachment_id, [upload.parts[0].name]))
    assert main(["restore", place, "--check", "--data", str(folder)]) == 1
    assert "is missing" in capsys.readouterr().out
    other = str(tmp_path / "other")
    assert main(["restore", place, "--unsigned", "--data", other]) == 1
    assert "is missing" in capsys.readouterr().err
    assert main(["restore", place, "--unsigned", "--skip-damaged", "--data", other]) == 0
    assert "1 parts of attachments could not be restored" in capsys.readouterr().err

# SPDX-License-Identifier: Apache-2.0
"""Backups of the embedded store: complete, small, checked bit by bit, and safe from a kill."""

import asyncio
import itertools
import os
import random
import shutil
from pathlib import Path

import apsw
import msgspec
import pytest

from tests.contract.backup_bench import BadDisk, Bench, DyingPlace, Forged, Signature
from tests.contract.builders import a_chat, append, message
from tests.contract.engines import SqliteEngine
from tests.contract.moving_ground import FolderPlace, Killed, export_from, fill
from tests.contract.test_verify import verify
from tests.support.users import ANN, BOB
from tidings.model.setup_error import SetupError
from tidings.ports.erasing import LedgerEntry
from tidings.ports.log import Kept
from tidings.ports.secrets import WrappedKey
from tidings.stores.sqlite.backup import writing
from tidings.stores.sqlite.backup.manifest import (
    BackupDamaged,
    encode_manifest,
    read_manifest,
)
from tidings.stores.sqlite.backup.restoring import check_backup, restore
from tidings.stores.sqlite.backup.snapshot import open_snapshot
from tidings.stores.sqlite.engine.connections import DATABASE, RESTORING
from tidings.stores.sqlite.identity.erasing import LEDGER, append_lines, read_lines


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with one of everything, to copy."""
    folder = tmp_path_factory.mktemp("filled") / "data"

    async def make() -> None:
        async with FolderPlace(folder).open() as store:
            await fill(store)

    asyncio.run(make())
    return folder


@pytest.fixture
def bench(filled: Path, tmp_path: Path) -> Bench:
    bench = Bench(tmp_path)
    shutil.copytree(filled, bench.store.folder)
    return bench


def facts_of(export: bytes) -> list[bytes]:
    """The lines of an export without the first, which has the epoch, and the last, its digest."""
    return export.splitlines()[1:-1]


async def test_a_restored_store_has_the_same_facts_and_another_epoch(bench: Bench) -> None:
    made = bench.back_up().manifest

    restored = bench.restored(made)

    assert await verify(restored) == []
    before, after = await export_from(bench.store), await export_from(restored)
    assert facts_of(before) == facts_of(after)
    assert before.splitlines()[0] != after.splitlines()[0]


async def test_a_second_backup_writes_only_what_changed(bench: Bench) -> None:
    first = bench.back_up()
    await bench.send("more")
    second = bench.back_up()
    third = bench.back_up()

    assert first.new_pages > 3 * second.new_pages > 0
    assert third.new_pages == 0
    restored = bench.restored(second.manifest)
    assert facts_of(await export_from(restored)) == facts_of(await export_from(bench.store))


async def test_each_backup_is_a_point_in_time(bench: Bench) -> None:
    exports = []
    for text in ("one", "two"):
        exports.append(facts_of(await export_from(bench.store)))
        bench.back_up()
        await bench.send(text)

    for manifest, export in zip(bench.manifests(), exports, strict=True):
        assert facts_of(await export_from(bench.restored(manifest))) == export


async def test_a_backup_beside_writers_has_all_that_was_stored_before(bench: Bench) -> None:
    """Nothing that was kept before is missing, and no part of a transaction is there."""
    stored = []
    async with bench.store.open() as store:
        states = [await a_chat(store, ANN, BOB) for _ in range(5)]

        async def write() -> None:
            for number in range(100):
                state = states[number % len(states)]
                assert await append(store, state, message(ANN, f"text {number}")) == Kept()
                stored.append((state.chat_id, state.head))

        writer = asyncio.create_task(write())
        made = []
        while not writer.done():
            before = list(stored)
            made.append((before, (await asyncio.to_thread(bench.back_up)).manifest))
        await writer

    for before, manifest in made[:: max(1, len(made) // 3)]:
        restored = bench.restored(manifest)
        assert await verify(restored) == []
        db = apsw.Connection(str(restored.folder / DATABASE))
        for chat, head in before:
            assert db.execute(
                "SELECT 1 FROM messages WHERE chat_id = ? AND sequence = ?", (chat, head)
            ).get
        db.close()


# Damage.


async def test_a_flipped_bit_in_any_part_is_found_before_use(bench: Bench) -> None:
    bench.back_up()
    await bench.send("more")
    made = bench.back_up().manifest
    chance = random.Random(7)

    for path in sorted(bench.place.folder.glob(f"{made.backup_id}.*")):
        sound = path.read_bytes()
        if not sound:
            continue  # nothing was erased
        for at in (chance.randrange(len(sound)) for _ in range(min(10, len(sound)))):
            path.write_bytes(flipped(sound, at, chance.randrange(8)))
            assert_unusable(bench, made.backup_id)
        path.write_bytes(sound[:-1])
        assert_unusable(bench, made.backup_id)
        path.write_bytes(sound)
    check_backup(bench.place, made)
    assert await verify(bench.restored(made)) == []


async def test_a_flipped_bit_in_the_pages_of_an_earlier_backup_is_found(bench: Bench) -> None:
    earlier = bench.place.folder / bench.back_up().manifest.packs[0]
    made = bench.back_up().manifest
    sound = earlier.read_bytes()

    for page in range(0, len(sound), 4_096 * 20):
        earlier.write_bytes(flipped(sound, page + 100, 3))
        assert_unusable(bench, made.backup_id)
    earlier.unlink()
    assert_unusable(bench, made.backup_id)


def flipped(sound: bytes, at: int, bit: int) -> bytes:
    changed = bytearray(sound)
    changed[at] ^= 1 << bit
    return bytes(changed)


def assert_unusable(bench: Bench, backup_id: str) -> None:
    """It cannot be checked, and a restore leaves no store."""
    with pytest.raises((BackupDamaged, Forged)):
        check_backup(bench.place, read_manifest(bench.place, backup_id, Signature()))
    with pytest.raises((BackupDamaged, Forged)):
        bench.restored(read_manifest(bench.place, backup_id, Signature()))
    assert not list(bench.store.folder.parent.glob(f"restored*/{DATABASE}"))


async def test_what_cannot_be_read_back_is_no_backup(bench: Bench) -> None:
    first = bench.back_up()
    await bench.send("more")

    for ending in (".pages", ".keys", ".index", ".erasures"):
        with pytest.raises(BackupDamaged, match=ending):
            bench.back_up(BadDisk(bench.place, ending))
        assert bench.manifests() == [first.manifest]


async def test_the_next_backup_does_not_build_on_a_damaged_one(bench: Bench) -> None:
    first = bench.back_up()
    (bench.place.folder / first.manifest.index.name).write_bytes(b"")
    second = bench.back_up()
    (bench.place.folder / second.manifest.packs[-1]).unlink()
    third = bench.back_up()
    pages = bench.place.folder / third.manifest.packs[-1]
    os.truncate(pages, pages.stat().st_size - 1)
    fourth = bench.back_up()
    (bench.place.folder / f"{fourth.manifest.backup_id}.backup").write_bytes(b"{}")
    fifth = bench.back_up()

    assert {each.new_pages for each in (first, second, third, fourth)} == {first.new_pages}
    assert await verify(bench.restored(fifth.manifest)) == []


@pytest.mark.parametrize("change", [{"packs": ("../a.pages",)}, {"page_size": 0}])
async def test_a_manifest_names_nothing_outside_of_the_place(
    bench: Bench, change: dict[str, object]
) -> None:
    made = bench.back_up().manifest
    forged = msgspec.structs.replace(made, **change)
    name = f"{made.backup_id}.backup"
    (bench.place.folder / name).write_bytes(encode_manifest(forged, Signature()))

    with pytest.raises(BackupDamaged, match="not the manifest of this backup"):
        read_manifest(bench.place, made.backup_id, None)
    assert bench.back_up().new_pages > 0


def test_the_page_that_sqlite_does_not_copy_is_in_the_backup(tmp_path: Path) -> None:
    """It begins at one gibibyte. The file has holes, and takes no room."""
    path, page_size, pages = tmp_path / DATABASE, 65_536, 16_387
    db = apsw.Connection(str(path))
    db.execute(f"PRAGMA page_size = {page_size}; CREATE TABLE rows (content)").fetchall()
    db.close()
    with path.open("r+b") as file:
        os.pwrite(file.fileno(), pages.to_bytes(4, "big"), 28)  # number of pages in the header
        file.truncate(pages * page_size)

    taken: list[int] = []
    with open_snapshot(tmp_path) as snapshot:
        snapshot.copy(lambda page, _: taken.append(page))

    assert set(taken) == set(range(1, pages + 1))


# Kills.


async def test_killed_at_any_moment_the_last_good_one_remains(bench: Bench) -> None:
    """The process is killed at its first step in the place, at its second, and so on."""
    good = bench.back_up()
    await bench.send("more")

    for step in itertools.count(1):
        dying = DyingPlace(bench.place, step)
        try:
            bench.back_up(dying, keep=1)
        except Killed:
            *_, last = bench.manifests()
            check_backup(bench.place, last)
            if step % 4 == 0:
                assert await verify(bench.restored(last)) == []
            continue
        break

    (last,) = bench.manifests()
    assert step > 10, "each part is a step of its own"
    assert last.at > good.manifest.at
    names = set(bench.place.names())
    parts = (last.index, last.keys, last.erasures)
    assert names == {f"{last.backup_id}.backup", *last.packs, *(part.name for part in parts)}


async def test_a_restore_that_was_killed_is_not_served_and_can_be_repeated(
    bench: Bench, tmp_path: Path
) -> None:
    made = bench.back_up().manifest
    folder = tmp_path / "new"
    folder.mkdir()
    (folder / RESTORING).write_bytes(b"half of it")

    with pytest.raises(SetupError, match=r"a restore into .* is not finished"):
        async with SqliteEngine(folder).open():
            pass
    restore(bench.place, made, folder, [], bench.clock.time)
    assert await verify(FolderPlace(folder)) == []


@pytest.mark.parametrize("name", [DATABASE, f"{DATABASE}-wal", "something"])
async def test_a_restore_needs_an_empty_place(bench: Bench, tmp_path: Path, name: str) -> None:
    made = bench.back_up().manifest
    folder = tmp_path / "new"
    folder.mkdir()
    for harmless in ("master.key", "root.key"):
        (folder / harmless).write_text("a key")
    (folder / name).write_bytes(b"mine")

    with pytest.raises(SetupError, match=f"not empty .it has {name}"):
        restore(bench.place, made, folder, [], bench.clock.time)
    assert (folder / name).read_bytes() == b"mine"


# Retention.


async def test_only_the_newest_are_kept_and_nothing_that_no_one_needs(bench: Bench) -> None:
    sizes = []
    for number in range(6):
        await bench.send(f"text {number}")
        bench.back_up(keep=2)
        sizes.append(sum(path.stat().st_size for path in bench.place.folder.iterdir()))

    kept = bench.manifests()
    assert len(kept) == 2
    needed = {name for manifest in kept for name in manifest.packs}
    assert {path.name for path in bench.place.folder.glob("*.pages")} == needed
    for manifest in kept:
        assert await verify(bench.restored(manifest)) == []
    assert sizes[-1] < 2 * sizes[0]


async def test_files_of_others_are_left_alone(bench: Bench) -> None:
    folder = bench.place.folder
    folder.mkdir()
    others = {"letter.pages", "private.keys", "old.backup", "1.backup", "film.part"}
    for name in others:
        (folder / name).write_bytes(b"mine")

    *_, last = [bench.back_up(keep=1) for _ in range(3)]

    assert bench.manifests() == [last.manifest]
    assert others <= {path.name for path in folder.iterdir()}
    assert len(list(folder.glob("*.index"))) == 1


async def test_a_damaged_backup_is_not_kept_instead_of_a_good_one(bench: Bench) -> None:
    bench.clock.time += 10_000
    damaged = bench.back_up().manifest.backup_id
    (bench.place.folder / f"{damaged}.backup").write_bytes(b"")
    bench.clock.time -= 10_000  # somebody has set the clock

    made = bench.back_up(keep=1)

    assert read_manifest(bench.place, made.manifest.backup_id, Signature()) == made.manifest


async def test_worn_and_small_files_of_pages_are_replaced(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "PACKS_MAX", 3)
    for number in range(8):
        await bench.send(f"text {number}")
        made = bench.back_up(keep=1)
        assert len(made.manifest.packs) <= 3
    monkeypatch.setattr(writing, "WORN_SHARE", 1.01)
    whole = bench.back_up(keep=1)

    assert len(whole.manifest.packs) == 1
    assert await verify(bench.restored(whole.manifest)) == []


# Keys and erasures.


async def test_data_keys_are_in_a_file_of_their_own(bench: Bench) -> None:
    secret = b"wrapped-data-key-of-bob"
    async with bench.store.open() as store:
        for number in range(200):  # more than one page of them
            author = type(BOB)(f"acme:author{number}")
            key = WrappedKey(
                author=author, generation=0, wrapped=secret + bytes(40), master_key_id="master1"
            )
            await store.data_keys.add(key)
    made = bench.back_up().manifest

    holding = [path.name for path in bench.place.folder.iterdir() if secret in path.read_bytes()]
    assert holding == [made.keys.name]


async def test_without_the_file_of_keys_all_content_is_erased(bench: Bench) -> None:
    made = bench.back_up().manifest
    (bench.place.folder / made.keys.name).unlink()
    restored = bench.restored(made)

    db = apsw.Connection(str(restored.folder / DATABASE))
    assert db.execute("SELECT count(*) FROM keys WHERE wrapped IS NOT NULL").get == 0
    assert db.execute("SELECT generation FROM keys WHERE author = ?", (ANN,)).get >= 1
    db.close()
    assert await verify(restored) == []
    with pytest.raises(BackupDamaged, match="keys"):
        check_backup(bench.place, made)


async def test_a_restore_knows_the_erasures_of_every_ledger(bench: Bench) -> None:
    def erasure(subject: str, at: int) -> LedgerEntry:
        return LedgerEntry("user", f"acme:{subject}", at)

    ledger = bench.store.folder / LEDGER
    append_lines(ledger, [erasure("a", 1)])
    made = bench.back_up().manifest
    later = b"\n".join((ledger.read_bytes(), b'{"kind":"user","subject":"acme:b","at":2}'))

    restored = bench.restored(made, later, b'\n{"kind":"user","subject":"acme:a","at":0}')

    assert read_lines(restored.folder / LEDGER) == [erasure("a", 1), erasure("b", 2)]


async def test_two_backups_do_not_run_at_once(bench: Bench) -> None:
    with bench.place.alone(), pytest.raises(SetupError, match="in use by another"):
        bench.back_up()
    shutil.rmtree(bench.store.folder)
    with pytest.raises(SetupError, match="there is no store"):
        bench.back_up()

# SPDX-License-Identifier: Apache-2.0
"""Moving files between engines: the uploads, and their bytes as they are stored."""

from pathlib import Path

import pytest

from tests.contract.moving_files import LARGE, a_folder, an_upload, bytes_in, fill_files
from tests.contract.moving_ground import LATER, DiesWriting, Killed, Place, export_of, lines_of
from tests.contract.moving_places import OTHER, Places
from tests.support.clock import NOW
from tests.support.users import ANN
from tidings.actions.attachments.sealing import sealed_size
from tidings.actions.export import importing
from tidings.actions.export.exporting import export_all
from tidings.actions.export.files import LINE_DATA_BYTES
from tidings.actions.export.importing import Damaged, check, import_all
from tidings.model.attachments import LATE_BYTES_MS
from tidings.model.limits import DAY_MS
from tidings.ports.attachments import Blobs
from tidings.ports.export_feature_facts import BytesFact, UploadFact
from tidings.ports.export_inbox_facts import converted


async def export_with(place: Place, blobs: Blobs | None) -> bytes:
    written: list[bytes] = []
    async with place.source() as source:
        await export_all(source, LATER, written.append, lambda _: None, None, blobs)
    return b"".join(written)


async def import_with(place: Place, blobs: Blobs, export: bytes) -> None:
    async with place.target() as target:
        await import_all(target, lines_of(export), lambda _: None, None, blobs)


@pytest.mark.usefixtures("dynamodb_endpoint")
async def test_files_go_there_and_back_to_the_byte(
    place: Place, places: Places, tmp_path: Path
) -> None:
    here, elsewhere = await a_folder(tmp_path / "here"), await a_folder(tmp_path / "elsewhere")
    async with place.open() as store:
        uploads = await fill_files(store, here)
    there = await export_with(place, here)
    counts = check(lines_of(there)).counts
    assert (counts["upload"], counts["bytes"]) == (3, 3 + 1 + 1 + 1 + 1)
    async with places.new(OTHER[type(place).__name__]) as other:
        await import_with(other, elsewhere, there)
        assert await bytes_in(elsewhere) == await bytes_in(here)
        assert await export_with(other, elsewhere) == there
        async with places.new("sqlite") as home:
            again = await a_folder(tmp_path / "again")
            await import_with(home, again, await export_with(other, elsewhere))
            assert await export_with(home, again) == there
        async with other.open() as store:
            found = await store.uploads.get(ANN, uploads[0].attachment_id)
            assert found is not None
            assert (found.parts, found.thumbnail) == (uploads[0].parts, uploads[0].thumbnail)
            assert (found.chat_id is not None, found.sequence > 1) == (True, True)
            due = await store.uploads.due(NOW + DAY_MS + LATE_BYTES_MS, 10)
            assert {visit.attachment_id for visit in due} == {u.attachment_id for u in uploads}


async def test_a_part_that_is_missing_is_missing_afterwards(places: Places, tmp_path: Path) -> None:
    here, there = await a_folder(tmp_path / "here"), await a_folder(tmp_path / "there")
    async with places.new("sqlite") as place, places.new("sqlite") as other:
        async with place.open() as store:
            upload, *_ = await fill_files(store, here)
        await here.delete(upload.attachment_id, [upload.parts[0].name])
        await import_with(other, there, await export_with(place, here))
        assert await bytes_in(there) == await bytes_in(here)
        assert b'"bytes"' not in await export_with(place, None)


async def test_an_import_that_was_killed_goes_on_with_whole_parts(
    places: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "STEP_FACTS", 1)
    here, there = await a_folder(tmp_path / "here"), await a_folder(tmp_path / "there")
    async with places.new("sqlite") as place, places.new("sqlite") as other:
        async with place.open() as store:
            await fill_files(store, here)
        export = await export_with(place, here)
        for write in range(1, 12):
            async with other.target() as target:
                dying = DiesWriting(target, write)
                with pytest.raises(Killed):
                    await import_all(dying, lines_of(export), lambda _: None, None, there)
        await import_with(other, there, export)
        assert await bytes_in(there) == await bytes_in(here)


def _bytes(name: str, start: int, size: int, attachment_id: str = "") -> BytesFact:
    of = attachment_id or an_upload(1).attachment_id
    return BytesFact(attachment_id=of, name=name, start=start, data=b"x" * size)


def test_lines_of_files_in_another_order_are_refused() -> None:
    made = an_upload(1, LARGE, 7)
    upload, (first, second) = converted(UploadFact, made), (part.name for part in made.parts)
    whole, rest = sealed_size(LARGE), sealed_size(LARGE) - LINE_DATA_BYTES
    begins = _bytes(first, 0, LINE_DATA_BYTES)
    good = export_of(upload, begins, _bytes(first, LINE_DATA_BYTES, rest), _bytes(second, 0, 35))
    assert check(lines_of(good)).counts["bytes"] == 3
    other = an_upload(2).attachment_id
    for facts in (
        [_bytes(first, 0, whole)],
        [upload, begins],
        [upload, begins, _bytes(second, 0, 35)],
        [upload, begins, _bytes(first, LINE_DATA_BYTES + 1, rest)],
        [upload, begins, _bytes(first, LINE_DATA_BYTES, rest + 1)],
        [upload, begins, converted(UploadFact, an_upload(2, 5))],
        [upload, _bytes(second, 0, 35), _bytes(second, 0, 35)],
        [upload, _bytes("f" * 16, 0, 35)],
        [upload, _bytes(second, 0, 35, other)],
        [upload, _bytes(second, 0, 0)],
    ):
        with pytest.raises(Damaged, match=r"may not|not a line|incomplete"):
            check(lines_of(export_of(*facts)))


@pytest.mark.parametrize(
    "change",
    [{"owner": "x"}, {"attachment_id": "../x"}, {"parts": [["../../x", 5]]}, {"chat_id": "x"}],
)
def test_names_that_no_server_made_are_refused(change: dict[str, object]) -> None:
    fact = converted(UploadFact, an_upload(1, 5), **change)
    with pytest.raises(Damaged):
        check(lines_of(export_of(fact)))

# SPDX-License-Identifier: Apache-2.0
"""Verification of files: each lost, changed and superfluous part is found, and nothing else."""

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from msgspec.structs import replace

from tests.contract.engines import Store
from tests.contract.moving_files import LARGE, a_folder, an_upload, bytes_in
from tests.contract.moving_ground import FolderPlace, Place, TablesPlace
from tests.support.clock import NOW
from tests.support.users import ANN
from tidings.actions.attachments.sealing import FileCipher
from tidings.actions.export.verifying import Unwrapping, Verified, verify_all
from tidings.actions.export.verifying_files import STRAY_MS
from tidings.assembly.system import SystemChance
from tidings.model.attachments import FRAME_BYTES, BlobPart, File, Upload
from tidings.model.limits import DAY_MS
from tidings.ports.attachments import Blobs
from tidings.ports.export_engines import Inspection
from tidings.ports.secrets import WrappedKey
from tidings.stores.dynamodb.export import inspecting as tables
from tidings.stores.sqlite.export.inspecting import open_inspection

SECRET = b"s" * 32
OLD = NOW + STRAY_MS + 1
"""A time at which the uploads are so old that the sweeper was there."""


class AsTheyAre:
    """Data keys that are not wrapped at all."""

    def unwrap(self, purpose: str, master_key_id: str, wrapped: bytes) -> bytes:
        return wrapped


AS_THEY_ARE = AsTheyAre()


async def a_file(store: Store, blobs: Blobs, number: int, *sizes: int) -> Upload:
    """An upload with its encrypted bytes."""
    upload = an_upload(number, *sizes, thumbnail=9)
    file = File(
        attachment_id=upload.attachment_id, name="x", content_type="a/b", size=1, key=b"k" * 32
    )
    bound_to = f"{ANN}\0upload\0{upload.attachment_id}".encode()
    text = msgspec.json.encode(file)
    box = b"n" * 12 + AESGCM(SECRET).encrypt(b"n" * 12, text, bound_to)
    upload = replace(upload, box=box)
    await store.uploads.create(upload, NOW + DAY_MS)
    cipher = FileCipher(file, SystemChance())
    for part in (*upload.parts, *filter(None, (upload.thumbnail,))):
        sizes_of_frames = [
            min(FRAME_BYTES, part.size - start) for start in range(0, part.size, FRAME_BYTES)
        ]
        frames = [
            cipher.seal(part.name, n, bytes([n]) * size) for n, size in enumerate(sizes_of_frames)
        ]
        await blobs.put(upload.attachment_id, part.name, frames)
    return upload


async def found_in(
    place: Place, blobs: Blobs, now: int = OLD, keys: Unwrapping | None = AS_THEY_ARE
) -> list[str]:
    async def check(store: Inspection) -> list[str]:
        every = verify_all(store, now, keys, lambda _: None, Verified(), blobs)
        return [f"{violation.where}: {violation.what}" async for violation in every]

    if isinstance(place, FolderPlace):
        async with open_inspection(place.folder) as store:
            return await check(store)
    assert isinstance(place, TablesPlace)
    async with place.client() as dynamo:
        return await check(await tables.open_inspection(dynamo))


@pytest.fixture
async def files(place: Place, tmp_path: Path) -> AsyncIterator[tuple[Blobs, list[Upload]]]:
    blobs = await a_folder(tmp_path / "attachments")
    async with place.open() as store:
        key = WrappedKey(author=ANN, generation=0, wrapped=SECRET, master_key_id="master1")
        await store.data_keys.add(key)
        uploads = [await a_file(store, blobs, 1, LARGE, 5), await a_file(store, blobs, 2, 7)]
    yield blobs, uploads


async def test_sound_files_have_no_violations(
    place: Place, files: tuple[Blobs, list[Upload]]
) -> None:
    assert await found_in(place, files[0]) == []
    assert await found_in(place, files[0], keys=None) == []


async def test_lost_and_changed_parts_are_found(
    place: Place, files: tuple[Blobs, list[Upload]]
) -> None:
    blobs, (first, second) = files
    (large, small), name = first.parts, first.attachment_id
    sound = await bytes_in(blobs)
    for part in (large, small):
        data = sound[name, part.name]
        assert data is not None
        for at in (0, len(data) // 2, len(data) - 1):
            changed = data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :]
            await blobs.put(name, part.name, [changed])
            assert await found_in(place, blobs) == [
                f"{ANN} {name}: part {part.name} of the file was changed"
            ]
        for keys in (AsTheyAre(), None):
            for other in (data[:-1], data + b"x"):
                await blobs.put(name, part.name, [other])
                assert [part.name in line for line in await found_in(place, blobs, keys=keys)] == [
                    True
                ]
        await blobs.put(name, part.name, [data])
    assert second.thumbnail is not None
    await blobs.delete(second.attachment_id, [second.thumbnail.name])
    lost = f"part {second.thumbnail.name} of the file is missing"
    assert await found_in(place, blobs) == [f"{ANN} {second.attachment_id}: {lost}"]


async def test_superfluous_bytes_are_found_once_the_sweeper_was_there(
    place: Place, files: tuple[Blobs, list[Upload]]
) -> None:
    blobs, (first, _) = files
    await blobs.put(first.attachment_id, "e" * 16, [b"stray"])
    nobodys = an_upload(7).attachment_id
    await blobs.put(nobodys, "f" * 16, [b"orphan"])
    assert await found_in(place, blobs, now=NOW) == []
    assert await found_in(place, blobs) == [
        f"{ANN} {first.attachment_id}: part {'e' * 16} belongs to no upload",
        f"{nobodys}: a file belongs to no upload",
    ]


async def test_a_file_that_goes_meanwhile_is_no_violation(
    place: Place, files: tuple[Blobs, list[Upload]], monkeypatch: pytest.MonkeyPatch
) -> None:
    blobs, (first, _) = files
    names, is_gone = blobs.names, False

    async def after_the_sweeper(attachment_id: str) -> list[str]:
        nonlocal is_gone
        if not is_gone:
            is_gone = True
            async with place.open() as store:
                await blobs.delete(first.attachment_id, await names(first.attachment_id))
                await store.uploads.remove(ANN, first.attachment_id)
        return await names(attachment_id)

    monkeypatch.setattr(blobs, "names", after_the_sweeper)
    assert await found_in(place, blobs) == []


async def test_a_changed_description_is_found(
    place: Place, files: tuple[Blobs, list[Upload]]
) -> None:
    blobs, (first, _) = files
    async with place.open() as store:
        thumbnail = BlobPart(first.parts[0].name, 1)
        assert await store.uploads.replace_thumbnail(first, thumbnail, b"x" * 40)
    found = await found_in(place, blobs)
    assert f"{ANN} {first.attachment_id}: what describes the file was changed" in found

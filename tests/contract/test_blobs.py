# SPDX-License-Identifier: Apache-2.0
"""The places for the bytes of attachments: a folder, and a bucket."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from string import ascii_lowercase

import pytest

from tests.support.buckets import S3_SERVERS, a_bucket_url, an_account
from tests.support.clock import ManualClock
from tidings.assembly.system import SystemChance, SystemClock
from tidings.aws import objects
from tidings.blobs.bucket import open_bucket_blobs, split_url
from tidings.blobs.folder import FolderBlobs
from tidings.model.refusals import StoreUnavailable
from tidings.model.setup_error import SetupError
from tidings.ports.attachments import Blobs

ONE, OTHER, NONE = "0" * 25 + "1", "0" * 25 + "2", "0" * 26
A, B, C = "a" * 16, "b" * 16, "c" * 16
PART = 16 * (256 * 1024 + 28)


@pytest.fixture(params=["folder", *S3_SERVERS])
async def blobs(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Blobs]:
    if request.param == "folder":
        opened = FolderBlobs(tmp_path / "attachments", ManualClock(), SystemChance())
        await opened.open(is_alone=True)
        yield opened
        return
    with an_account(request.getfixturevalue(request.param)):
        async with a_bucket(a_bucket_url()) as bucket:
            yield bucket


def a_bucket(url: str) -> AbstractAsyncContextManager[Blobs]:
    return open_bucket_blobs(url, clock=SystemClock(), chance=SystemChance())


async def test_parts_are_stored_read_listed_and_deleted(blobs: Blobs) -> None:
    await blobs.put(ONE, A, [b"hello ", b"world"])
    await blobs.put(ONE, B, [b"!"])
    await blobs.put(OTHER, A, [b"?"])
    assert await blobs.read(ONE, A, 0, 100) == b"hello world"
    assert await blobs.read(ONE, A, 6, 3) == b"wor"
    assert await blobs.read(ONE, A, 11, 3) == b""
    assert await blobs.read(ONE, C, 0, 1) is None
    buffer = bytearray(5)
    with blobs.part(ONE, A, 100) as part:
        assert await part.read_into(0, buffer) == 5
        assert buffer == b"hello"
        assert await part.read_into(9, buffer) == 2
        assert buffer[:2] == b"ld"
        assert await part.read_into(11, buffer) == 0
    with blobs.part(ONE, C, 100) as part:
        assert await part.read_into(0, buffer) is None
    assert sorted(await blobs.names(ONE)) == [A, B]
    assert [stored async for stored in blobs.all()] == [(ONE, (A, B)), (OTHER, (A,))]
    await blobs.delete(ONE, [A, C])
    assert await blobs.names(ONE) == [B]
    await blobs.delete(ONE, [B])
    assert (await blobs.names(ONE), await blobs.names(NONE)) == ([], [])
    assert [stored.attachment_id async for stored in blobs.all()] == [OTHER]


async def test_what_others_put_beside_the_parts_is_left_alone(tmp_path: Path) -> None:
    """A file manager, an interrupted copy or a network file system may leave files there."""
    blobs = FolderBlobs(tmp_path / "attachments", ManualClock(), SystemChance())
    await blobs.open(is_alone=True)
    await blobs.put(ONE, A, [b"x"])
    [place] = (tmp_path / "attachments").glob(f"*/{ONE}")
    foreign = place / ".DS_Store"
    foreign.write_bytes(b"")
    await check_only_part(blobs)
    assert foreign.exists()


async def test_an_object_that_stands_for_a_folder_is_left_alone(aws_endpoint: str) -> None:
    with an_account(aws_endpoint):
        url = a_bucket_url()
        async with a_bucket(url) as blobs:
            await blobs.put(ONE, A, [b"x"])
            name, prefix = split_url(url)
            async with objects.open_bucket(
                name, clock=SystemClock(), chance=SystemChance()
            ) as bucket:
                await bucket.put(f"{prefix}{ONE}/", [b""])
            await check_only_part(blobs)


async def check_only_part(blobs: Blobs) -> None:
    """Check that the only part of a file is listed, and can be deleted."""
    assert await blobs.names(ONE) == [A]
    assert [stored async for stored in blobs.all()] == [(ONE, (A,))]
    await blobs.delete(ONE, await blobs.names(ONE))
    assert await blobs.names(ONE) == []
    assert [stored async for stored in blobs.all()] == []


async def test_a_part_of_the_largest_size_is_read_in_ranges(blobs: Blobs) -> None:
    frames = [bytes([number]) * (PART // 16) for number in range(16)]
    await blobs.put(ONE, A, frames)
    assert await blobs.read(ONE, A, 0, PART + 1) == b"".join(frames)
    assert await blobs.read(ONE, A, PART // 16 - 1, 2) == b"\0\1"


@pytest.mark.parametrize("stop", [1, 2, 9, 10, 11, 26, 27])
async def test_a_part_is_read_piece_by_piece(blobs: Blobs, stop: int) -> None:
    letters = ascii_lowercase.encode()
    await blobs.put(ONE, A, [letters])
    buffer, read = bytearray(2), b""
    with blobs.part(ONE, A, stop) as part:
        for start in range(0, stop, 2):
            count = await part.read_into(start, buffer)
            assert count is not None
            read += buffer[:count]
        assert await part.read_into(0, buffer) is not None
    assert read[:stop] == letters[:stop]


async def test_a_bucket_is_asked_for_several_pieces_at_once(
    aws_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[tuple[int, int]]()
    get = objects.ObjectBucket.get

    async def counted(
        bucket: objects.ObjectBucket, key: str, start: int, size: int
    ) -> bytes | None:
        asked.append((start, size))
        return await get(bucket, key, start, size)

    monkeypatch.setattr(objects.ObjectBucket, "get", counted)
    with an_account(aws_endpoint):
        async with a_bucket(a_bucket_url()) as blobs:
            await blobs.put(ONE, A, [b"x" * 26])
            with blobs.part(ONE, A, 21) as part:
                for start in range(4, 21, 2):
                    await part.read_into(start, bytearray(2))
    assert asked == [(4, 8), (12, 8), (20, 1)]


async def test_more_parts_than_a_service_lists_at_once(
    blobs: Blobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objects, "KEYS_AT_ONCE", 2)
    names = [f"{number:016x}" for number in range(5)]
    for name in names:
        await blobs.put(ONE, name, [b"x"])
    assert sorted(await blobs.names(ONE)) == names
    assert [stored async for stored in blobs.all()] == [(ONE, tuple(names))]


@pytest.mark.parametrize("name", ["../../x", "/etc/passwd", "", "A" * 16, "a" * 17])
async def test_no_name_leaves_the_place(blobs: Blobs, name: str) -> None:
    with pytest.raises(AssertionError):
        await blobs.read(ONE, name, 0, 1)
    with pytest.raises(AssertionError):
        with blobs.part(ONE, name, 1) as part:
            await part.read_into(0, bytearray(1))
    with pytest.raises(AssertionError):
        await blobs.names(name)


async def test_a_bucket_that_cannot_be_used(
    aws_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for url in ("s3://", "s3:///prefix", "https://bucket"):
        with pytest.raises(SetupError, match="names no bucket"):
            split_url(url)
    monkeypatch.setattr(objects, "PAUSE_SECONDS_FIRST", 0.0)
    for endpoint in (aws_endpoint, "http://127.0.0.1:1"):
        with an_account(endpoint):
            async with a_bucket("s3://nowhere/x") as bucket:
                with pytest.raises(StoreUnavailable):
                    await bucket.put(ONE, A, [b"x"])
                with pytest.raises(StoreUnavailable):
                    await bucket.read(ONE, A, 0, 1)
                with pytest.raises(StoreUnavailable):
                    await bucket.delete(ONE, [A])
                with pytest.raises(StoreUnavailable):
                    [stored async for stored in bucket.all()]

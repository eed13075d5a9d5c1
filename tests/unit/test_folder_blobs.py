# SPDX-License-Identifier: Apache-2.0
"""The folder for the bytes of attachments: whole or not at all, and nothing outside of it."""

import os
from pathlib import Path

import pytest

from tests.support.clock import ManualClock
from tidings.assembly.system import SystemChance
from tidings.blobs.folder import UNFINISHED, UNFINISHED_SECONDS, FolderBlobs
from tidings.model.refusals import StoreUnavailable

ONE = "0" * 25 + "1"
A = "a" * 16


async def opened(folder: Path, *, is_alone: bool = True) -> FolderBlobs:
    blobs = FolderBlobs(folder / "attachments", ManualClock(), SystemChance())
    await blobs.open(is_alone=is_alone)
    return blobs


async def test_only_the_owner_of_the_folder_reads_it(tmp_path: Path) -> None:
    blobs = await opened(tmp_path)
    await blobs.put(ONE, A, [b"hello"])
    assert list((tmp_path / "attachments" / UNFINISHED).iterdir()) == []
    assert (tmp_path / "attachments").stat().st_mode & 0o077 == 0


async def test_what_a_crash_left_is_removed_at_the_next_start(tmp_path: Path) -> None:
    await opened(tmp_path)
    half = tmp_path / "attachments" / UNFINISHED / "half"
    half.write_bytes(b"half")
    seconds = ManualClock().now() / 1_000
    os.utime(half, (seconds, seconds))
    await opened(tmp_path, is_alone=False)  # another process may be writing it
    assert half.exists()
    os.utime(half, (seconds, seconds - UNFINISHED_SECONDS))
    await opened(tmp_path, is_alone=False)
    assert not half.exists()
    half.write_bytes(b"half")
    await opened(tmp_path)
    assert not half.exists()


async def test_a_disk_in_trouble_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blobs = await opened(tmp_path)

    def fail(_: int) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fail)
        with pytest.raises(StoreUnavailable):
            await blobs.put(ONE, A, [b"x"])
    assert await blobs.names(ONE) == []
    assert list((tmp_path / "attachments" / UNFINISHED).iterdir()) == []


@pytest.mark.parametrize("in_memory", [0, 3])
async def test_bytes_that_are_not_in_memory_are_read_from_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_memory: int
) -> None:
    blobs = await opened(tmp_path)
    await blobs.put(ONE, A, [b"hello world"])

    def read_some(_: int, buffers: list[bytearray], __: int, ___: int) -> int:
        if not in_memory:
            raise BlockingIOError
        return in_memory

    monkeypatch.setattr(os, "preadv", read_some)
    buffer = bytearray(8)
    with blobs.part(ONE, A, 11) as part:
        assert await part.read_into(0, buffer) == 8
        assert buffer == b"hello wo"
        assert await part.read_into(6, buffer) == 5
        assert buffer[:5] == b"world"


@pytest.mark.parametrize("name", ["../../x", "/etc/passwd", "", "A" * 16, "a" * 17])
async def test_no_path_leaves_the_folder(tmp_path: Path, name: str) -> None:
    blobs = await opened(tmp_path)
    with pytest.raises(AssertionError):
        await blobs.read(ONE, name, 0, 1)
    with pytest.raises(AssertionError):
        blobs.part(ONE, name, 1)
    with pytest.raises(AssertionError):
        await blobs.names(name)

# SPDX-License-Identifier: Apache-2.0
"""Free memory is given back to the system once the process has grown, and only then."""

import asyncio
import ctypes
from typing import Any, cast

import pytest

from tests.support.waiting import until
from tidings.assembly import process
from tidings.assembly.process import GROWTH_BYTES, Allocator, allocated_bytes, find_allocator


class FakeLibrary:
    """What it was told."""

    def __init__(self) -> None:
        self.options: dict[int, int] = {}
        self.trimmed: list[int] = []

    def mallopt(self, option: int, value: int) -> int:
        self.options[option] = value
        return 1

    def malloc_trim(self, kept: int) -> int:
        self.trimmed.append(kept)
        return 1


async def test_it_trims_when_the_process_has_grown(monkeypatch: pytest.MonkeyPatch) -> None:
    library, looks, held = FakeLibrary(), 0, 100 * GROWTH_BYTES

    def look() -> int:
        nonlocal looks
        looks += 1
        return held

    monkeypatch.setattr(process, "CHECK_SECONDS", 0)
    monkeypatch.setattr(process, "allocated_bytes", look)
    made = Allocator(cast("ctypes.CDLL", library))
    task = asyncio.create_task(made.run())
    try:
        await until(lambda: looks > 10)
        assert made.trims == 0
        held += GROWTH_BYTES
        await until(lambda: made.trims == 1)
        before = looks
        await until(lambda: looks > before + 10)
        assert library.trimmed == [0], "what stayed is in use"
    finally:
        task.cancel()
    assert library.options == {-3: process.LARGE_BYTES, -1: process.KEPT_BYTES}


def test_another_library_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def other(_name: Any) -> object:
        return object()

    monkeypatch.setattr(ctypes, "CDLL", other)
    assert find_allocator() is None
    monkeypatch.setattr("sys.platform", "darwin")
    assert find_allocator() is None


def test_what_is_held_is_found() -> None:
    before, blocks = allocated_bytes(), list[bytes]()
    # The first ones may fit into memory that earlier tests have used and left.
    while allocated_bytes() < before + 40_000_000 and len(blocks) < 20:
        blocks.append(b"x" * 50_000_000)
    assert allocated_bytes() > before + 40_000_000

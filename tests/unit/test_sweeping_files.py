# SPDX-License-Identifier: Apache-2.0
"""The sweeper of files: an upload that it cannot visit holds up no others."""

import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.unit.small_deployment import ALICE, SmallDeployment, open_small_deployment
from tests.unit.test_missing_master_key import PART, an_upload, sweep_of
from tidings.actions.attachments.sweeping import VISITED_AGAIN_MS
from tidings.assembly.system import SystemChance
from tidings.blobs.folder import FolderBlobs


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[SmallDeployment]:
    async with open_small_deployment(tmp_path / "data") as opened:
        yield opened


class WithAMistake(FolderBlobs):
    """A folder in which one attachment raises an error that nobody has foreseen."""

    broken = ""

    async def names(self, attachment_id: str) -> list[str]:
        if attachment_id == self.broken:
            raise ValueError("unforeseen")
        return await super().names(attachment_id)


async def test_a_foreign_file_stops_no_deletion(world: SmallDeployment) -> None:
    first, blobs = await an_upload(world)
    second, _ = await an_upload(world)
    [place] = (world.folder / "attachments").glob(f"*/{first.attachment_id}")
    (place / ".DS_Store").write_bytes(b"")
    await world.vault.erase(ALICE)
    assert await sweep_of(world, world.vault, blobs).sweep() == 2
    for upload in (first, second):
        assert await blobs.names(upload.attachment_id) == []
        assert await world.store.uploads.get(ALICE, upload.attachment_id) is None


async def test_a_visit_that_fails_unexpectedly_holds_up_no_others(
    world: SmallDeployment, caplog: pytest.LogCaptureFixture
) -> None:
    first, blobs = await an_upload(world)
    second, _ = await an_upload(world)
    await world.vault.erase(ALICE)
    trouble = WithAMistake(world.folder / "attachments", world.clock, SystemChance())
    trouble.broken = first.attachment_id
    sweep = sweep_of(world, world.vault, trouble)
    with caplog.at_level(logging.ERROR):
        assert await sweep.sweep() == 1
    assert [record.action for record in caplog.records] == ["file_sweep_failed"]  # type: ignore[attr-defined]
    assert await blobs.names(first.attachment_id) == [PART.name]
    assert await blobs.names(second.attachment_id) == []
    trouble.broken = ""
    assert await sweep.sweep() == 0, "its next visit is not due yet"
    world.clock.time += VISITED_AGAIN_MS
    assert await sweep.sweep() == 1
    assert await blobs.names(first.attachment_id) == []

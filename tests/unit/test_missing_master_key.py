# SPDX-License-Identifier: Apache-2.0
"""A process that lacks a master key: what it cannot decrypt is not erased, and nothing is lost."""

import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from tests.contract import builders
from tests.support.clock import NOW
from tests.unit.small_deployment import (
    ALICE,
    CHAT,
    SmallDeployment,
    open_small_deployment,
    read,
    sealed_message,
)
from tidings.actions.attachments.sealing import open_file, seal_file
from tidings.actions.attachments.sweeping import VISITED_AGAIN_MS, SweepAttachments
from tidings.actions.content.data_keys import ALONE
from tidings.actions.content.vault import Vault
from tidings.actions.content.wrapping import Wrapping, data_key_purpose
from tidings.assembly.system import SystemChance
from tidings.blobs.folder import FolderBlobs
from tidings.keyrings import EnvironmentKeyring
from tidings.model.attachments import AttachedFiles, BlobPart, File, Upload, files_to_bytes
from tidings.model.ids import ulid
from tidings.model.refusals import StoreUnavailable
from tidings.ports.secrets import MasterKeys

OLD = EnvironmentKeyring(b"o" * 32, None)
BOTH = EnvironmentKeyring(b"n" * 32, b"o" * 32)
PART = BlobPart("00" * 8, 3)


_numbers = itertools.count(1)


class AnyTime:
    """Bytes may be deleted at any time, because nobody makes a backup."""

    @contextmanager
    def deleting(self) -> Iterator[bool]:
        yield True


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[SmallDeployment]:
    async with open_small_deployment(tmp_path / "data", master=OLD) as opened:
        yield opened


async def a_process(world: SmallDeployment, master: MasterKeys) -> Vault:
    """The vault of another process on the same store."""
    store, clock = world.store, world.clock
    vault = Vault(store.data_keys, store.deployment, master, SystemChance(), clock, ALONE)
    await vault.start()
    return vault


async def rewrap(world: SmallDeployment) -> None:
    """Wrap Alice's data key by the new master key, as a rotation does."""
    key = await world.store.data_keys.current(ALICE)
    assert key is not None
    wrapping, purpose = Wrapping(BOTH, SystemChance()), data_key_purpose(ALICE)
    key_id, wrapped = wrapping.wrap(
        purpose, wrapping.unwrap(purpose, key.master_key_id, key.wrapped)
    )
    key = msgspec.structs.replace(key, wrapped=wrapped, master_key_id=key_id)
    await world.store.data_keys.rewrap([key])


async def an_upload(world: SmallDeployment) -> tuple[Upload, FolderBlobs]:
    """Another finished upload of Alice, which the sweeper is to visit now."""
    name = ulid(NOW, next(_numbers).to_bytes(10, "big"))
    file = File(attachment_id=name, name="a", content_type="x/y", size=3, key=b"k" * 32)
    sealed = await seal_file(world.vault, ALICE, file)
    upload = Upload(
        owner=ALICE,
        attachment_id=name,
        size=3,
        box=sealed.box,
        box_key=sealed.box_key,
        created_at=NOW,
        expires_at=NOW + VISITED_AGAIN_MS * 24,
        parts=(PART,),
    )
    await world.store.uploads.create(upload, NOW)
    blobs = FolderBlobs(world.folder / "attachments", world.clock, SystemChance())
    await blobs.open(is_alone=True)
    await blobs.put(name, PART.name, [b"abc"])
    return upload, blobs


def sweep_of(world: SmallDeployment, vault: Vault, blobs: FolderBlobs) -> SweepAttachments:
    store = world.store
    return SweepAttachments(
        store.uploads, blobs, store.log, store.scheduled, vault, world.clock, AnyTime()
    )


async def test_its_sweeper_deletes_no_file_and_looks_again(world: SmallDeployment) -> None:
    unsent, blobs = await an_upload(world)
    sent, _ = await an_upload(world)
    message = builders.message(ALICE)
    message.files = files_to_bytes(AttachedFiles((sent.attachment_id,), 1, b"sealed"))
    await builders.append(world.store, await builders.a_chat(world.store, ALICE), message)
    stale = await a_process(world, OLD)
    await rewrap(world)
    assert await sweep_of(world, stale, blobs).sweep() == 0
    right = await a_process(world, BOTH)
    for upload in (unsent, sent):
        assert await blobs.names(upload.attachment_id) == [PART.name]
        file = await open_file(right, upload)
        assert file is not None
        assert file.name == "a"

    await right.erase(ALICE)
    world.clock.time += VISITED_AGAIN_MS
    assert await sweep_of(world, await a_process(world, OLD), blobs).sweep() == 1
    assert await blobs.names(sent.attachment_id) == [], "a destroyed key is destroyed"


async def test_what_nobody_does_again_waits_for_the_master_key(world: SmallDeployment) -> None:
    entry = sealed_message(await world.vault.seal(ALICE, CHAT, "m1", "still here"))
    bound = await world.vault.seal_text(ALICE, "words", "walnut")
    stale = await a_process(world, OLD)
    await rewrap(world)
    key = (ALICE, bound.box_key)
    assert await stale.erased([key], loads_max=1) == {}, "it is not known to be destroyed"
    assert await read(stale, entry) == "<erased>", "readers get the rest of the page"
    assert await stale.open_text(ALICE, "words", bound) is None
    with pytest.raises(StoreUnavailable):
        await stale.open([entry], NOW, for_good=True)
    with pytest.raises(StoreUnavailable):
        await stale.open_bytes(ALICE, "words", bound, for_good=True)
    right = await a_process(world, BOTH)
    assert await read(right, entry) == "still here"

    await right.erase(ALICE)
    stale = await a_process(world, OLD)
    assert await stale.erased([key], loads_max=1) == {key: True}
    await stale.open([entry], NOW, for_good=True)
    assert entry.gone == "erased"
    assert await stale.open_bytes(ALICE, "words", bound, for_good=True) is None


async def test_a_changed_key_stops_nothing_and_is_not_destroyed(world: SmallDeployment) -> None:
    entry = sealed_message(await world.vault.seal(ALICE, CHAT, "m1", "mine"))
    key = await world.store.data_keys.current(ALICE)
    assert key is not None
    await world.store.data_keys.rewrap([msgspec.structs.replace(key, wrapped=b"x" * 60)])
    process = await a_process(world, OLD)
    await process.open([entry], NOW, for_good=True)
    assert entry.gone == "erased"
    assert await process.erased([(ALICE, key.generation)], loads_max=1) == {}

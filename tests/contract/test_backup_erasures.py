# SPDX-License-Identifier: Apache-2.0
"""Erasures that a backup of the embedded store does not have."""

import asyncio

from tests.contract.backup_bench import Bench
from tests.contract.test_backup import bench as bench
from tests.contract.test_backup import filled as filled
from tidings.actions.jobs.ledger import Erasures
from tidings.model.ids import user_key
from tidings.ports.secrets import WrappedKey
from tidings.stores.sqlite.identity.erasing import LEDGER


async def test_an_erasure_that_a_backup_did_not_see_is_carried_out_again(bench: Bench) -> None:
    """The backup was made between the record of the erasure and the erasure."""
    author = user_key("acme", "erased")
    async with bench.store.open() as store:
        key = WrappedKey(author=author, generation=0, wrapped=b"wrapped", master_key_id="m")
        await store.data_keys.add(key)
        async with Erasures(store.ledger, bench.clock).recorded("content", author):
            made = await asyncio.to_thread(bench.back_up)
            await store.data_keys.end(author, bench.clock.now())
        assert await store.ledger.unknown() == []
    restored = bench.restored(made.manifest, (bench.store.folder / LEDGER).read_bytes())
    async with restored.open() as store:
        assert [one.subject for one in await store.ledger.unknown()] == [author]

# SPDX-License-Identifier: Apache-2.0
"""Downloads take turns, so that many of them delay others no longer than one does."""

import asyncio

from tests.support.turns import counted_turns
from tidings.actions.attachments.transfers import Transfers


async def test_at_most_one_download_goes_on_in_a_turn_of_the_event_loop() -> None:
    transfers, went_on = Transfers(), list[tuple[int, str]]()

    async def download(name: str) -> None:
        for _ in range(3):
            await transfers.turn()
            went_on.append((turns[0], name))

    async with counted_turns() as turns:
        await asyncio.gather(*(download(name) for name in "abc"))
    at = [turn for turn, _ in went_on]
    assert sorted(set(at)) == at
    assert [name for _, name in went_on] == list("abcabcabc")

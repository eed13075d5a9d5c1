# SPDX-License-Identifier: Apache-2.0
"""Tasks with an owner: what ends does not begin anew when the owner closes."""

import asyncio

from tidings.tasks import Tasks


async def test_a_task_that_hands_on_to_the_next_ends_with_its_owner() -> None:
    tasks, begun = Tasks("relay race"), 0

    async def run() -> None:
        nonlocal begun
        begun += 1
        try:
            if begun == 1:
                await asyncio.Event().wait()
        finally:
            if begun < 100:
                tasks.start(run())

    tasks.start(run())
    await asyncio.sleep(0)
    await tasks.close()
    assert begun == 1


async def test_what_was_closed_may_begin_again() -> None:
    tasks, ended = Tasks("again"), asyncio.Event()

    async def run() -> None:
        ended.set()

    await tasks.close()
    tasks.start(run())
    await tasks.finish()
    assert ended.is_set()

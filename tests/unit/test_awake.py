# SPDX-License-Identifier: Apache-2.0
"""Keeping a core awake without being in anybody's way."""

import asyncio
import os
from pathlib import Path

import pytest

from bench.awake import kept_awake


def children() -> set[int]:
    tasks = Path("/proc/self/task").iterdir()
    return {int(pid) for task in tasks for pid in (task / "children").read_text().split()}


async def test_a_program_keeps_the_core_awake_and_is_gone_afterwards() -> None:
    before, core = children(), max(os.sched_getaffinity(0))
    async with asyncio.timeout(60), kept_awake(core):
        (awake,) = children() - before
        assert os.sched_getaffinity(awake) == {core}
        assert os.sched_getscheduler(awake) == os.SCHED_IDLE
    with pytest.raises(ProcessLookupError):
        os.kill(awake, 0)

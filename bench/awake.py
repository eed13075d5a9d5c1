# SPDX-License-Identifier: Apache-2.0
"""Keeps a core awake during a measurement.

The host of a virtual machine takes an idle core away, and the core is slow when it returns. On the
machine of our figures, the same piece of work takes 68 µs without a pause before it, 130 µs after a
pause of 0.2 ms, and 180 µs after a pause of 3 ms. A full load never pauses, but half of the load
pauses all the time. Half of the load would therefore seem to need three quarters of the CPU time.
In production, the kernel can be told to wait without sleeping. Here a program does this: it runs on
the core whenever no other program wants it.
"""

import asyncio
import os
import sys
from argparse import ArgumentParser
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

STEPS: Final = 100_000
"""Number of steps between two checks whether the parent process still exists. They take a few
milliseconds."""


@asynccontextmanager
async def kept_awake(core: int) -> AsyncIterator[None]:
    """Keep this core awake inside this context."""
    program = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.awake", str(core),
        stdout=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parents[1],
    )  # fmt: skip
    try:
        assert program.stdout is not None, "it is a pipe"
        await program.stdout.readline()
        yield
    finally:
        program.kill()
        await program.communicate()


def main() -> None:
    """Run an endless loop on one core at the lowest priority, until this process is killed."""
    parser = ArgumentParser(prog="bench.awake", description=__doc__)
    parser.add_argument("core", type=int)
    parent = os.getppid()
    os.sched_setaffinity(0, {parser.parse_args().core})
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    print("awake", flush=True)
    while os.getppid() == parent:  # whoever started it may have been killed
        for _ in range(STEPS):
            pass


if __name__ == "__main__":
    main()

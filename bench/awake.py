# SPDX-License-Identifier: Apache-2.0
"""A core that does not fall asleep.

A virtual core with nothing to do is given back to the host, and comes back cold: on the machine of
our figures the same piece of work costs 68 µs without a pause before it, 130 after a pause of a
fifth of a millisecond, 180 after three. A full load never pauses and half of it does all the time,
so that half of the load would seem to be three quarters of the work. Whoever cares about latency
has the kernel wait awake; here a program does, which runs only while nobody else wants the core.
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
"""Between two looks whether it is still wanted: a few milliseconds."""


@asynccontextmanager
async def kept_awake(core: int) -> AsyncIterator[None]:
    """Have this core always do something meanwhile."""
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
    """Turn in circles on one core until killed, whenever nobody else wants it."""
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

# SPDX-License-Identifier: Apache-2.0
"""The example of the README, run as it stands."""

import asyncio
import os
import re
import sys
from pathlib import Path

from tests.harness.people import Town

README = Path(__file__).parents[1] / "README.md"


async def test_the_example_works(town: Town, tmp_path: Path) -> None:
    await town.user("bob")
    (example,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert len([line for line in example.splitlines() if line]) <= 20
    script = tmp_path / "example.py"
    script.write_text(example.replace("http://127.0.0.1:8080", town.url))
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(script),
        stdout=asyncio.subprocess.PIPE,
        cwd=tmp_path,
        env={**os.environ, "TOKEN": await town.token("alice")},
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(20):
            assert await process.stdout.readline() == b"alice: Hello Bob!\n"
    finally:
        process.kill()
        await process.wait()

# SPDX-License-Identifier: Apache-2.0
"""The examples of the README, run as they stand."""

import asyncio
import os
import re
import sys
from pathlib import Path

from tests.harness.people import Town

README = Path(__file__).parents[1] / "README.md"


async def run(number: int, town: Town, folder: Path, **environment: str) -> list[str]:
    """The first lines that an example prints: the first example one, the second two."""
    examples = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert len(examples) == 2
    example: str = examples[number]
    assert len([line for line in example.splitlines() if line]) <= 20
    script = folder / "example.py"
    script.write_text(
        example.replace("http://127.0.0.1:8080", town.url).replace('"acme"', f'"{town.tenant}"')
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(script),
        stdout=asyncio.subprocess.PIPE,
        cwd=folder,
        env={**os.environ, **environment},
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(20):
            return [(await process.stdout.readline()).decode() for _ in range(number + 1)]
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_an_app(town: Town, tmp_path: Path) -> None:
    await town.user("bob")
    printed = await run(0, town, tmp_path, TOKEN=await town.token("alice"))
    assert printed == ["alice: Hello Bob!\n"]


async def test_a_backend(town: Town, tmp_path: Path) -> None:
    printed = await run(1, town, tmp_path, TIDINGS_TENANT_KEY=await town.tenant_key())
    assert printed[0] == "2 users\n"
    assert printed[1].startswith("Progress(")

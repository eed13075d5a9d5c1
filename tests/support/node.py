# SPDX-License-Identifier: Apache-2.0
"""Runs programs of Node."""

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path


async def run_in(
    folder: Path, tools: Path, *command: str, environment: Mapping[str, str] | None = None
) -> bytes:
    """Run a program that must succeed, and return its output."""
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", **(environment or {})},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    assert process.returncode == 0, said.decode()
    return said

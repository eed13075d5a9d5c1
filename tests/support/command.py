# SPDX-License-Identifier: Apache-2.0
"""Runs commands of `tidings` as processes of their own, which are forked like the servers."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.support.server_fork import Start, fork_server
from tests.support.waiting import until

COMMAND_SECONDS_MAX: Final = 100.0


@dataclass(frozen=True)
class Said:
    """What a command came to."""

    code: int
    out: bytes
    errors: str


async def tidings(
    *words: str | Path,
    environment: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    seconds: float = COMMAND_SECONDS_MAX,
) -> Said:
    """Type a command into a shell with these settings and no others."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith("TIDINGS_")}
    with TemporaryDirectory() as folder:
        given, out, errors = (Path(folder) / name for name in ("stdin", "stdout", "stderr"))
        given.write_bytes(stdin)
        process = fork_server(None).start(
            Start(
                arguments=[str(word) for word in words],
                environment=kept | dict(environment or {}),
                folder=folder,
                stdout=str(out),
                stderr=str(errors),
                stdin=str(given),
            )
        )
        try:
            await until(lambda: process.poll() is not None, seconds=seconds)
        finally:
            process.kill()
        code = process.poll()
        assert code is not None
        return Said(code, out.read_bytes(), errors.read_text())

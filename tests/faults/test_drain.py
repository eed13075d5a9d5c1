# SPDX-License-Identifier: Apache-2.0
"""A server told to stop under load: it goes in good order, and nothing is lost on the way."""

from pathlib import Path
from typing import Final

import pytest

from tests.faults.checker import check
from tests.faults.conftest import Say
from tests.faults.fault_run import crash_under_load
from tests.support.server import NO_LIMITS, ServerProcess

STOPS: Final = 4


@pytest.mark.slow
async def test_nothing_is_lost_when_the_server_is_told_to_stop(tmp_path: Path, say: Say) -> None:
    exit_codes: list[int] = []

    async def stop(server: ServerProcess) -> None:
        exit_codes.append(await server.terminate())

    server = ServerProcess(
        tmp_path / "data", environment={**NO_LIMITS, "TIDINGS_DRAIN_SECONDS": "0.3"}
    )
    async with server:
        history = await crash_under_load(
            server, seed=5, crashes=STOPS, spoilt_starts=0.0, crash=stop
        )
    verdict = check(history)
    say(f"told to stop: {verdict.counts}")
    assert verdict.violations == []
    assert exit_codes == [0] * STOPS
    assert [line for line in server.log_lines() if "exception" in line or "text" in line] == []

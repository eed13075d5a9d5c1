# SPDX-License-Identifier: Apache-2.0
"""SIGUSR1: the real server logs what it is doing, and goes on."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.integration.raw_socket import upgrade_request
from tests.support.server import ServerProcess
from tests.support.waiting import WAIT_SECONDS, until


async def dump(server: ServerProcess, number: int) -> list[dict[str, Any]]:
    """Ask for the state; return the log once it has this many dumps."""
    os.kill(server.pid, signal.SIGUSR1)

    def dumps() -> int:
        return [line.get("action") for line in server.log_lines()].count("state_end")

    await until(lambda: dumps() >= number)
    return server.log_lines()


@pytest.mark.slow
async def test_a_signal_logs_threads_tasks_loops_and_queues(tmp_path: Path) -> None:
    async with ServerProcess(
        tmp_path / "data", environment={"TIDINGS_LOG_LEVEL": "error"}
    ) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(upgrade_request(server.port))
        await reader.readuntil(b"\r\n\r\n")
        lines = await dump(server, 1)
        writer.close()
        loops = {line["step"]: line for line in lines if line.get("action") == "state_loop"}
        assert loops["Sweeper.sweep_when_due"]["group"] == "server"
        assert all((loop["failures"], loop["last_error"]) == (0, "") for loop in loops.values())
        queues = {line["queue"]: line for line in lines if line.get("action") == "state_queue"}
        assert queues.keys() >= {"writer", "appends", "connections", "reads of users"}
        connections = queues["connections"]
        assert (connections["connections"], connections["pending_bytes"]) == (1, 0)
        stacks = [frame for line in lines for frame in line.get("stack", ())]
        assert any("assembly/server.py" in frame and frame.endswith(" serve") for frame in stacks)
        texts = [str(line["text"]) for line in lines if "text" in line]
        assert "Stack (most recent call first):" in texts, "it is there while the loop is stuck"
        assert not any(text.startswith("Thread 0x") for text in texts), "reading them may crash"
        threads = {
            line["thread_name"]: line for line in lines if line.get("action") == "state_thread"
        }
        assert any("log_state" in frame for frame in threads["MainThread"]["stack"])
        assert len(threads) > 1

        await dump(server, 2)
        async with httpx.AsyncClient(
            base_url=server.url, trust_env=False, timeout=WAIT_SECONDS
        ) as http:
            assert (await http.get("/readyz")).status_code == 200
        log = (server.data / "server.log").read_text()
        assert server.root_key not in log
    assert server.exit_code == 0

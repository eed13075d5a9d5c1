# SPDX-License-Identifier: Apache-2.0
"""A server of one's own for a benchmark: pinned to one core, on a folder that goes away."""

import asyncio
import json
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import msgspec

SERVER_CORE = 0
LOAD_CORE = 1


class Target(msgspec.Struct, frozen=True):
    """A running server and the key to it."""

    url: str
    root_key: str
    pid: int

    def cpu_seconds(self) -> float:
        """How much processor time the server has used."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@asynccontextmanager
async def own_server() -> AsyncIterator[Target]:
    """Start a server on its own core and stop it afterwards."""
    with tempfile.TemporaryDirectory(prefix="tidings-bench-") as folder:
        data = Path(folder) / "data"
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tidings", "serve", "--port", "0", "--data", str(data),
            stdout=asyncio.subprocess.DEVNULL,
            env={**os.environ, "TIDINGS_DRAIN_SECONDS": "0", "TIDINGS_LOG_LEVEL": "warning"},
            preexec_fn=_on_core(SERVER_CORE),
        )  # fmt: skip
        try:
            url = await _address(data / "server.json", process)
            yield Target(url, (data / "root.key").read_text().strip(), process.pid)
        finally:
            if process.returncode is None:
                process.send_signal(signal.SIGTERM)
            await process.wait()


def pin_load() -> None:
    """Keep this process off the server's core, where there is more than one."""
    if (os.cpu_count() or 1) > 1:
        os.sched_setaffinity(0, {LOAD_CORE})


def _on_core(core: int):  # type: ignore[no-untyped-def]  # noqa: ANN202 - what Popen wants
    return (lambda: os.sched_setaffinity(0, {core})) if (os.cpu_count() or 1) > 1 else None


async def _address(path: Path, process: asyncio.subprocess.Process) -> str:
    async with asyncio.timeout(30):
        while not path.exists():
            if process.returncode is not None:
                raise SystemExit("the server did not start")
            await asyncio.sleep(0.02)
    return str(json.loads(path.read_text())["url"])


async def make_pairs(target: Target, pairs: int) -> list[tuple[str, str, str]]:
    """Two users and a direct chat for each pair: (chat, token of one, token of the other)."""
    root = {"Authorization": f"Bearer {target.root_key}"}
    async with httpx.AsyncClient(base_url=target.url, timeout=30) as http:
        (await http.put("/v1/tenants/bench", headers=root, json={})).raise_for_status()

        async def token(user: str) -> str:
            body = {"user_id": user, "expires_in": 86_400}
            answer = await http.post("/v1/tenants/bench/tokens", headers=root, json=body)
            return str(answer.raise_for_status().json()["token"])

        made = []
        for number in range(pairs):
            left, right = await token(f"a{number}"), await token(f"b{number}")
            answer = await http.post(
                "/v1/chats",
                headers={"Authorization": f"Bearer {left}"},
                json={"type": "direct", "members": [f"b{number}"]},
            )
            made.append((str(answer.raise_for_status().json()["chat_id"]), left, right))
        return made

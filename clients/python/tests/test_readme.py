# SPDX-License-Identifier: Apache-2.0
"""The examples of the README, run as they stand."""

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.support.people import Town
from tests.support.phones import new_number
from tests.support.server import ServerProcess
from tests.support.waiting import until

README = Path(__file__).parents[1] / "README.md"


def read(number: int) -> str:
    """An example of the README."""
    examples: list[str] = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert len(examples) == 5
    return examples[number]


@asynccontextmanager
async def running(
    number: int, town: Town, folder: Path, **environment: str
) -> AsyncIterator[asyncio.subprocess.Process]:
    """An example at work."""
    example = read(number)
    assert len([line for line in example.splitlines() if line]) <= 20
    script = folder / "example.py"
    script.write_text(
        example.replace("http://127.0.0.1:8080", town.url).replace('"acme"', f'"{town.tenant}"')
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(script),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        cwd=folder,
        env={**os.environ, **environment},
    )
    try:
        async with asyncio.timeout(60):
            yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def line_of(process: asyncio.subprocess.Process) -> str:
    """The next line that it prints."""
    assert process.stdout is not None
    return (await process.stdout.readline()).decode()


async def code_sent_to(number: str, server: ServerProcess) -> str:
    """The code that stands in the log for a number, once it does."""

    def codes() -> list[str]:
        sent = [line for line in server.log_lines() if line.get("action") == "sms"]
        return [str(line["text"])[:6] for line in sent if line["phone_number"] == number]

    return (await until(codes))[0]


async def test_an_app(town: Town, tmp_path: Path) -> None:
    await town.user("bob")
    async with running(0, town, tmp_path, TOKEN=await town.token("alice")) as app:
        assert await line_of(app) == "alice: Hello Bob!\n"


async def test_a_login(town: Town, server: ServerProcess, tmp_path: Path) -> None:
    await town.switch_on_phone_login()
    number = new_number()
    async with running(1, town, tmp_path) as app:
        assert app.stdin is not None
        app.stdin.write(f"{number}\n".encode())
        app.stdin.write(f"{await code_sent_to(number, server)}\n".encode())
        assert (await line_of(app)).endswith("[]\n")
    async with running(1, town, tmp_path) as again:
        assert await line_of(again) == "[]\n"


async def test_a_backend(town: Town, tmp_path: Path) -> None:
    key = await town.tenant_key()
    async with running(2, town, tmp_path, TIDINGS_TENANT_KEY=key) as backend:
        assert await line_of(backend) == "2 users\n"
        assert (await line_of(backend)).startswith("Progress(")


async def test_many_chats(town: Town, tmp_path: Path) -> None:
    alice, bob = await town.user("alice"), await town.user("bob")
    chat = await alice.create_direct(bob)
    async with alice.device() as device:
        await device.send(chat, "Hello Bob!")
    async with running(3, town, tmp_path, TOKEN=bob.token) as app:
        assert await line_of(app) == "2 entries\n"
        assert await line_of(app) == "alice: Hello Bob!\n"


def test_a_service_refuses_webhooks_that_are_not_genuine() -> None:
    names: dict[str, Any] = {}
    exec(read(4), names)
    assert names["handle"]({"webhook-id": "m", "webhook-timestamp": "1"}, b"{}") == 400

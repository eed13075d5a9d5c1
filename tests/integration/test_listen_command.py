# SPDX-License-Identifier: Apache-2.0
"""`tidings listen`: events of a running server reach a program that the server cannot reach."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
from aiohttp import web

from tests.support.hook_server import open_hook
from tests.support.people import Town
from tests.support.server import ServerProcess
from tests.support.waiting import WAIT_SECONDS, until
from tidings_client import WebhookReceiver


@asynccontextmanager
async def listening(
    folder: Path, key: str, *words: str
) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """The command at work, and the secret with which it signs; it ends when it is asked to.

    Ctrl-C does the same, but a test run in the background hands on that it is ignored.
    """
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tidings", "listen", "--data", str(folder), *words),
        env={**os.environ, "TIDINGS_TENANT_KEY": key},
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        first = (await process.stdout.readline()).decode()
        yield process, first.split()[-1]
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_events_are_forwarded_as_they_would_be_posted(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    async with (
        ServerProcess(folder) as server,
        Town(server.url, server.root_key, "acme") as town,
        open_hook() as hook,
    ):
        ann, bob = await town.user("ann"), await town.user("bob")
        chat = await ann.create_direct(bob)
        key = await town.tenant_key()
        words = ("--tenant", "acme", "--forward", hook.url, "--events", "message.created")
        hook.answer = web.Response(status=503)
        async with listening(folder, key, *words) as (_, secret):
            await ann.send(chat, "one")
            await until(lambda: len(hook.bodies) > 1)  # it is forwarded again
            hook.answer = None
            await ann.send(chat, "two")
            await until(lambda: hook.asked[-1]["content"] == "two")
            receiver = WebhookReceiver(secret)
            heard = zip(hook.headers, hook.bodies, strict=True)
            events = {one.webhook_id: one for one in (receiver.verify(*it) for it in heard)}
            assert [one.data["content"] for one in events.values()] == ["one", "two"]
            assert all(name.endswith(f"{chat}.{n}") for n, name in enumerate(events, 2))
        headers = {"Authorization": f"Bearer {key}"}
        async with httpx.AsyncClient(
            base_url=server.url, trust_env=False, timeout=WAIT_SECONDS
        ) as http:
            left = await http.get("/v1/tenants/acme/webhooks", headers=headers)
        assert left.json()["data"] == [], "the endpoint ends with the command"

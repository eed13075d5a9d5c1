# SPDX-License-Identifier: Apache-2.0
"""The example backends, in front of a real server: tokens, a notification, and webhooks."""

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from scripts.services import node_tools
from scripts.services.obtaining import Unavailable
from scripts.services.ports import free_port
from tests.support.people import Town
from tests.support.server import ServerProcess
from tests.support.services import do_without
from tests.support.waiting import WAIT_SECONDS, until
from tidings.model.webhooks import EVENT_TYPES

EXAMPLES: Final = Path(__file__).parents[2] / "examples"


def with_fastapi(request: pytest.FixtureRequest, folder: Path) -> list[str]:
    """The command that starts the backend in Python."""
    try:
        import fastapi  # noqa: F401
    except ImportError as error:
        do_without(request.config, "fastapi", str(error))
    return [sys.executable, str(EXAMPLES / "fastapi_backend" / "backend.py")]


def with_express(request: pytest.FixtureRequest, folder: Path) -> list[str]:
    """The command that starts the backend in JavaScript, beside the packages that it needs."""
    try:
        packages = node_tools.obtain(EXAMPLES).parent
    except Unavailable as error:
        do_without(request.config, node_tools.NAME, str(error))
    modules = folder / "node_modules"
    (modules / "@tidings").mkdir(parents=True)
    (modules / "@tidings" / "client").symlink_to(node_tools.CLIENT)
    (modules / "express").symlink_to(packages / "express")
    program = folder / "backend.mjs"
    program.write_text((EXAMPLES / "express_backend" / "backend.js").read_text())
    return [node_tools.node(), str(program)]


class Backend:
    """A running example, and the tenant that it works for."""

    def __init__(self, port: int, server: ServerProcess, key: str) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.http = httpx.AsyncClient(base_url=self.url, trust_env=False, timeout=WAIT_SECONDS)
        headers = {"Authorization": f"Bearer {key}"}
        self.tidings = httpx.AsyncClient(
            base_url=f"{server.url}/v1/tenants/acme",
            headers=headers,
            trust_env=False,
            timeout=WAIT_SECONDS,
        )

    async def is_open(self) -> bool:
        """Whether it answers."""
        try:
            return (await self.http.get("/token")).status_code == 401
        except httpx.TransportError:
            return False

    async def ask(self, method: str, path: str, body: object = None) -> Any:
        """What Tidings answers to the tenant."""
        answer = await self.tidings.request(method, path, json=body)
        assert answer.is_success, answer.text
        return answer.json()


@pytest.fixture(params=[with_fastapi, with_express], ids=["fastapi", "express"])
async def backend(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Backend]:
    make: Callable[[pytest.FixtureRequest, Path], list[str]] = request.param
    command = make(request, tmp_path)
    async with opened(command, tmp_path) as running:
        yield running


@asynccontextmanager
async def opened(command: list[str], folder: Path) -> AsyncIterator[Backend]:
    """Run a server, and the example with the secret of an endpoint that leads to it."""
    port = free_port()
    allowed = {"TIDINGS_OUTGOING_ALLOW": "127.0.0.1/32"}
    async with (
        ServerProcess(folder / "data", environment=allowed) as server,
        Town(server.url, server.root_key, "acme") as town,
    ):
        key = await town.tenant_key()
        backend = Backend(port, server, key)
        endpoint = {"url": f"{backend.url}/hook", "events": list(EVENT_TYPES)}
        made = await backend.ask("PUT", "/webhooks/shop", endpoint)
        settings = {
            "SERVER_URL": server.url,
            "TIDINGS_TENANT_KEY": key,
            "WEBHOOK_SECRET": made["secret"],
            "PORT": str(port),
        }
        with subprocess.Popen(command, env={**os.environ, **settings}) as process:
            try:
                await until(backend.is_open)
                yield backend
            finally:
                process.terminate()
                await backend.http.aclose()
                await backend.tidings.aclose()


async def test_a_backend_does_what_a_product_needs(backend: Backend) -> None:
    await backend.http.get("/sign-in?user=ann")
    token = (await backend.http.get("/token")).text
    headers = {"Authorization": f"Bearer {token}"}
    server = backend.tidings.base_url.copy_with(path="/v1/me")
    assert (await backend.tidings.get(server, headers=headers)).json()["user_id"] == "ann"

    shipped = [await backend.http.post("/orders/17/shipped?user=ann") for _ in range(2)]
    assert [one.status_code for one in shipped] == [202, 202]
    assert shipped[0].json() == shipped[1].json(), "nobody is notified twice"
    posted = await backend.ask("GET", "/inboxes/orders/notifications")
    assert [one["id"] for one in posted["data"]] == [shipped[0].json()["notification_id"]]

    tried = await backend.ask("POST", "/webhooks/shop/test")
    assert (tried["state"], tried["status"]) == ("delivered", 204)
    forged = {
        "webhook-id": "shop.1",
        "webhook-timestamp": "1700000000",
        "webhook-signature": "v1,AAAA",
    }
    refused = await backend.http.post("/hook", content=b"{}", headers=forged)
    assert refused.status_code == 400
    types = [one["type"] for one in (await backend.http.get("/events")).json()]
    assert "webhook.test" in types

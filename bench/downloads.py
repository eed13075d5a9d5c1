# SPDX-License-Identifier: Apache-2.0
"""Measures downloads of attachments, next to a plain static file server on the same core.

A static server lets the kernel send the file. Tidings reads encrypted frames, decrypts them, and
checks the membership of the reader before each part.
"""

import asyncio
import os
import socket
import statistics
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from time import perf_counter
from typing import Final
from urllib.parse import urlsplit

import aiohttp
import msgspec

from bench.server import SERVER_CORE, Target, on_core, own_folder, own_server

FILE_BYTES: Final = 32 * 1024 * 1024
ROUNDS: Final = 10
_STATIC: Final = """
import sys
from aiohttp import web
app = web.Application()
app.router.add_static("/", sys.argv[1])
web.run_app(app, host="127.0.0.1", port=int(sys.argv[2]), print=None)
"""


class Rate(msgspec.Struct, frozen=True):
    """How fast one server is."""

    mb_s: float
    """Megabytes per second, the median of all rounds."""
    cpu_ms_per_mb: float
    """CPU time of the server for a megabyte, on which other programs have little influence."""


class DownloadFigures(msgspec.Struct, frozen=True):
    """Rates of both servers."""

    attachment: Rate
    static: Rate


def add_options(parser: ArgumentParser) -> None:
    """Add the options of the benchmark."""
    parser.add_argument("--bytes", type=int, default=FILE_BYTES, help="size of the file")


async def run(options: Namespace) -> DownloadFigures:
    """Download a file from both servers in turn, and compare."""
    data = os.urandom(options.bytes)
    with own_folder() as folder:
        (folder / "file").write_bytes(data)
        async with (
            own_server() as target,
            _static_server(folder) as static,
            aiohttp.ClientSession() as http,
        ):
            url, headers = await _attachment(http, target, data)
            began = (target.cpu_seconds(), static.cpu_seconds())
            both: list[tuple[float, float]] = []
            for _ in range(ROUNDS):
                ours = await _rate(url, headers, len(data))
                both.append((ours, await _rate(f"{static.url}/file", {}, len(data))))
            used = (target.cpu_seconds() - began[0], static.cpu_seconds() - began[1])
    rates = [
        Rate(statistics.median(each), 1e3 * cpu / (ROUNDS * len(data) / 1e6))
        for each, cpu in zip(zip(*both, strict=True), used, strict=True)
    ]
    for name, rate in zip(("attachment", "static file"), rates, strict=True):
        print(f"{name}: {rate.mb_s:,.0f} MB/s, {rate.cpu_ms_per_mb:.2f} ms of CPU per MB")
    return DownloadFigures(*rates)


async def _attachment(
    http: aiohttp.ClientSession, target: Target, data: bytes
) -> tuple[str, dict[str, str]]:
    """Send a file with a message; return its address, and the headers with which to read it."""

    async def call(method: str, path: str, key: str, **more: object) -> dict[str, str]:
        headers = {"Authorization": f"Bearer {key}"}
        url = target.url + path
        async with http.request(method, url, headers=headers, **more) as answer:  # type: ignore[arg-type]
            answer.raise_for_status()
            return dict(await answer.json()) if answer.content_type.endswith("json") else {}

    root, tenant = target.root_key, "/v1/tenants/bench"
    await call("PUT", tenant, root, json={})
    key = (await call("POST", f"{tenant}/keys", root))["key"]
    tokens = {}
    for user in ("ann", "ben"):
        made = await call("POST", f"{tenant}/tokens", key, json={"user_id": user})
        tokens[user] = made["token"]
    ann = tokens["ann"]
    chat = (await call("POST", "/v1/chats", ann, json={"type": "direct", "members": ["ben"]}))[
        "chat_id"
    ]
    file = {"name": "file", "content_type": "application/x-bench", "size": len(data)}
    upload = await call("POST", "/v1/attachments", ann, json=file)
    await call("PUT", upload["upload_url"], ann, data=data)
    name = upload["attachment_id"]
    message = {"client_message_id": "m1", "content": "", "attachments": [name]}
    sent = await call("POST", f"/v1/chats/{chat}/messages", ann, json=message)
    path = f"/v1/chats/{chat}/messages/{sent['sequence']}/attachments/{name}"
    return target.url + path, {"Authorization": f"Bearer {tokens['ben']}"}


async def _rate(url: str, headers: dict[str, str], size: int) -> float:
    return await asyncio.to_thread(_megabytes_per_second, url, headers, size)


def _megabytes_per_second(url: str, headers: dict[str, str], size: int) -> float:
    """Download a file into a buffer of fixed size, which costs far less than an HTTP client."""
    place = urlsplit(url)
    lines = "".join(f"{name}: {text}\r\n" for name, text in headers.items())
    request = f"GET {place.path} HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n{lines}\r\n"
    buffer, received = bytearray(1024 * 1024), 0
    with socket.create_connection((place.hostname, place.port)) as connection:
        began = perf_counter()
        connection.sendall(request.encode())
        while count := connection.recv_into(buffer):
            received += count
        taken = perf_counter() - began
    assert received > size, bytes(buffer[:200])
    return size / 1e6 / taken


@asynccontextmanager
async def _static_server(folder: Path) -> AsyncIterator[Target]:
    port = 18_765
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _STATIC, str(folder), str(port), preexec_fn=on_core(SERVER_CORE)
    )
    try:
        await _until_open(port)
        yield Target(f"http://127.0.0.1:{port}", "", process.pid)
    finally:
        process.terminate()
        await process.wait()


async def _until_open(port: int) -> None:
    async with asyncio.timeout(30):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.05)
            else:
                writer.close()
                return

# SPDX-License-Identifier: Apache-2.0
"""Measures downloads of attachments, next to nginx with the same file on the same core.

Tidings reads encrypted frames, decrypts them, and checks the membership of the reader now and then.
nginx runs twice: as it comes, when it reads the file and writes it to the socket, and with
`sendfile`, when the kernel does both and no byte of the file reaches the program.

How fast a processor decrypts differs by a factor of four between processors of the same clock, so
the decryption is measured alone, too.
"""

import asyncio
import os
import socket
import statistics
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter, process_time
from typing import ClassVar, Final
from urllib.parse import urlsplit

import aiohttp
import msgspec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from bench.peers.processes import with_children
from bench.server import SERVER_CORE, Target, own_folder, own_server
from scripts.services.ports import HOST
from scripts.services.proxies import Nginx
from tidings.actions.attachments.sealing import FILE_KEY_BYTES
from tidings.actions.content.wrapping import NONCE_BYTES
from tidings.model.attachments import FRAME_BYTES

FILE_BYTES: Final = 100 * 1024 * 1024
ROUNDS: Final = 10
FILE: Final = "file"
FRAMES: Final = 400


class Rate(msgspec.Struct, frozen=True):
    """How fast one server is."""

    mb_s: float
    """Megabytes per second, the median of all rounds."""
    cpu_ms_per_mb: float
    """CPU time of the server for a megabyte, on which other programs have little influence."""


class DownloadFigures(msgspec.Struct, frozen=True):
    """Rates of all servers."""

    attachment: Rate
    nginx: Rate
    sendfile: Rate
    decryption_ms_per_mb: float
    """CPU time of the decryption alone. An attachment costs at least this, and what nginx needs."""


def add_options(parser: ArgumentParser) -> None:
    """Add the options of the benchmark."""
    parser.add_argument("--bytes", type=int, default=FILE_BYTES, help="size of the file")


class StaticNginx(Nginx):
    """nginx with the files of a folder, with or without `sendfile`."""

    scheme: ClassVar[str] = "http"

    def __init__(self, folder: Path, *, sendfile: bool) -> None:
        super().__init__(folder, 0, folder, folder)
        self._sendfile = "on" if sendfile else "off"

    def configured(self) -> Path:
        """Return a file that declares the folder as a site."""
        path = self.folder / "site.conf"
        path.write_text(
            f"server {{ listen {HOST}:{self.port}; root {self.folder}; "
            f"sendfile {self._sendfile}; }}"
        )
        return path

    def target(self) -> Target:
        """Move all processes to the core of the servers, and return them."""
        for pid in with_children(self.pid):
            os.sched_setaffinity(pid, {SERVER_CORE})
        return Target(self.address, "", self.pid)


async def run(options: Namespace) -> DownloadFigures:
    """Download a file from all servers in turn, and compare."""
    data = os.urandom(options.bytes)
    with own_folder() as folder:
        copying = StaticNginx(folder / "copying", sendfile=False)
        sending = StaticNginx(folder / "sending", sendfile=True)
        for static in (copying, sending):
            static.folder.mkdir()
            (static.folder / FILE).write_bytes(data)
        with copying, sending:
            async with own_server() as target, aiohttp.ClientSession() as http:
                url, headers = await _attachment(http, target, data)
                targets = (target, copying.target(), sending.target())
                statics = [(f"{static.url}/{FILE}", dict[str, str]()) for static in targets[1:]]
                rates = await _rates(targets, [(url, headers), *statics], len(data))
    names = ("attachment", "nginx", "nginx with sendfile")
    for name, rate in zip(names, rates, strict=True):
        print(f"{name:20} {rate.mb_s:6,.0f} MB/s, {rate.cpu_ms_per_mb:.2f} ms of CPU per MB")
    decrypting = decryption_ms_per_mb()
    most = rates[1].cpu_ms_per_mb / (rates[1].cpu_ms_per_mb + decrypting)
    print(f"decryption alone: {decrypting:.2f} ms of CPU per MB")
    ratio = rates[0].mb_s / rates[1].mb_s
    print(f"attachment: {ratio:.0%} of nginx; with this decryption at most {most:.0%} are possible")
    return DownloadFigures(rates[0], rates[1], rates[2], decrypting)


def decryption_ms_per_mb() -> float:
    """Return the least CPU time that the processor needs to decrypt a megabyte, in frames."""
    cipher, nonce = AESGCM(bytes(FILE_KEY_BYTES)), bytes(NONCE_BYTES)
    room = bytearray(FRAME_BYTES)
    sealed, least = cipher.encrypt(nonce, room, None), float("inf")
    for _ in range(FRAMES):
        began = process_time()
        cipher.decrypt_into(nonce, sealed, None, room)
        least = min(least, process_time() - began)
    return 1e3 * least / (FRAME_BYTES / 1e6)


async def _rates(
    targets: Sequence[Target], asked: Sequence[tuple[str, dict[str, str]]], size: int
) -> list[Rate]:
    """Return the rate of each server; each round asks all of them."""
    began = [target.cpu_seconds() for target in targets]
    rounds = [[await _rate(url, headers, size) for url, headers in asked] for _ in range(ROUNDS)]
    used = [target.cpu_seconds() - before for target, before in zip(targets, began, strict=True)]
    return [
        Rate(statistics.median(each), 1e3 * cpu / (ROUNDS * size / 1e6))
        for each, cpu in zip(zip(*rounds, strict=True), used, strict=True)
    ]


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
    """Return how many megabytes per second a download gets."""
    taken = await asyncio.to_thread(seconds_to_read, url, headers, size)
    return size / 1e6 / taken


def seconds_to_read(url: str, headers: dict[str, str], size: int) -> float:
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
    return taken

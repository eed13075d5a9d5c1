# SPDX-License-Identifier: Apache-2.0
"""A large file goes through the server and back, and the server needs little memory for it."""

import hashlib
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest

from tests.faults.conftest import Say
from tests.support.people import Town
from tests.support.server import NO_LIMITS, ServerProcess
from tidings.model.attachments import MIB

SIZE: Final = 1024 * MIB
PIECE: Final = bytes(range(256)) * 4096
TRANSFER_BYTES_MAX: Final = 32 * MIB


def memory(pid: int, name: str) -> int:
    """Bytes of memory that a process has now (`VmRSS`), or had at most (`VmHWM`)."""
    found = re.search(rf"{name}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


async def pieces() -> AsyncIterator[bytes]:
    for number in range(SIZE // len(PIECE)):
        yield number.to_bytes(4, "big") + PIECE[4:]


@pytest.mark.soak
async def test_a_gibibyte_needs_little_memory(tmp_path: Path, say: Say) -> None:
    settings = {**NO_LIMITS, "TIDINGS_ATTACHMENTS_BYTES_MAX": str(SIZE)}
    async with ServerProcess(tmp_path / "data", environment=settings) as server:
        async with Town(server.url, server.root_key) as town:
            ann, bob = await town.user("ann"), await town.user("bob")
            chat = await ann.create_direct(bob)
            body = {"name": "film", "content_type": "video/mp4", "size": SIZE}
            made = await ann.call("POST", "/v1/attachments", body)
            before = memory(server.pid, "VmRSS")
            Path(f"/proc/{server.pid}/clear_refs").write_text("5")  # begins a new VmHWM
            own = {"Authorization": f"Bearer {ann.token}", "Content-Length": str(SIZE)}
            put = await town.http.put(made["upload_url"], content=pieces(), headers=own)
            assert put.status_code == 204
            uploading = memory(server.pid, "VmHWM") - before

            files = [made["attachment_id"]]
            new = {"client_message_id": "m1", "content": "", "attachments": files}
            message = await ann.call("POST", f"/v1/chats/{chat}/messages", new)
            path = f"/v1/chats/{chat}/messages/{message['sequence']}/attachments/{files[0]}"
            expected, found = hashlib.sha256(), hashlib.sha256()
            async for piece in pieces():
                expected.update(piece)
            reader = {"Authorization": f"Bearer {bob.token}"}
            async with town.http.stream("GET", path, headers=reader) as answer:
                async for data in answer.aiter_raw():
                    found.update(data)
            assert found.digest() == expected.digest()
            both = memory(server.pid, "VmHWM") - before
            say(f"{uploading // MIB} MiB more to upload a GiB, {both // MIB} MiB with the download")
            assert both < TRANSFER_BYTES_MAX

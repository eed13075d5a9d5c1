# SPDX-License-Identifier: Apache-2.0
"""Files and SIGKILL: nobody sees half a file, what was acknowledged is whole, nothing is left."""

import asyncio
import random
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.faults.conftest import Say
from tests.support.clock import ManualClock
from tests.support.people import Person, Town
from tests.support.server import NO_LIMITS, ServerProcess
from tests.support.settings import config_of
from tests.support.waiting import until
from tidings.actions.export.verifying import Verified, verify_all
from tidings.assembly.core import open_core
from tidings.assembly.system import SystemClock
from tidings.blobs.folder import UNFINISHED
from tidings.data_folder import ATTACHMENTS
from tidings.model.attachments import PART_BYTES
from tidings.model.limits import DAY_MS
from tidings.stores.sqlite.export.inspecting import open_inspection

UPLOADERS = 3
MOMENT_SECONDS_MAX = 0.5
ABANDONED = 0.3
"""Share of the uploads that nobody sends."""
CUTS = 100
PIECE = 40_000
"""Bytes that arrive before a cut: enough to be worth a part."""


class Uploader:
    """Uploads files and sends them, each request again until there is an answer."""

    def __init__(self, person: Person, chat: str, seed: int) -> None:
        self._person = person
        self._chat = chat
        self._chance = random.Random(seed)
        self.is_stopping = False
        self.sent: list[tuple[dict[str, Any], bytes]] = []
        """The acknowledged messages, each with the bytes of its file."""

    async def run(self) -> None:
        while not self.is_stopping:
            data = self._chance.randbytes(self._chance.randrange(1, PART_BYTES + PART_BYTES // 2))
            body = {"name": "x", "content_type": "a/b", "size": len(data)}
            made = await self._until_answered("POST", "/v1/attachments", json=body)
            await self._upload(made.json()["upload_url"], data)
            if self._chance.random() < ABANDONED:
                continue
            key = f"{self._person.user_id}-{len(self.sent)}"
            files = [made.json()["attachment_id"]]
            new = {"client_message_id": key, "content": "", "attachments": files}
            path = f"/v1/chats/{self._chat}/messages"
            self.sent.append(((await self._until_answered("POST", path, json=new)).json(), data))

    async def _upload(self, url: str, data: bytes) -> None:
        offset = 0
        while offset < len(data):
            rest = {"content": data[offset:], "headers": {"Upload-Offset": str(offset)}}
            answer = await self._until_answered("PATCH", url, **rest)
            offset = int(answer.headers["upload-offset"])

    async def _until_answered(self, method: str, path: str, **more: Any) -> httpx.Response:
        """Answer of a request, which is repeated while the server is gone."""
        headers = {"Authorization": f"Bearer {self._person.token}", **more.pop("headers", {})}
        answers: list[httpx.Response] = []

        async def is_answered() -> bool:
            try:
                found = await self._person.town.http.request(method, path, headers=headers, **more)
            except httpx.TransportError:
                return False
            answers.append(found)
            return found.status_code != 503

        await until(is_answered, seconds=120)
        assert answers[-1].status_code in (200, 201, 204, 409), answers[-1].text
        return answers[-1]


async def kill_run(folder: Path, say: Say, *, seed: int, kills: int) -> None:
    chance = random.Random(seed)
    async with ServerProcess(folder, environment=NO_LIMITS) as server:
        async with Town(server.url, server.root_key) as town:
            people = [await town.user(f"user{number}") for number in range(UPLOADERS)]
            chat = await people[0].create_group("Files", people[1:])
            uploaders = [Uploader(person, chat, seed + n) for n, person in enumerate(people)]
            async with asyncio.TaskGroup() as group:
                for uploader in uploaders:
                    group.create_task(uploader.run())
                for _ in range(kills):
                    await asyncio.sleep(chance.uniform(0.05, MOMENT_SECONDS_MAX))
                    await server.restart()
                for uploader in uploaders:
                    uploader.is_stopping = True
            sent = [pair for uploader in uploaders for pair in uploader.sent]
            await check_sent(people[1], chat, sent)
    uploads, left = await swept(folder)
    say(f"{len(sent)} files sent, {kills} kills; the sweep left {left} of {uploads} uploads")
    assert uploads > left == len(sent)


async def check_sent(reader: Person, chat: str, sent: list[tuple[dict[str, Any], bytes]]) -> None:
    """Check that the log has what was acknowledged and nothing else, and every file is whole."""
    entries = [one for one in await reader.log(chat) if one["kind"] == "message"]
    assert {one["sequence"] for one in entries} == {message["sequence"] for message, _ in sent}
    for message, data in sent:
        (file,) = message["attachments"]
        path = f"/v1/chats/{chat}/messages/{message['sequence']}/attachments/"
        answer = await reader.request("GET", path + file["attachment_id"])
        assert answer.content == data


async def swept(folder: Path) -> tuple[int, int]:
    """Sweep when all uploads are over; return how many there were, and how many are left."""
    clock = ManualClock()
    clock.time = SystemClock().now() + 3 * DAY_MS
    broken: list[Exception] = []
    async with open_core(config_of(data=folder), broken.append, clock=clock) as core:
        blobs = core.files.sweep.blobs
        before = [stored async for stored in blobs.all()]
        await core.files.sweep.sweep()
        async with open_inspection(folder) as store:
            verified = Verified()
            every = verify_all(store, clock.time, None, lambda _: None, verified, blobs)
            assert [violation async for violation in every] == []
        after = [stored async for stored in blobs.all()]
    assert broken == []
    assert list((folder / ATTACHMENTS / UNFINISHED).iterdir()) == []
    return len(before), len(after)


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_a_killed_server_shows_no_half_file(tmp_path: Path, say: Say) -> None:
    await kill_run(tmp_path / "data", say, seed=5, kills=6)


@pytest.mark.soak
@pytest.mark.parametrize("seed", [21, 22])
async def test_no_file_is_lost_in_a_hundred_kills(tmp_path: Path, say: Say, seed: int) -> None:
    await kill_run(tmp_path / "data", say, seed=seed, kills=100)


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_an_upload_that_is_cut_off_a_hundred_times_ends_whole(tmp_path: Path) -> None:
    data = random.Random(3).randbytes((CUTS + 1) * PIECE)
    async with ServerProcess(tmp_path / "data", environment=NO_LIMITS) as server:
        async with Town(server.url, server.root_key) as town:
            ann, bob = await town.user("ann"), await town.user("bob")
            chat = await ann.create_direct(bob)
            body = {"name": "x", "content_type": "a/b", "size": len(data)}
            made = await ann.call("POST", "/v1/attachments", body)
            url, own = made["upload_url"], {"Authorization": f"Bearer {ann.token}"}

            async def offset() -> int:
                answer = await town.http.head(url, headers=own)
                return int(answer.headers["upload-offset"])

            for cut in range(CUTS):
                await cut_off(server, url, ann.token, data, cut * PIECE)
                await until(offset, equals=(cut + 1) * PIECE)
            rest = {**own, "Upload-Offset": str(CUTS * PIECE)}
            answer = await town.http.patch(url, content=data[CUTS * PIECE :], headers=rest)
            assert (answer.status_code, await offset()) == (204, len(data))
            files = [made["attachment_id"]]
            new = {"client_message_id": "m1", "content": "", "attachments": files}
            message = await ann.call("POST", f"/v1/chats/{chat}/messages", new)
            path = f"/v1/chats/{chat}/messages/{message['sequence']}/attachments/"
            assert (await bob.request("GET", path + made["attachment_id"])).content == data


async def cut_off(server: ServerProcess, url: str, token: str, data: bytes, start: int) -> None:
    """Announce the rest of the bytes, send some of them, and go away."""
    head = (
        f"PATCH {url} HTTP/1.1\r\nHost: tidings\r\nAuthorization: Bearer {token}\r\n"
        f"Upload-Offset: {start}\r\nContent-Length: {len(data) - start}\r\n\r\n"
    )
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(head.encode() + data[start : start + PIECE])
    await writer.drain()
    writer.close()
    await writer.wait_closed()
    assert not await reader.read()

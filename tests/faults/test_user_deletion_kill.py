# SPDX-License-Identifier: Apache-2.0
"""A server that is killed while it deletes a user ends in a receipt with exact counts, and leaves
nothing of the person behind but what the receipt lists."""

import asyncio
import random
import re
import shutil
from pathlib import Path
from typing import Any

import httpx
import jwt
import msgspec
import pytest

from tests.contract.engines import SqliteEngine
from tests.contract.identity_builders import a_session
from tests.faults.conftest import Say
from tests.support.people import Town
from tests.support.server import NO_LIMITS, ServerProcess
from tests.support.waiting import until
from tidings.assembly.system import SystemClock
from tidings.model.ids import user_key
from tidings.model.limits import DAY_MS
from tidings.model.notifications import Copy

SESSIONS = 60
NOTIFICATIONS = 80
GROUPS = 30
MOMENT_SECONDS_MAX = 0.25
ZOE = user_key("town", "zoe")
PHONE = "+4915112345678"
TRACES = (b"Zoe-Canary", PHONE.encode(), b"zoe-device", b"zoe@canary.example")
"""What is known of the person, besides the id."""
COUNTS = {
    "sessions": SESSIONS,
    "keys": 1,
    "groups_left": GROUPS,
    "direct_chats_left": 1,
    "notifications": NOTIFICATIONS,
    "inboxes": 1,
}


class DeletedUser:
    """A person in many places, whose deletion is asked for until it is done."""

    def __init__(self, town: Town) -> None:
        self._town = town
        self.phases: set[str] = set()

    async def request(self, method: str, path: str, body: object = None) -> httpx.Response:
        headers = {"Authorization": f"Bearer {await self._town.tenant_key()}"}
        return await self._town.http.request(method, path, json=body, headers=headers)

    async def make(self) -> None:
        """The profile, groups, a direct chat with messages, and an inbox."""
        profile = {
            "display_name": "Zoe-Canary",
            "phone_number": PHONE,
            "email": "zoe@canary.example",
        }
        made = await self.request("PUT", "/v1/tenants/town/users/zoe", profile)
        assert made.status_code == 201, made.text
        inbox = await self.request("PUT", "/v1/tenants/town/inboxes/news", {"title": "News"})
        assert inbox.status_code == 201, inbox.text
        zoe, ann = await self._town.user("zoe"), await self._town.user("ann")
        chats = [await zoe.create_group(f"g{number}", [ann]) for number in range(GROUPS)]
        async with zoe.device() as device:
            for chat in [*chats[:3], await zoe.create_direct(ann)]:
                await device.send(chat)

    async def ask(self) -> dict[str, Any]:
        """The job; empty if the server is gone."""
        try:
            answer = await self.request("DELETE", "/v1/tenants/town/users/zoe")
        except httpx.TransportError:
            return {}
        if answer.status_code != 202:
            assert answer.status_code == 503, answer.text
            return {}
        job: dict[str, Any] = answer.json()
        self.phases.add(job["phase"])
        return job

    async def state(self) -> object:
        return (await self.ask()).get("state")


async def fill(folder: Path, now: int) -> None:
    """Add what would take long over REST."""
    async with SqliteEngine(folder).open() as store:
        for number in range(SESSIONS):
            await store.sessions.open(
                a_session(
                    ZOE, device=f"zoe-device-{number}", created_at=now, expires_at=now + DAY_MS
                )
            )
        for number in range(NOTIFICATIONS):
            copy = Copy(
                notification_id=f"n{number}", category=None, received_at=now,
                expires_at=now + DAY_MS,
            )  # fmt: skip
            await store.copies.deliver([ZOE], "news", copy)
        await store.copies.read_before(ZOE, "news", now, 0)


def traces_in(folder: Path) -> list[str]:
    """Which files say something about the person."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [
        f"{path.name} has {trace.decode()}"
        for path in files
        for trace in TRACES
        if re.search(re.escape(trace), path.read_bytes())
    ]


async def deletion_run(folder: Path, say: Say, kills: int) -> None:
    chance = random.Random(kills)
    async with ServerProcess(folder / "data", environment=NO_LIMITS) as server:
        async with Town(server.url, server.root_key) as town:
            user = DeletedUser(town)
            await user.make()
            await server.terminate()
            await fill(folder / "data", SystemClock().now())
            shutil.copytree(folder / "data", folder / "backup")
            assert len(traces_in(folder / "data")) >= len(TRACES)
            await server.start()
            for _ in range(kills):
                asked = asyncio.create_task(user.ask())
                await asyncio.sleep(chance.uniform(0, MOMENT_SECONDS_MAX))
                await server.kill()
                await asked
                await server.start()
            await until(user.state, equals="done", seconds=60)
            job = await user.ask()
            published = (await town.http.get("/.well-known/receipt-keys.json")).json()["keys"]
            (key,) = published
            payload = jwt.PyJWS().decode(job["receipt"], jwt.PyJWK(key).key, algorithms=["EdDSA"])
            receipt = msgspec.json.decode(payload)
            assert job["counts"] == receipt["counts"] == COUNTS
            await server.terminate()
            assert traces_in(folder / "data") == []
            await restored(folder, server, user)
    say(f"a user deleted with {kills} kills; met {sorted(user.phases)}")


async def restored(folder: Path, server: ServerProcess, user: DeletedUser) -> None:
    """Put the backup back: the ledger deletes the person again, before anybody is served."""
    (folder / "data" / "tidings.db").unlink()
    shutil.copy(folder / "backup" / "tidings.db", folder / "data")
    await server.start()
    answer = await user.request("POST", "/v1/tenants/town/tokens", {"user_id": "zoe"})
    assert (answer.status_code, answer.json()["code"]) == (409, "user.deleted")
    await until(user.state, equals="done", seconds=60)
    # The start destroyed the key, before the job looked for one.
    counts = (await user.ask())["counts"]
    assert counts | {"keys": 1} == COUNTS and "keys" not in counts
    await server.terminate()
    assert traces_in(folder / "data") == []


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_a_killed_server_goes_on_deleting_a_user(tmp_path: Path, say: Say) -> None:
    await deletion_run(tmp_path, say, kills=5)


@pytest.mark.soak
async def test_a_server_that_is_killed_20_times_deletes_a_user(tmp_path: Path, say: Say) -> None:
    await deletion_run(tmp_path, say, kills=20)

# SPDX-License-Identifier: Apache-2.0
"""Every listed user gets a notification once, however often the server is killed meanwhile."""

import asyncio
import random
from contextlib import closing
from pathlib import Path

import apsw
import httpx
import pytest

from tests.contract.engines import SqliteEngine
from tests.faults.conftest import Say
from tests.support.inbox import Inbox
from tests.support.people import Town
from tests.support.server import NO_LIMITS, ServerProcess
from tests.support.waiting import until
from tidings.model.ids import user_key
from tidings.stores.sqlite.engine.connections import DATABASE

MOMENT_SECONDS_MAX = 0.3


class Posting:
    """One notification, posted under one key until it is done, and a server that is killed."""

    def __init__(self, server: ServerProcess, inbox: Inbox, uids: list[str], key: str) -> None:
        self._server = server
        self._inbox = inbox
        self._uids = uids
        self._key = key
        self.ids: set[str] = set()
        """All that were answered with: one."""
        self.amid = 0
        """Kills when some had it and some had not."""

    async def killed_while_posting(self, seconds: float) -> None:
        posting = asyncio.create_task(self._post())
        await asyncio.sleep(seconds)
        await self._server.kill()
        await posting
        await self._server.start()

    async def killed_while_delivering(self) -> None:
        await self.answered()
        (one,) = self.ids
        while (told := await self._inbox.progress(one))["status"] == "queued":
            pass
        await self._server.kill()
        self.amid += 0 < told["delivered"] < len(self._uids)
        await self._server.start()

    async def answered(self) -> None:
        while not self.ids:
            await self._post()

    async def _post(self) -> None:
        """An answer, or none if the server is gone."""
        try:
            self.ids.add((await self._inbox.post(self._uids, key=self._key))["id"])
        except httpx.TransportError:
            return


async def kill_run(folder: Path, say: Say, *, users: int, kills: int, posts: int) -> None:
    chance = random.Random(users)
    uids = [f"user-{number:06}" for number in range(users)]
    async with ServerProcess(folder / "data", environment=NO_LIMITS) as server:
        async with Town(server.url, server.root_key) as town:
            inbox = await Inbox(town).make()
            postings = [Posting(server, inbox, uids, f"k{number}") for number in range(posts)]
            for kill in range(kills):
                posting = postings[kill % posts]
                if kill < posts and kill % 2:
                    await posting.killed_while_posting(chance.uniform(0, MOMENT_SECONDS_MAX))
                else:
                    await posting.killed_while_delivering()
            for posting in postings:
                await posting.answered()
                (one,) = posting.ids
                told = await inbox.done(one, seconds=120)
                assert (told["recipients"], told["delivered"]) == (users, users)
            # A job is removed after its users have the notification: progress does not show that.
            await until(lambda: jobs_left(folder / "data"), equals=0)
    await check_copies(folder / "data", uids, sorted(one for p in postings for one in p.ids))
    assert [line for line in server.log_lines() if "exception" in line or "text" in line] == []
    amid = sum(posting.amid for posting in postings)
    say(f"{posts} x {users:,} users notified, {kills} kills, {amid} of them amid: one copy each")


def jobs_left(folder: Path) -> int:
    flags = apsw.SQLITE_OPEN_READONLY
    with closing(apsw.Connection(str(folder / DATABASE), flags=flags)) as db:
        (number,) = next(db.execute("SELECT count(*) FROM jobs"))
    assert isinstance(number, int)
    return number


async def check_copies(folder: Path, uids: list[str], ids: list[str]) -> None:
    async with SqliteEngine(folder).open() as store:
        for uid in uids:
            user = user_key("town", uid)
            copies = await store.copies.newest(user, "news", before=None, limit=100)
            assert [copy.notification_id for copy in copies][::-1] == ids


@pytest.mark.slow
async def test_a_killed_server_gives_every_user_one_copy(tmp_path: Path, say: Say) -> None:
    await kill_run(tmp_path, say, users=3_000, kills=5, posts=5)


@pytest.mark.soak
async def test_a_server_killed_twenty_times_gives_100_000_users_one_copy(
    tmp_path: Path, say: Say
) -> None:
    await kill_run(tmp_path, say, users=100_000, kills=20, posts=1)

# SPDX-License-Identifier: Apache-2.0
"""Jobs set aside, as the operator of a running server sees them: over REST and by command."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from msgspec.structs import replace

from tests.contract.engines import SqliteEngine
from tests.contract.inbox_builders import some_jobs
from tests.support.clock import NOW
from tests.support.command import tidings
from tests.support.inbox import Inbox
from tests.support.people import Town
from tests.support.server import ServerProcess
from tests.support.waiting import until
from tidings.assembly.system import SystemClock
from tidings.model.limits import DAY_MS
from tidings.ports.bus import DeadLetter, Job


@pytest.fixture
async def jobs(tmp_path: Path) -> list[Job]:
    """Three that were set aside before the server starts."""
    expires = SystemClock().now() + DAY_MS
    made = [replace(job, expires_at=expires) for job in some_jobs(3, tenant="town")]
    async with SqliteEngine(tmp_path / "data").open() as store:
        for job in made:
            await store.dead_letters.keep(
                DeadLetter(aside_id=name(job), job=job, reason="ValueError: no", at=NOW)
            )
    return made


def name(job: Job) -> str:
    return f"{job.notification_id}-{job.number}"


@pytest.fixture
async def server(tmp_path: Path, jobs: list[Job]) -> AsyncIterator[ServerProcess]:
    async with ServerProcess(tmp_path / "data") as running:
        yield running


async def command(server: ServerProcess, *words: str) -> tuple[int, str, str]:
    """Type `tidings jobs` and these words; the exit code and what it says."""
    done = await tidings("jobs", *words, "--data", server.data)
    return done.code, done.out.decode(), done.errors


async def test_an_operator_looks_after_jobs_by_command(
    server: ServerProcess, jobs: list[Job]
) -> None:
    code, said, _ = await command(server, "list")
    assert code == 0
    lines = said.splitlines()
    assert [line.split()[0] for line in lines] == [name(job) for job in jobs]
    assert "town/news  2 users  ValueError: no" in lines[0]

    assert (await command(server, "drop", name(jobs[1])))[:2] == (
        0,
        f"{name(jobs[1])} is dropped.\n",
    )
    for word in ("drop", "replay"):
        code, said, complained = await command(server, word, name(jobs[1]))
        assert (code, said) == (2, "")
        assert "No such job" in complained
    for job in (jobs[0], jobs[2]):
        assert (await command(server, "drop", name(job)))[0] == 0
    assert (await command(server, "list"))[1] == "There are no dead letters.\n"


async def test_without_a_server_the_command_says_so(tmp_path: Path) -> None:
    code, said, complained = await command(ServerProcess(tmp_path), "list")
    assert (code, said) == (2, "")
    assert "no server has" in complained


async def test_a_job_that_is_tried_again_is_done(server: ServerProcess, jobs: list[Job]) -> None:
    async with Town(server.url, server.root_key) as town:
        inbox = await Inbox(town).make()
        ann = await town.user("ann")
        root = {"Authorization": f"Bearer {server.root_key}"}
        where = "/v1/jobs/aside"
        page = (await town.http.get(f"{where}?limit=2", headers=root)).json()
        assert [one["id"] for one in page["data"]] == [name(job) for job in jobs[:2]]
        assert page["data"][0]["users"] == list(jobs[0].users)
        rest = await town.http.get(f"{where}?cursor={page['next_cursor']}", headers=root)
        assert [one["id"] for one in rest.json()["data"]] == [name(jobs[2])]
        assert rest.json()["next_cursor"] is None

        answer = await town.http.post(f"{where}/{name(jobs[0])}/replay", headers=root)
        assert (answer.status_code, answer.json()["id"]) == (202, name(jobs[0]))
        await until(lambda: _total(inbox, ann.token), equals=1)
        assert (await command(server, "replay", name(jobs[1])))[0] == 0
        left = (await town.http.get(where, headers=root)).json()["data"]
        assert [one["id"] for one in left] == [name(jobs[2])]

        for wrong, status, code in (
            (await town.http.get(f"{where}?cursor=x", headers=root), 400, "cursor.invalid"),
            (await town.http.delete(f"{where}/x", headers=root), 404, "job.not_found"),
            (await town.http.get(where, headers=await _key(town)), 403, "auth.forbidden"),
            (await town.http.get(where), 401, "auth.required"),
        ):
            assert (wrong.status_code, wrong.json()["code"]) == (status, code)


async def _total(inbox: Inbox, token: str) -> int:
    answer: httpx.Response = await inbox.town.http.get(
        f"/v1/inboxes/{inbox.name}/unread", headers={"Authorization": f"Bearer {token}"}
    )
    return int(answer.json()["total"])


async def _key(town: Town) -> dict[str, str]:
    return {"Authorization": f"Bearer {await town.tenant_key()}"}

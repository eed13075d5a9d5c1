# SPDX-License-Identifier: Apache-2.0
"""The export of a person, on every engine: all that is theirs, and nothing that others wrote."""

from collections import Counter
from typing import Any

import msgspec
import pytest

from tests.integration.attachments import upload
from tests.integration.engines import long_engine as long_engine
from tests.integration.rest_world import TENANT, Actor, Json, Rest
from tidings.actions.jobs.person_export import ExportPerson
from tidings.assembly.system import back_off
from tidings.delivery.rounds import TenantJobRunner
from tidings.model import limits
from tidings.model.ids import UserKey, user_key
from tidings.ports.tenant_jobs import TenantJob

pytestmark = pytest.mark.asyncio(loop_scope="module")

ACME = f"/v1/tenants/{TENANT}"


def a_runner(rest: Rest, holder: str = "test") -> TenantJobRunner:
    return TenantJobRunner(
        jobs=rest.core.store.tenant_jobs,
        kinds=rest.core.tenant_work.kinds,
        clock=rest.core.clock,
        holder=holder,
        back_off=back_off,
    )


async def finished(rest: Rest, path: str) -> Json:
    """Let the job at this path come to its end; each step by a process of its own."""
    backend = await rest.tenant()
    number = 0
    while (job := await backend.ok("GET", path))["state"] != "done":
        number += 1
        rest.clock.time += limits.DELETION_LEASE_MS + 1
        await a_runner(rest, f"process {number}").round()
    return dict(job)


async def exported(rest: Rest, user: str) -> list[Json]:
    """All records of a person's export."""
    backend = await rest.tenant()
    started = await backend.ok("GET", f"{ACME}/users/{user}/export")
    job = await finished(rest, f"{ACME}/jobs/{started['job']}")
    assert (job["kind"], job["phase"], job["user_id"]) == ("user.export", "done", user)
    records: list[Json] = []
    cursor: str | None = ""
    while cursor is not None:
        query = f"?cursor={cursor}" if cursor else ""
        part = await backend.ok("GET", f"{job['download']}{query}")
        assert part["data"]
        records += part["data"]
        cursor = part["next_cursor"]
    assert job["counts"] == Counter(record["kind"] for record in records)
    return records


def of(records: list[Json], kind: str, *fields: str) -> list[tuple[Any, ...]]:
    return [tuple(one.get(name) for name in fields) for one in records if one["kind"] == kind]


async def say(actor: Actor, chat: str, content: str) -> None:
    await actor.send(chat, content.replace(" ", "-"), content)


async def test_all_that_is_theirs_and_nothing_that_others_wrote(
    rest: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "PAGE_MAX", 2)
    monkeypatch.setattr(limits, "EXPORT_STEP_PAGES", 2)
    monkeypatch.setattr(limits, "EXPORT_STEP_CHATS", 1)
    monkeypatch.setattr(limits, "EXPORT_PART_CHARS_MAX", 300)
    backend = await rest.tenant()
    eva, finn = await rest.users("eva", "finn")
    await backend.ok("PUT", f"{ACME}/users/eva", {"display_name": "Eva"})
    chats = sorted([await eva.group("finn", name=f"Group {n}") for n in range(3)])
    for chat in chats:
        await say(finn, chat, "not hers")
    for number in range(6):
        await say(finn, chats[1], f"not hers {number}")
    for number in range(4):
        await say(eva, chats[0], f"hers {number}")
    await eva.ok("PATCH", f"/v1/chats/{chats[0]}/messages/3", {"content": "better"})
    await eva.ok("DELETE", f"/v1/chats/{chats[0]}/messages/4")
    await eva.ok("PUT", f"/v1/chats/{chats[2]}/messages/2/reactions/👍")
    await finn.ok("PUT", f"/v1/chats/{chats[0]}/messages/3/reactions/🎉")
    await backend.ok("PUT", f"{ACME}/inboxes/news", {"title": "News", "schema_version": "1"})
    await backend.ok(
        "POST",
        f"{ACME}/inboxes/news/notifications",
        {"audience": {"kind": "everyone"}, "message": {"title": "Hello", "body": "all"}},
    )

    hours = {"from": "22:00", "to": "07:00", "timezone": "Europe/Berlin"}
    await eva.ok("PUT", "/v1/inboxes/news/preferences", {"quiet_hours": hours})

    records = await exported(rest, "eva")

    assert of(records, "preferences", "inbox", "quiet_hours") == [("news", hours)]
    assert "not hers" not in str(records) and "🎉" not in str(records)
    assert of(records, "profile", "user_id", "display_name") == [("eva", "Eva")]
    assert of(records, "membership", "chat", "role") == [(chat, "owner") for chat in chats]
    first = chats[0]
    assert of(records, "message", "chat", "sequence", "content", "redacted") == [
        (first, 3, "better", None),
        (first, 4, None, True),
        (first, 5, "hers 2", None),
        (first, 6, "hers 3", None),
    ]
    assert of(records, "reaction", "chat", "target", "emoji") == [(chats[2], 2, "👍")]
    assert [one["message"]["title"] for one in records if one["kind"] == "notification"] == [
        "Hello"
    ]
    assert ("put_user", "eva") in of(records, "audit", "action", "target")
    assert ("export_user", "eva") in of(records, "audit", "action", "target")


async def test_an_export_is_made_anew_and_dies_with_the_persons_key(rest: Rest) -> None:
    backend = await rest.tenant()
    gail, _ = await rest.users("gail", "hugo")
    chat = await gail.group("hugo")
    await say(gail, chat, "before")
    started = await backend.ok("GET", f"{ACME}/users/gail/export")
    path = f"{ACME}/jobs/{started['job']}"
    assert await backend.ok("GET", f"{ACME}/users/gail/export") == started
    assert await backend.refused("GET", f"{path}/download") == (409, "export.unfinished")
    await finished(rest, path)
    await say(gail, chat, "after")
    records = await exported(rest, "gail")
    assert of(records, "message", "content") == [("before",), ("after",)]

    job = await backend.ok("GET", path)
    rest.clock.time += limits.EXPORT_KEPT_MS
    assert await backend.refused("GET", job["download"]) == (404, "export.gone")
    rest.clock.time -= limits.EXPORT_KEPT_MS
    assert (await backend.ok("GET", job["download"]))["data"]
    key = await rest.core.store.data_keys.end(user_key(TENANT, "gail"), rest.clock.time)
    assert key is not None
    await rest.core.watch.look()
    assert await backend.refused("GET", job["download"]) == (404, "export.gone")


async def test_who_may_ask(rest: Rest) -> None:
    backend, other = await rest.tenant(), await rest.tenant("other")
    ida, _ = await rest.users("ida", "jon")
    path = f"{ACME}/users/ida/export"
    assert await ida.refused("GET", path) == (403, "auth.forbidden")
    assert await other.refused("GET", path) == (404, "tenant.not_found")
    for nobody in ("nobody", "no%20name"):
        found = await backend.refused("GET", f"{ACME}/users/{nobody}/export")
        assert found == (404, "user.not_found")
    await rest.core.store.personal_data.mark_deleted(user_key(TENANT, "jon"), rest.clock.time)
    assert await backend.refused("GET", f"{ACME}/users/jon/export") == (409, "user.deleted")
    assert await backend.refused("GET", f"{ACME}/jobs/none/download") == (404, "job.not_found")
    started = await backend.ok("GET", path)
    download = f"{ACME}/jobs/{started['job']}/download"
    await finished(rest, f"{ACME}/jobs/{started['job']}")
    assert await ida.refused("GET", download) == (403, "auth.forbidden")
    assert await other.refused("GET", download) == (404, "tenant.not_found")
    assert await backend.refused("GET", f"{download}?cursor=x") == (400, "cursor.invalid")


class StoreFromBefore:
    """The store, with a list of chats that is older than the rest."""

    def __init__(self, store: Any, chat: str) -> None:
        self._store = store
        self._chat = chat
        self.chats = self
        self.row = store.chats.row

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def ids(self, _user: UserKey) -> list[str]:
        return [self._chat]


async def test_what_goes_while_the_job_runs_is_left_out(rest: Rest) -> None:
    core, backend = rest.core, await rest.tenant()
    kim, _ = await rest.users("kim", "liz")
    chat = await kim.group()
    store: Any = StoreFromBefore(core.store, chat)
    steps = ExportPerson(store, core.vault, core.inbox.list, core.clock)
    job = TenantJob(
        tenant=TENANT, job_id="x", kind="user.export", subject="liz", created_at=1, updated_at=1
    )
    left = await steps.step(job.at("profile"))
    assert (left.phase, left.counts) == ("messages", {}), "no longer in the chat"
    gone = msgspec.structs.replace(left, cursor='{"inbox": "gone", "page": "x"}')
    assert (await steps.step(gone)).counts == {}, "there is no such inbox"

    moved = msgspec.structs.replace(
        job, job_id="moved", state="done", result=f'{{"parts": 1, "expires_at": {2**50}}}'
    )
    ended = msgspec.structs.replace(moved, job_id="ended", result=None)
    for done in (moved, ended):
        await core.store.tenant_jobs.create(done)
        download = f"{ACME}/jobs/{done.job_id}/download"
        assert await backend.refused("GET", download) == (404, "export.gone"), "there are no parts"

    await rest.user("max")
    exports = [await core.start_job(TENANT, "user.export", name) for name in ("ghost", "max")]
    await backend.ok("DELETE", f"{ACME}/users/max")
    for export in exports:
        after = await steps.step(export)
        assert (after.state, after.result) == ("done", None), "there is no such user"
        await core.store.tenant_jobs.remove(TENANT, export.job_id)


async def test_the_files_of_a_person_are_read_by_their_tenant(rest: Rest) -> None:
    backend = await rest.tenant()
    gil, hal = await rest.users("gil", "hal")
    chat, data = await gil.group("hal"), b"of gil" * 100_000
    file, other = await upload(gil, data), await upload(hal, b"of hal")
    message = await gil.send(chat, "m1", "", attachments=[file])
    await hal.send(chat, "m2", "", attachments=[other])
    records = [one for one in await exported(rest, "gil") if one["kind"] == "message"]
    assert [[f["attachment_id"] for f in one["attachments"]] for one in records] == [[file]]
    backend = await rest.tenant()
    path = f"{ACME}/users/gil/files"
    assert (await backend.call("GET", f"{path}/{file}")).content == data
    part = await backend.call("GET", f"{path}/{file}", headers={"Range": "bytes=3-5"})
    assert (part.status_code, part.content) == (206, b"gil")
    [gil] = await rest.users("gil")
    unsent = await upload(gil, b"x")
    for name in (other, unsent, "x"):
        refused = await backend.refused("GET", f"{path}/{name}")
        assert refused == (404, "attachment.not_found")
    await gil.ok("DELETE", f"/v1/chats/{chat}/messages/{message['sequence']}")
    assert await backend.refused("GET", f"{path}/{file}") == (410, "attachment.gone")

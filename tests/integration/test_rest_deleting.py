# SPDX-License-Identifier: Apache-2.0
"""Deleting a chat, on every engine: at its end nothing is taken in, and then nothing is left."""

import pytest

from tests.integration.cores import Writing
from tests.integration.engines import engine as engine
from tests.integration.rest_world import NOWHERE, TENANT, Actor, Json, Rest
from tidings.actions.chat.appender import Appender
from tidings.assembly.system import back_off
from tidings.buses.in_process import InProcessBus
from tidings.delivery.rounds import DeletionRunner
from tidings.model.ids import ChatId, user_key
from tidings.model.refusals import ChatNotFound

pytestmark = pytest.mark.asyncio(loop_scope="module")

NO_CHAT = (404, "chat.not_found")


def a_runner(rest: Rest, holder: str = "test") -> DeletionRunner:
    return DeletionRunner(
        deletions=rest.core.store.deletions,
        bus=rest.core.bus,
        clock=rest.core.clock,
        holder=holder,
        delivery=None,
        back_off=back_off,
    )


async def finish(rest: Rest) -> None:
    """Let all deletions come to their end."""
    runner = a_runner(rest)
    while await runner.round():
        pass


async def run_until(rest: Rest, phase: str, path: str) -> Json:
    """Go on until the job at this path has come so far."""
    backend = await rest.tenant()
    runner = a_runner(rest)
    while (job := await backend.ok("GET", path))["phase"] != phase:
        await runner.round()
    return dict(job)


async def refusals(actor: Actor, chat: str) -> set[tuple[int, str]]:
    """What a member is told who wants to write in all the ways there are."""
    path = f"/v1/chats/{chat}"
    message = {"client_message_id": "late", "content": "late"}
    return {
        await actor.refused("POST", f"{path}/messages", message),
        await actor.refused("PATCH", f"{path}/messages/2", {"content": "other"}),
        await actor.refused("DELETE", f"{path}/messages/2"),
        await actor.refused("PUT", f"{path}/messages/2/reactions/👍"),
        await actor.refused("PUT", f"{path}/members/dora"),
        await actor.refused("DELETE", f"{path}/members/bert"),
        await actor.refused("PATCH", path, {"name": "Other"}),
    }


@pytest.mark.attack("D09")
async def test_from_the_answer_on_nothing_is_taken_in(rest: Rest) -> None:
    anna, bert, _ = await rest.users("anna", "bert", "dora")
    chat = await anna.group("bert")
    await anna.send(chat, "m1")

    job = await anna.ok("DELETE", f"/v1/chats/{chat}")

    assert job["job"] == f"delete-chat-{chat}" and job["kind"] == "chat.delete"
    assert (job["phase"], job["progress"]) == ("started", {"done": 0, "of": 3})
    assert await refusals(anna, chat) == {NO_CHAT}
    page = await bert.ok("GET", f"/v1/chats/{chat}/entries?after=0")
    assert (page["data"][-1]["kind"], page["data"][-1]["sender"]) == ("deleted", "anna")
    await finish(rest)
    assert await refusals(anna, chat) == {NO_CHAT}


@pytest.mark.attack("D02", "D09")
async def test_who_knows_the_chat_from_before_is_refused_all_the_same(rest: Rest) -> None:
    """Another process that has the chat in its cache, as of before the end."""
    core = rest.core
    appender = Appender(core.store.log, InProcessBus(), core.clock, core.chance, back_off)
    elsewhere = Writing(core, appender)
    anna, _ = await rest.users("anna", "bert")
    chat, bert = ChatId(await anna.group("bert")), user_key(TENANT, "bert")
    await elsewhere.send(bert, chat)

    await anna.ok("DELETE", f"/v1/chats/{chat}")
    with pytest.raises(ChatNotFound):
        await elsewhere.send(bert, chat)
    await finish(rest)
    with pytest.raises(ChatNotFound):
        await elsewhere.send(bert, chat)
    await appender.close()


@pytest.mark.attack("D02")
async def test_then_nobody_reads_it_and_nothing_is_left(rest: Rest) -> None:
    carl, dora = await rest.users("carl", "dora")
    kept, chat = await carl.group("dora"), await carl.group("dora", name="Secret plans")
    await carl.send(chat, "m1")
    await dora.ok("PUT", f"/v1/chats/{chat}/messages/2/reactions/👍")
    job = await carl.ok("DELETE", f"/v1/chats/{chat}")
    path = f"/v1/tenants/{TENANT}/jobs/{job['job']}"

    await run_until(rest, "members_removed", path)

    for actor in (carl, dora):
        for part in ("", "/entries?after=0", "/messages", "/messages/2", "/members", "/receipts"):
            assert await actor.refused("GET", f"/v1/chats/{chat}{part}") == NO_CHAT
        listed = await actor.ok("GET", "/v1/chats")
        assert kept in [one["chat_id"] for one in listed["data"]]
        assert chat not in [one["chat_id"] for one in listed["data"]]
    done = await run_until(rest, "done", path)
    assert done["progress"] == {"done": 4, "of": 4}
    left = await rest.core.store.log.tail(ChatId(chat), 0)
    assert [one.kind for one in left] == ["created", "message", "reacted", "deleted"]
    assert all(one.box is None and not one.people and one.name is None for one in left)


async def test_who_asks_again_gets_the_same_job(rest: Rest) -> None:
    emil, fred = await rest.users("emil", "fred")
    chat = await emil.group("fred")
    await emil.ok("PUT", f"/v1/chats/{chat}/members/fred", {"role": "owner"})
    path, backend = f"/v1/chats/{chat}", await rest.tenant()
    first = await emil.ok("DELETE", path)

    assert await emil.ok("DELETE", path) == first
    assert await fred.refused("DELETE", path) == NO_CHAT
    await finish(rest)
    again = await emil.ok("DELETE", path)
    assert (again["job"], again["phase"]) == (first["job"], "done")
    assert await backend.ok("DELETE", f"/v1/tenants/{TENANT}/chats/{chat}") == again
    assert await backend.ok("DELETE", path) == again


async def test_a_tenant_deletes_any_chat_and_the_two_can_make_another(rest: Rest) -> None:
    gina, hugo = await rest.users("gina", "hugo")
    backend, other = await rest.tenant(), await rest.tenant("other")
    chat = await gina.direct("hugo")
    await gina.send(chat, "m1")
    path = f"/v1/tenants/{TENANT}/chats/{chat}"

    assert await gina.refused("DELETE", f"/v1/chats/{chat}") == (409, "chat.direct")
    assert await other.refused("DELETE", f"/v1/tenants/other/chats/{chat}") == NO_CHAT
    job = await backend.ok("DELETE", path)

    page = await gina.ok("GET", f"/v1/chats/{chat}/entries?after=0")
    assert page["data"][-1]["sender"] == "~tenant"
    anew = await hugo.direct("gina")
    assert anew != chat
    await finish(rest)
    assert await other.refused("GET", f"/v1/tenants/other/jobs/{job['job']}") == (
        404,
        "job.not_found",
    )
    acts = await backend.ok("GET", f"/v1/tenants/{TENANT}/audit")
    assert [
        (one["outcome"], one["target"])
        for one in acts["data"]
        if one["action"] == "delete_chat_as_tenant"
    ][:1] == [("done", chat)]
    await hugo.send(anew, "m2")


async def test_a_tenant_key_deletes_at_the_path_of_the_chat_too(rest: Rest) -> None:
    lisa, _ = await rest.users("lisa", "mona")
    backend, other = await rest.tenant(), await rest.tenant("other")
    path = f"/v1/chats/{await lisa.direct('mona')}"

    assert await other.refused("DELETE", path) == NO_CHAT
    assert await rest.root.refused("DELETE", path) == (403, "auth.forbidden")
    job = await backend.ok("DELETE", path)

    assert await backend.ok("GET", f"/v1/tenants/{TENANT}/jobs/{job['job']}") == job
    [act] = (await backend.ok("GET", f"/v1/tenants/{TENANT}/audit?limit=1"))["data"]
    assert (act["action"], act["outcome"], act["actor"]) == ("delete_chat", "done", "tenant_key")


@pytest.mark.parametrize("name", ["x", f"delete-chat-{NOWHERE}", "delete-chat-", "..%2f"])
async def test_what_is_no_job_is_not_found(rest: Rest, name: str) -> None:
    backend = await rest.tenant()
    assert (await backend.refused("GET", f"/v1/tenants/{TENANT}/jobs/{name}"))[0] == 404


async def test_an_invitation_into_a_deleted_group_leads_nowhere(rest: Rest) -> None:
    ines, jens, backend = *await rest.users("ines", "jens"), await rest.tenant()
    settings = f"/v1/tenants/{TENANT}/settings"
    await backend.ok("PUT", settings, {"invites": "ask"})
    chat = await ines.group("jens")
    assert (await jens.ok("GET", "/v1/me/invites"))["data"] != []
    await ines.ok("DELETE", f"/v1/chats/{chat}")

    path = f"/v1/me/invites/{chat}/accept"

    assert (await jens.refused("POST", path))[0] == 404
    await backend.ok("PUT", settings, {})


async def test_deletions_take_turns(rest: Rest) -> None:
    kim, _ = await rest.users("kim", "lena")
    chats = [await kim.group("lena") for _ in range(3)]
    for chat in chats:
        await kim.ok("DELETE", f"/v1/chats/{chat}")

    await a_runner(rest).round()

    phases = [(await kim.ok("DELETE", f"/v1/chats/{chat}"))["phase"] for chat in chats]
    assert phases == ["members_removed"] * 3
    await finish(rest)

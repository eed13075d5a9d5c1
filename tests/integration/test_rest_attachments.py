# SPDX-License-Identifier: Apache-2.0
"""Attachments over REST: sends, what others see, and the end."""

import asyncio
from contextlib import nullcontext
from typing import Any

import pytest

from tests.integration.attachments import (
    Talk,
    blobs_of,
    of,
    sent,
    start,
    sweep,
    upload,
)
from tests.integration.attachments import talk as talk
from tests.integration.engines import long_engine as long_engine
from tests.integration.rest_world import NOWHERE, Json, Rest, problem
from tests.integration.test_rest_deleting import run_until
from tidings.model.attachments import ERASED_FILES_MS
from tidings.model.entries import Deletion
from tidings.model.ids import UserKey
from tidings.stores.dynamodb.chat.deletions import DynamoDeletions

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_an_upload_belongs_to_one_send(talk: Talk) -> None:
    chat, ann, ben = talk
    file, other = await upload(ann, b"x"), await upload(ann, b"y")
    unfinished = (await start(ann, 5))["attachment_id"]
    path = f"/v1/chats/{chat}/messages"

    def body(cmid: str, *files: str, **more: Any) -> Json:
        return {"client_message_id": cmid, "content": "", "attachments": list(files), **more}

    used, unknown = (409, "attachment.used"), (409, "attachment.unknown")
    assert await ann.refused("POST", path, body("m0", file, unfinished)) == unknown
    assert await ann.refused("POST", path, body("m0", file, NOWHERE)) == unknown
    assert await ben.refused("POST", path, body("m0", file)) == unknown
    refused_first = await ann.refused("POST", path, body("m0", file, reply_to=77))
    assert refused_first == (409, "send.reply_unknown")

    message = await sent(ann, chat, "m1", file, other)
    again = await ann.call("POST", path, body("m1", file, other))
    assert (again.status_code, again.json()["sequence"]) == (200, message["sequence"])
    assert again.json()["attachments"] == message["attachments"]
    assert await ann.refused("POST", path, body("m2", file)) == used
    for files in ([file], [await upload(ann, b"z")]):
        assert await ann.refused("POST", path, body("m1", *files)) == (409, "send.conflict")
    direct = await ann.direct("ben")
    assert await ann.refused("POST", f"/v1/chats/{direct}/messages", body("m1", other)) == used


async def test_the_preview_of_a_message_with_only_files_is_empty(talk: Talk) -> None:
    group, ann, ben = talk
    for chat in (group, await ann.direct("ben")):
        message = await sent(ann, chat, "m1", await upload(ann, b"x"))

        async def lasts(chat: str = chat) -> list[tuple[int, str | None, str | None]]:
            listed = (await ben.ok("GET", "/v1/chats"))["data"]
            rows = [next(row for row in listed if row["chat_id"] == chat)]
            rows += [await one.ok("GET", f"/v1/chats/{chat}") for one in (ann, ben)]
            shown = [row["last_message"] for row in rows]
            return [(last["sequence"], last["preview"], last["gone"]) for last in shown]

        assert await lasts() == [(message["sequence"], "", None)] * 3
        await ann.ok("DELETE", f"/v1/chats/{chat}/messages/{message['sequence']}")
        assert await lasts() == [(message["sequence"], None, "redacted")] * 3


async def test_two_sends_at_once_do_not_share_an_upload(talk: Talk) -> None:
    chat, ann, _ = talk
    file = await upload(ann, b"x")
    bodies = [
        {"client_message_id": f"m{n}", "content": "", "attachments": [file]} for n in range(4)
    ]
    path = f"/v1/chats/{chat}/messages"
    answers = await asyncio.gather(*(ann.call("POST", path, body) for body in bodies))
    assert sorted(one.status_code for one in answers) == [201, 409, 409, 409]
    repeated = bodies[0] | {"client_message_id": "r1", "attachments": [await upload(ann, b"y")]}
    answers = await asyncio.gather(*(ann.call("POST", path, repeated) for _ in range(3)))
    assert sorted(one.status_code for one in answers) == [200, 200, 201]


@pytest.mark.parametrize(
    "attachments", [[NOWHERE] * 2, ["x"], ["../../etc/passwd"], [f"{n:026d}" for n in range(11)]]
)
async def test_malformed_lists_are_refused(talk: Talk, attachments: list[str]) -> None:
    chat, ann, _ = talk
    body = {"client_message_id": "m", "content": "", "attachments": attachments}
    assert await ann.refused("POST", f"/v1/chats/{chat}/messages", body) == (400, "request.invalid")


@pytest.mark.attack("E19")
async def test_others_see_nothing(rest: Rest, talk: Talk) -> None:
    chat, ann, ben = talk
    made = await start(ann, 5)
    file, url = await upload(ann, b"x"), made["upload_url"]
    message = await sent(ann, chat, "m1", file)
    stranger = await rest.user("eve")
    gone = (404, "attachment.not_found")
    assert problem(await ben.call("PUT", url, content=b"12345")) == gone
    assert problem(await ben.call("PATCH", url, headers={"Upload-Offset": "0"})) == gone
    assert (await ben.call("HEAD", url)).status_code == 404
    path = of(chat, message, file)
    assert await stranger.refused("GET", path) == (404, "chat.not_found")
    assert await stranger.refused("POST", f"{path}/link") == (404, "chat.not_found")
    assert await ben.refused("GET", of(chat, message, made["attachment_id"])) == gone
    assert await ben.refused("GET", of(chat, message, "x")) == gone


async def test_redaction_expiry_and_deletion_take_the_file_away(rest: Rest, talk: Talk) -> None:
    chat, ann, ben = talk
    files = [await upload(ann, b"x") for _ in range(3)]
    redacted = await sent(ann, chat, "m1", files[0])
    expiring = await ann.send(chat, "m2", "", attachments=[files[1]], ttl_seconds=30)
    kept = await sent(ann, chat, "m3", files[2])
    await ann.ok("DELETE", f"/v1/chats/{chat}/messages/{redacted['sequence']}")
    gone = (410, "attachment.gone")
    assert await ben.refused("GET", of(chat, redacted, files[0])) == gone
    rest.clock.time += 30_000
    assert await ben.refused("GET", of(chat, expiring, files[1])) == gone
    shown = await ben.ok("GET", f"/v1/chats/{chat}/messages/{redacted['sequence']}")
    assert "attachments" not in shown
    await sweep(rest)
    assert [len(blobs_of(rest, file)) for file in files] == [0, 0, 1]
    assert (await ben.call("GET", of(chat, kept, files[2]))).content == b"x"

    job = await ann.ok("DELETE", f"/v1/chats/{chat}")
    await run_until(rest, "done", f"/v1/tenants/acme/jobs/{job['job']}")
    assert await ben.refused("GET", of(chat, kept, files[2])) == (404, "chat.not_found")
    rest.clock.time += ERASED_FILES_MS
    await sweep(rest)
    assert blobs_of(rest, files[2]) == []


async def test_a_sweep_waits_for_a_backup(
    rest: Rest, talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat, ann, _ = talk
    file = await upload(ann, b"x")
    message = await sent(ann, chat, "m1", file)
    await ann.ok("DELETE", f"/v1/chats/{chat}/messages/{message['sequence']}")
    deletions = rest.core.files.sweep.deletions
    with monkeypatch.context() as patched:
        patched.setattr(type(deletions), "deleting", lambda _: nullcontext(False))
        await sweep(rest)
        assert not await rest.core.files.sweep.delete(UserKey("acme:ann"), [file])
        assert len(blobs_of(rest, file)) == 1
    await sweep(rest)
    assert blobs_of(rest, file) == []


async def test_a_sweep_while_a_chat_is_deleted_misses_nothing(
    rest: Rest, talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat, ann, _ = talk
    file = await upload(ann, b"x")
    await sent(ann, chat, "m1", file)
    empty = DynamoDeletions._empty

    async def swept(self: DynamoDeletions, job: Deletion, sequence: int) -> None:
        await sweep(rest)
        await empty(self, job, sequence)

    monkeypatch.setattr(DynamoDeletions, "_empty", swept)
    job = await ann.ok("DELETE", f"/v1/chats/{chat}")
    await run_until(rest, "done", f"/v1/tenants/acme/jobs/{job['job']}")
    rest.clock.time += ERASED_FILES_MS
    await sweep(rest)
    assert blobs_of(rest, file) == []


async def test_erasure_takes_the_files_away(rest: Rest, talk: Talk) -> None:
    chat, ann, ben = talk
    tenant = await rest.tenant()
    eve = await rest.user("erased")
    await ann.ok("PUT", f"/v1/chats/{chat}/members/erased", {})
    file, unsent = await upload(eve, b"x"), await upload(eve, b"y")
    message = await sent(eve, chat, "m1", file)
    await tenant.ok("DELETE", "/v1/tenants/acme/users/erased/content")
    assert await ben.refused("GET", of(chat, message, file)) == (410, "attachment.gone")
    assert (await eve.call("HEAD", f"/v1/attachments/{unsent}")).status_code == 410
    body = {"client_message_id": "m2", "content": "", "attachments": [unsent]}
    refused = await eve.refused("POST", f"/v1/chats/{chat}/messages", body)
    assert refused == (409, "attachment.unknown")
    rest.clock.time += 60_000
    await sweep(rest)
    assert blobs_of(rest, file) == []


async def test_an_edit_leaves_the_files_alone(talk: Talk) -> None:
    chat, ann, ben = talk
    file = await upload(ann, b"x")
    message = await sent(ann, chat, "m1", file, text="look")
    path = f"/v1/chats/{chat}/messages/{message['sequence']}"
    await ann.ok("PATCH", path, {"content": "look here"})
    await ann.ok("PATCH", path, {"content": ""})
    shown = await ben.ok("GET", path)
    assert (shown["content"], shown["attachments"]) == ("", message["attachments"])
    assert (await ben.call("GET", of(chat, message, file))).content == b"x"


async def test_a_tenant_posts_a_file_of_the_user_in_whose_name_it_posts(
    rest: Rest, talk: Talk
) -> None:
    chat, ann, ben = talk
    file = await upload(ann, b"x")
    backend, path = await rest.tenant(), f"/v1/tenants/acme/chats/{chat}/messages"
    new = {"client_message_id": "m1", "content": "", "attachments": [file]}
    for sender in ({"sender": "ben"}, {}):
        assert await backend.refused("POST", path, new | sender) == (409, "attachment.unknown")
    message = await backend.ok("POST", path, new | {"sender": "ann"})
    assert (await ben.call("GET", of(chat, message, file))).content == b"x"


async def test_who_blocks_the_sender_gets_no_files(talk: Talk) -> None:
    chat, ann, ben = talk
    file = await upload(ann, b"x")
    message = await sent(ann, chat, "m1", file)
    await ben.ok("PUT", "/v1/me/blocks/ann")
    shown = await ben.ok("GET", f"/v1/chats/{chat}/messages/{message['sequence']}")
    assert (shown["blocked"], shown.get("attachments")) == (True, None)
    assert await ben.refused("GET", of(chat, message, file)) == (404, "attachment.not_found")
    await ben.ok("DELETE", "/v1/me/blocks/ann")
    assert (await ben.call("GET", of(chat, message, file))).content == b"x"

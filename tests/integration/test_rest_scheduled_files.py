# SPDX-License-Identifier: Apache-2.0
"""Scheduled messages with files: the files wait with them, and belong to nobody else."""

from typing import Any

import pytest

from tests.integration.attachments import blobs_of, of, start, sweep, upload
from tests.integration.engines import long_engine as long_engine
from tests.integration.rest_world import Actor, Rest
from tests.integration.test_rest_scheduled import Talk, body, schedule
from tests.integration.test_rest_scheduled import talk as talk
from tidings.model.attachments import LATE_BYTES_MS, RESERVED_MS, SCHEDULED_FILES_MS, UPLOAD_MS
from tidings.model.ids import UserKey, user_key
from tidings.model.limits import DAY_MS
from tidings.ports.due import due_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

DAY = DAY_MS / 60_000
USED, UNKNOWN = (409, "attachment.used"), (409, "attachment.unknown")


def now_with(*files: str) -> dict[str, Any]:
    return {"client_message_id": "now", "content": "", "attachments": list(files)}


async def come(rest: Rest, author: Actor, time: int) -> None:
    """Let a long time pass, and do what is due then.

    The timer would look at each ten minutes of it, which takes long on DynamoDB.
    """
    rest.clock.time += time
    store, user = rest.core.store, user_key("acme", author.name)
    [author] = await rest.users(author.name)  # the token has run out
    for one in (await author.ok("GET", "/v1/scheduled"))["data"]:
        message = await store.scheduled.get(user, one["scheduled_id"])
        assert message is not None
        await rest.core.due_work["message"].do(due_of(message))
        await store.due.drop(due_of(message))


async def test_a_file_waits_with_its_message(rest: Rest, talk: Talk) -> None:
    chat, ann, ben = talk
    path = f"/v1/chats/{chat}/messages"
    file = await upload(ann, b"hello")
    name = await schedule(rest, ann, chat, "s1", 10 * DAY, content="", attachments=[file])
    assert await schedule(rest, ann, chat, "s1", 10 * DAY, content="", attachments=[file]) == name
    listed = await ann.ok("GET", "/v1/scheduled")
    assert [(one["content"], one["attachments"]) for one in listed["data"]] == [("", [file])]

    assert await ann.refused("POST", path, now_with(file)) == USED
    again = body(rest, "s2", DAY, attachments=[file])
    assert await ann.refused("POST", path, again) == USED
    for _ in range(9):
        rest.clock.time += DAY_MS
        await sweep(rest)
    [ann] = await rest.users("ann")  # the token has expired meanwhile
    assert (await ann.call("HEAD", f"/v1/attachments/{file}")).status_code == 200
    await come(rest, ann, DAY_MS)
    [ben] = await rest.users("ben")
    page = await ben.ok("GET", path)
    message = page["data"][0]
    assert [one["attachment_id"] for one in message["attachments"]] == [file]
    assert (await ben.call("GET", of(chat, message, file))).content == b"hello"
    rest.clock.time += SCHEDULED_FILES_MS
    await sweep(rest)
    [ben] = await rest.users("ben")
    assert (await ben.call("GET", of(chat, message, file))).content == b"hello"
    assert await rest.core.store.uploads.due(rest.clock.time, 10) == []


async def test_only_finished_uploads_of_the_author_can_be_scheduled(rest: Rest, talk: Talk) -> None:
    chat, ann, ben = talk
    path = f"/v1/chats/{chat}/messages"
    half, other = (await start(ann, 5))["attachment_id"], await upload(ben, b"x")
    mine = await upload(ann, b"x")
    for names, refused in (
        (["x"], (400, "request.invalid")),
        ([mine, mine], (400, "request.invalid")),
        ([mine, half], UNKNOWN),
        ([mine, other], UNKNOWN),
    ):
        assert await ann.refused("POST", path, body(rest, attachments=names)) == refused
    empty = body(rest, content="")
    assert await ann.refused("POST", path, empty) == (400, "content.empty")
    await ann.ok("POST", path, now_with(mine))
    assert await ann.refused("POST", path, body(rest, attachments=[mine])) == USED
    late = await upload(ann, b"x")
    rest.clock.time += UPLOAD_MS
    [ann] = await rest.users("ann")
    assert await ann.refused("POST", path, body(rest, attachments=[late])) == UNKNOWN


async def test_a_file_is_free_soon_after_a_crash_between_its_reservation_and_its_message(
    rest: Rest, talk: Talk
) -> None:
    chat, ann, _ = talk
    path = f"/v1/chats/{chat}/messages"
    file, waiting = await upload(ann, b"hello"), await upload(ann, b"later")
    await schedule(rest, ann, chat, "s9", 2, content="", attachments=[waiting])
    owner = user_key("acme", ann.name)
    assert await rest.core.store.uploads.reserve(owner, file, "s-lost", rest.clock.time)
    assert await ann.refused("POST", path, now_with(file)) == USED
    rest.clock.time += RESERVED_MS
    await sweep(rest)
    assert await ann.refused("POST", path, now_with(waiting)) == USED
    await ann.ok("POST", path, now_with(file))


async def test_a_cancelled_message_leaves_its_files_for_a_day(rest: Rest, talk: Talk) -> None:
    chat, ann, _ = talk
    path = f"/v1/chats/{chat}/messages"
    sent, left = await upload(ann, b"x"), await upload(ann, b"y")
    name = await schedule(rest, ann, chat, "s1", 10 * DAY, attachments=[sent, left])
    rest.clock.time += 5 * DAY_MS
    await sweep(rest)
    [ann] = await rest.users("ann")
    await ann.ok("PATCH", f"/v1/scheduled/{name}", {"content": ""})
    await ann.ok("DELETE", f"/v1/scheduled/{name}")
    await ann.ok("POST", path, now_with(sent))
    rest.clock.time += UPLOAD_MS + LATE_BYTES_MS
    await sweep(rest)
    assert (len(blobs_of(rest, sent)), len(blobs_of(rest, left))) == (1, 0)


async def test_a_failed_message_leaves_its_files_for_a_day(rest: Rest, talk: Talk) -> None:
    chat, ann, ben = talk
    file = await upload(ben, b"x")
    await schedule(rest, ben, chat, "s1", 2 * DAY, attachments=[file])
    await ann.ok("DELETE", f"/v1/chats/{chat}/members/ben")
    await come(rest, ben, 2 * DAY_MS)
    ann, ben = await rest.users("ann", "ben")
    listed = await ben.ok("GET", "/v1/scheduled")
    assert [(one["state"], one["attachments"]) for one in listed["data"]] == [("failed", [file])]
    await ann.ok("PUT", f"/v1/chats/{chat}/members/ben", {})
    await ben.ok("POST", f"/v1/chats/{chat}/messages", now_with(file))


async def test_too_many_scheduled_messages_reserve_nothing(
    rest: Rest, talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat, ann, _ = talk
    file = await upload(ann, b"x")

    async def full(*_: object) -> None:
        return None

    with monkeypatch.context() as patched:
        patched.setattr(type(rest.core.store.scheduled), "add", full)
        refused = await ann.refused(
            "POST", f"/v1/chats/{chat}/messages", body(rest, attachments=[file])
        )
    assert refused == (409, "limit.reached")
    await ann.ok("POST", f"/v1/chats/{chat}/messages", now_with(file))


async def test_the_files_of_an_erased_author_do_not_wait(rest: Rest, talk: Talk) -> None:
    chat, ann, _ = talk
    eve = await rest.user("eve-who-waits")
    await ann.ok("PUT", f"/v1/chats/{chat}/members/eve-who-waits", {})
    file = await upload(eve, b"x")
    await schedule(rest, eve, chat, "s1", 10 * DAY, attachments=[file])
    tenant = await rest.tenant()
    await tenant.ok("DELETE", "/v1/tenants/acme/users/eve-who-waits/content")
    rest.clock.time += 60_000
    await sweep(rest)
    assert blobs_of(rest, file) == []
    owner = UserKey("acme:eve-who-waits")
    assert await rest.core.store.uploads.get(owner, file) is None

# SPDX-License-Identifier: Apache-2.0
"""Scheduled messages: who may schedule, change and cancel them, and what happens at their time."""

from typing import Any

import pytest
import pytest_asyncio

from tests.integration.engines import long_engine as long_engine
from tests.integration.rest_world import Actor, Rest
from tests.support.clock import next_year
from tests.support.waiting import until
from tidings.assembly.system import back_off
from tidings.delivery.timer import Timer
from tidings.model.ids import rfc3339, user_key
from tidings.model.scheduled import SETTLE_MS
from tidings.ports.bus import ScheduledFailed
from tidings.ports.due import due_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

MINUTE = 60_000
TOO_LATE = (409, "scheduled.too_late")

Talk = tuple[str, Actor, Actor]


@pytest_asyncio.fixture(loop_scope="module")
async def talk(rest: Rest) -> Talk:
    """A fresh group of two with one message, at sequence 2."""
    ann, ben = await rest.users("ann", "ben")
    chat = await ann.group("ben")
    await ann.send(chat, "m1")
    return chat, ann, ben


def body(rest: Rest, cmid: str = "s1", minutes: float = 1, **more: object) -> dict[str, Any]:
    at = rfc3339(rest.clock.time + int(minutes * MINUTE))
    return {"client_message_id": cmid, "content": "later", "send_at": at, **more}


async def schedule(rest: Rest, who: Actor, chat: str, *args: Any, **more: Any) -> str:
    answer = await who.call("POST", f"/v1/chats/{chat}/messages", body(rest, *args, **more))
    assert (answer.status_code, list(answer.json())) == (202, ["scheduled_id"]), answer.text
    return str(answer.json()["scheduled_id"])


async def pass_time(rest: Rest, minutes: float = 1) -> None:
    """Let time pass, and do what is due."""
    rest.clock.time += int(minutes * MINUTE)
    timer = Timer(
        due=rest.core.store.due,
        kinds=rest.core.due_work,
        clock=rest.clock,
        holder="test",
        back_off=back_off,
    )
    await timer.look()
    await until(lambda: timer.depths()["held"] == 0)
    await timer.close()


async def contents(who: Actor, chat: str) -> list[tuple[str, str]]:
    page = await who.ok("GET", f"/v1/chats/{chat}/messages?after=2&limit=100")
    return [(one["sender_id"], one["content"]) for one in page["data"]]


async def listed(who: Actor) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await who.ok("GET", "/v1/scheduled"))["data"]
    return found


async def test_a_message_is_sent_at_its_time_and_not_before(rest: Rest, talk: Talk) -> None:
    chat, ann, ben = talk
    name = await schedule(rest, ann, chat, reply_to=2, mentions=["ben"], silent=True)
    [shown] = [one for one in await listed(ann) if one["chat_id"] == chat]
    assert shown == shown | {
        "scheduled_id": name, "state": "pending", "content": "later", "reply_to": 2, "code": None,
        "mentions": ["ben"], "silent": True, "client_message_id": "s1", "ttl_seconds": None,
    }  # fmt: skip
    assert shown["send_at"] == rfc3339(rest.clock.time + MINUTE)
    assert await listed(ben) == []
    await pass_time(rest, 0.99)
    assert await contents(ben, chat) == []
    await pass_time(rest, 0.01)
    assert await contents(ben, chat) == [("ann", "later")]
    sent = await ann.ok("GET", f"/v1/chats/{chat}/messages/3")
    assert sent["client_message_id"] == f"sch:{name}"
    assert (sent["reply_to"], sent["mentions"], sent["silent"]) == (2, ["ben"], True)
    assert await listed(ann) == []
    path = f"/v1/scheduled/{name}"
    assert await ann.refused("DELETE", path) == TOO_LATE
    assert await ann.refused("PATCH", path, {"content": "no"}) == TOO_LATE
    await pass_time(rest, 5)
    assert len(await contents(ben, chat)) == 1


async def test_a_repeat_schedules_nothing_more(rest: Rest, talk: Talk) -> None:
    chat, ann, ben = talk
    wanted = body(rest, "same")
    path = f"/v1/chats/{chat}/messages"
    first = await ann.ok("POST", path, wanted)
    assert await ann.ok("POST", path, wanted) == first
    for other in (
        {"content": "other"},
        {"silent": True},
        {"send_at": rfc3339(rest.clock.time + 9)},
    ):
        assert await ann.refused("POST", path, wanted | other) == (409, "send.conflict")
    assert len(await listed(ann)) == 1
    await pass_time(rest)
    assert await ann.ok("POST", path, wanted | {"send_at": wanted["send_at"]}) == first
    await pass_time(rest)
    assert await contents(ben, chat) == [("ann", "later")]


async def test_a_repeat_is_answered_after_its_author_has_left(rest: Rest, talk: Talk) -> None:
    chat, ann, _ = talk
    path, wanted = f"/v1/chats/{chat}/messages", body(rest, "left")
    first = await ann.ok("POST", path, wanted)
    await ann.ok("DELETE", f"/v1/chats/{chat}/members/ann")
    assert await ann.ok("POST", path, wanted) == first
    assert await ann.refused("POST", path, body(rest, "other")) == (404, "chat.not_found")
    await ann.ok("DELETE", f"/v1/scheduled/{first['scheduled_id']}")


async def test_a_pending_message_changes(rest: Rest, talk: Talk) -> None:
    chat, ann, ben = talk
    path = f"/v1/scheduled/{await schedule(rest, ann, chat)}"
    sooner = {"send_at": rfc3339(rest.clock.time + MINUTE // 2), "content": "sooner"}
    changed = await ann.ok("PATCH", path, sooner)
    assert changed == changed | sooner
    unknown = await ann.refused("PATCH", path, {"mentions": ["nobody"]})
    assert unknown == (409, "send.mention_unknown")
    await ann.ok("PATCH", path, {"mentions": ["ben"], "silent": True})
    assert await ben.refused("PATCH", path, {"content": "mine"}) == (404, "scheduled.not_found")
    assert await ben.refused("DELETE", path) == (404, "scheduled.not_found")
    await pass_time(rest, 0.5)
    assert await contents(ben, chat) == [("ann", "sooner")]
    sent = await ben.ok("GET", f"/v1/chats/{chat}/messages/3")
    assert (sent["mentions"], sent["silent"]) == (["ben"], True)
    await pass_time(rest, 2)
    assert len(await contents(ben, chat)) == 1, "its old time does nothing"

    path = f"/v1/scheduled/{await schedule(rest, ann, chat, 's2')}"
    await ann.ok("PATCH", path, {"send_at": rfc3339(rest.clock.time + 3 * MINUTE)})
    await pass_time(rest, 2)
    assert len(await contents(ben, chat)) == 1
    await pass_time(rest, 1)
    assert len(await contents(ben, chat)) == 2


async def test_a_cancelled_message_is_not_sent(rest: Rest, talk: Talk) -> None:
    chat, ann, ben = talk
    name = await schedule(rest, ann, chat)
    for _ in range(2):
        await ann.ok("DELETE", f"/v1/scheduled/{name}")
    assert await ann.refused("PATCH", f"/v1/scheduled/{name}", {"content": "x"}) == (
        404, "scheduled.not_found",
    )  # fmt: skip
    assert await schedule(rest, ann, chat) == name, "a late repeat does not bring it back"
    assert await listed(ann) == []
    await pass_time(rest, 2)
    assert await contents(ben, chat) == []


async def test_what_cannot_be_scheduled_is_refused(rest: Rest, talk: Talk) -> None:
    chat, ann, _ = talk
    path = f"/v1/chats/{chat}/messages"
    now = rest.clock.time
    for at in (now, now - 1, next_year(now) + 1):
        refused = await ann.refused("POST", path, body(rest) | {"send_at": rfc3339(at)})
        assert refused == (400, "request.invalid")
    invalid = {"send_at": "tomorrow"}, {"client_message_id": "sch:x"}, {"mentions": ["a b"]}
    for wrong in invalid:
        assert await ann.refused("POST", path, body(rest) | wrong) == (400, "request.invalid")
    with_file = body(rest, attachments=["01ARZ3NDEKTSV4RRFFQ69G5FAV"])
    assert await ann.refused("POST", path, with_file) == (409, "attachment.unknown")
    plain = {"client_message_id": "sch:x", "content": "now"}
    assert await ann.refused("POST", path, plain) == (400, "request.invalid")
    assert await ann.refused("POST", path, body(rest, content="")) == (400, "content.empty")
    unknown = body(rest, mentions=["nobody"])
    assert await ann.refused("POST", path, unknown) == (409, "send.mention_unknown")
    [stranger] = await rest.users("cat")
    assert await stranger.refused("POST", path, body(rest)) == (404, "chat.not_found")
    for method in ("PATCH", "DELETE"):
        for name in ("x", "0" * 32):
            refused = await ann.refused(method, f"/v1/scheduled/{name}", {"content": "x"})
            assert refused == (404, "scheduled.not_found")
    assert await listed(ann) == []


async def test_a_message_waits_for_at_most_a_year(rest: Rest, talk: Talk) -> None:
    chat, ann, _ = talk
    last = next_year(rest.clock.time)
    name = await schedule(rest, ann, chat, send_at=rfc3339(last))
    path, too_late = f"/v1/scheduled/{name}", {"send_at": rfc3339(last + 1)}
    assert await ann.refused("PATCH", path, too_late) == (400, "request.invalid")
    assert (await ann.ok("PATCH", path, {"send_at": rfc3339(last)}))["send_at"] == rfc3339(last)
    await ann.ok("DELETE", path)


async def test_everything_is_checked_again_at_its_time(rest: Rest, talk: Talk) -> None:
    chat, ann, ben = talk
    failed: list[ScheduledFailed] = []
    rest.core.bus.subscribe(failed.append, ScheduledFailed)
    name = await schedule(rest, ben, chat)
    reply = await schedule(rest, ann, chat, reply_to=2)
    await ann.ok("DELETE", f"/v1/chats/{chat}/members/ben")
    await ann.ok("DELETE", f"/v1/chats/{chat}/messages/2")
    await pass_time(rest)
    assert await contents(ann, chat) == []
    told = {(one.user, one.scheduled_id, one.code) for one in failed}
    assert told == {
        (user_key("acme", "ben"), name, "chat.not_found"),
        (user_key("acme", "ann"), reply, "send.reply_unknown"),
    }
    [shown] = await listed(ben)
    assert (shown["state"], shown["code"], shown["content"]) == (
        "failed", "chat.not_found", "later",
    )  # fmt: skip
    assert await ben.refused("DELETE", f"/v1/scheduled/{name}") == TOO_LATE


async def test_a_banned_author_sends_nothing_from_a_process_that_never_met_them(rest: Rest) -> None:
    dan, eve = await rest.users("sch-dan", "sch-eve")
    chat = await dan.group("sch-eve")
    await schedule(rest, dan, chat)
    key = user_key("acme", "sch-dan")
    # Another process has banned the author, before this one began to read the revocation feed.
    await rest.core.store.users.ban(key, rest.clock.time + 5 * MINUTE, rest.clock.time)
    assert not rest.core.bans.is_banned(key)
    await pass_time(rest)
    assert (await eve.ok("GET", f"/v1/chats/{chat}/messages"))["data"] == []
    [failed] = await listed(dan)
    assert (failed["state"], failed["code"]) == ("failed", "user.banned")


async def test_an_erased_author_sends_nothing_more(rest: Rest) -> None:
    tenant = await rest.tenant()
    eve, fay = await rest.users("eve", "fay")
    chat = await eve.group("fay")
    await schedule(rest, eve, chat)
    await schedule(rest, fay, chat, "s1", 2)
    await tenant.ok("DELETE", "/v1/tenants/acme/users/eve/content")
    await pass_time(rest)
    assert await contents(fay, chat) == []
    [shown] = await listed(eve)
    assert (shown["state"], shown["code"], shown["content"]) == ("failed", "message.gone", None)
    await tenant.ok("PUT", "/v1/tenants/acme/users/fay", {"deactivated": True})
    await pass_time(rest, 2)
    await tenant.ok("PUT", "/v1/tenants/acme/users/fay", {"deactivated": False})
    [shown] = await listed(await rest.user("fay"))
    assert (shown["state"], shown["code"]) == ("failed", "user.deactivated")


async def test_a_banned_author_sends_nothing(rest: Rest, talk: Talk) -> None:
    chat, ann, ben = talk
    tenant = await rest.tenant()
    await schedule(rest, ben, chat)
    await tenant.ok("PUT", "/v1/tenants/acme/users/ben", {"banned_until": "2100-01-01T00:00:00Z"})
    rest.core.bans.learn(user_key("acme", "ben"), 0)  # as in a process that ben never used
    await pass_time(rest)
    await tenant.ok("PUT", "/v1/tenants/acme/users/ben", {"banned_until": None})
    assert await contents(ann, chat) == []
    [shown] = [one for one in await listed(ben) if one["chat_id"] == chat]
    assert (shown["state"], shown["code"]) == ("failed", "user.banned")


async def test_a_time_without_its_message_waits_and_ends(rest: Rest, talk: Talk) -> None:
    """A process that dies before it stores the message leaves only the time."""
    chat, ann, ben = talk
    scheduling = rest.core.verbs.scheduling
    name = await schedule(rest, ann, chat, "s1", 0.1)
    found = await rest.core.store.scheduled.get(user_key("acme", "ann"), name)
    assert found is not None
    await rest.core.store.scheduled.forget(found.user_id, [name])
    await scheduling.due.put(due_of(found), rest.clock.time)
    await pass_time(rest, 0.1)
    await rest.core.store.scheduled.add(found)
    await pass_time(rest, SETTLE_MS / MINUTE)
    assert await contents(ben, chat) == [("ann", "later")]

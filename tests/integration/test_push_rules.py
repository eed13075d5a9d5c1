# SPDX-License-Identifier: Apache-2.0
"""When a member is notified of a message, and when not: every rule of push, in a single process on
SQLite, and in a worker on DynamoDB, which learns from gateways who was reached."""

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.integration.push_world import PHONE, Pushing, register
from tests.integration.push_world import is_worker as is_worker
from tests.integration.push_world import pushing as pushing
from tests.integration.push_world import rest as rest
from tests.integration.rest_world import Actor
from tests.support.waiting import until
from tidings.metrics import declared
from tidings.model.ids import rfc3339

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_member_without_a_connection_is_notified(pushing: Pushing) -> None:
    ann, _, chat = await pushing.people()
    sent = await ann.send(chat, "m1", "Hello Bob")
    (notice,) = await pushing.pushed()
    assert (notice.kind, notice.collapse_key, notice.badge) == ("message", chat, 1)
    assert notice.data == {
        "chat_id": chat, "sequence": str(sent["sequence"]), "sender_id": "ann",
        "message_id": f"{chat}.{sent['sequence']}",
    }  # fmt: skip
    assert (notice.title, notice.body) == (None, None), "the tenant shows no content"


async def test_a_tenant_may_show_content(pushing: Pushing) -> None:
    ann, _, chat = await pushing.people(content="preview")
    await ann.ok("PATCH", "/v1/me", {"display_name": "Ann B."})
    pushing.rest.core.profiles.forget(pushing.key("ann"))
    await ann.send(chat, "m1", "Hello\n" + "x" * 300)
    (notice,) = await pushing.pushed()
    assert notice.title == "Ann B."
    assert notice.body == "Hello " + "x" * 193 + "…"


async def test_who_looks_at_a_device_gets_time_to_take_it(pushing: Pushing) -> None:
    if pushing.is_worker:
        return  # it learns from receipts what a device took
    ann, _, chat = await pushing.people()
    bob = pushing.key("bob")
    pushing.eyes.looking.add(bob)
    pushing.eyes.taken.add((bob, 2))
    await ann.send(chat, "m1")
    await pushing.held_back("taken")
    await ann.send(chat, "m2")
    (notice,) = await pushing.pushed()
    assert notice.data["sequence"] == "3", "the device did not take the second"


async def test_a_receipt_tells_unless_a_device_is_away(pushing: Pushing) -> None:
    ann, bob, chat = await pushing.people()
    key = pushing.key("bob")
    pushing.eyes.looking.add(key)
    await ann.send(chat, "m0")
    await pushing.pushed()
    pushing.fake.sent.clear()

    async def send_and_receive(cmid: str) -> None:
        pushing.queue.hold = asyncio.Event()
        sent = await ann.send(chat, cmid)
        body = {"delivered": sent["sequence"]}
        await bob.ok("PUT", f"/v1/chats/{chat}/receipt", body)
        pushing.queue.hold.set()

    await send_and_receive("m1")
    await pushing.held_back("not_claimed")
    pushing.eyes.away.add(key)
    await send_and_receive("m2")
    await pushing.pushed()


async def test_what_was_read_is_not_pushed(pushing: Pushing) -> None:
    ann, bob, chat = await pushing.people()
    pushing.queue.hold = asyncio.Event()
    sent = await ann.send(chat, "m1")
    await bob.ok("PUT", f"/v1/chats/{chat}/receipt", {"read": sent["sequence"]})
    pushing.queue.hold.set()
    await pushing.held_back("not_claimed")


async def test_a_muted_chat_is_silent_mentions_apart(pushing: Pushing) -> None:
    ann, bob, chat = await pushing.people()
    until_then = rfc3339(pushing.rest.clock.time + 60_000)
    await bob.ok("PUT", f"/v1/chats/{chat}/mute", {"until": until_then, "except_mentions": True})
    await ann.send(chat, "m1")
    await pushing.held_back("muted")
    await ann.send(chat, "m2", mentions=["bob"])
    (notice,) = await pushing.pushed()
    assert notice.data["sequence"] == "3"
    pushing.fake.sent.clear()
    await bob.ok("PUT", f"/v1/chats/{chat}/mute", {"until": until_then})
    await ann.send(chat, "m3", mentions=["bob"])
    await pushing.held_back("muted", 2)
    pushing.rest.clock.time += 60_000
    await ann.send(chat, "m4")
    await pushing.pushed()


async def test_quiet_hours_are_quiet_until_they_end(pushing: Pushing) -> None:
    ann, bob, chat = await pushing.people()
    backend = await pushing.rest.tenant(pushing.tenant)
    for inbox in ("alarms", "news"):
        await backend.ok("PUT", f"/v1/tenants/{pushing.tenant}/inboxes/{inbox}", {"title": inbox})
    now = datetime.fromtimestamp(pushing.rest.clock.time / 1_000, UTC)
    begin, end = (f"{now + timedelta(minutes=minutes):%H:%M}" for minutes in (-60, 2))
    hours = {"from": begin, "to": end, "timezone": "UTC"}
    await bob.ok("PUT", "/v1/inboxes/news/preferences", {"categories": {}, "quiet_hours": hours})
    await ann.send(chat, "m1", mentions=["bob"])
    await pushing.held_back("quiet")
    pushing.rest.clock.time += 120_000
    await ann.send(chat, "m2")
    (notice,) = await pushing.pushed()
    assert notice.data["sequence"] == "3"


async def test_neither_silent_nor_own_nor_blocked_messages_are_pushed(pushing: Pushing) -> None:
    ann, bob, chat = await pushing.people()
    cat = await pushing.rest.user("cat", pushing.tenant)
    group = await ann.group("bob", "cat")
    await bob.ok("PUT", "/v1/me/blocks/cat")
    await ann.send(chat, "m1", silent=True)
    await bob.send(chat, "m2")
    await cat.send(group, "m3")
    await ann.send(chat, "m4")
    (notice,) = await pushing.pushed()
    assert notice.data["sequence"] == "4"


async def test_what_is_redacted_meanwhile_is_not_pushed(pushing: Pushing) -> None:
    ann, _, chat = await pushing.people()
    pushing.queue.hold = asyncio.Event()
    sent = await ann.send(chat, "m1")
    await ann.ok("DELETE", f"/v1/chats/{chat}/messages/{sent['sequence']}")
    pushing.queue.hold.set()
    await pushing.held_back("content_gone")


async def test_what_has_expired_meanwhile_is_not_pushed(pushing: Pushing) -> None:
    ann, _, chat = await pushing.people()
    pushing.queue.hold = asyncio.Event()
    await ann.send(chat, "m1", ttl_seconds=5)
    pushing.rest.clock.time += 5_000
    pushing.queue.hold.set()
    await pushing.held_back("content_gone")


async def test_who_is_blocked_meanwhile_is_not_pushed(pushing: Pushing) -> None:
    ann, bob, chat = await pushing.people()
    pushing.queue.hold = asyncio.Event()
    await ann.send(chat, "m1")
    await until(lambda: pushing.queue.depths()["messages"] == 1)
    await bob.ok("PUT", "/v1/me/blocks/ann")
    pushing.queue.hold.set()
    await pushing.held_back("content_gone")


async def test_who_left_the_chat_is_not_notified(pushing: Pushing) -> None:
    ann, bob, chat = await pushing.people()
    pushing.queue.hold = asyncio.Event()
    await ann.send(chat, "m1")
    await bob.ok("DELETE", f"/v1/chats/{chat}/members/bob")
    pushing.queue.hold.set()
    await pushing.held_back("not_claimed")


async def test_who_joined_later_is_not_notified_of_earlier_messages(pushing: Pushing) -> None:
    ann, _, chat = await pushing.people()
    cat = await pushing.rest.user("cat", pushing.tenant)
    await register(cat, "cat's")
    await ann.send(chat, "m1")
    await pushing.pushed()
    await ann.ok("PUT", f"/v1/chats/{chat}/members/cat")
    await ann.send(chat, "m2")
    notices = await pushing.pushed(3)
    assert sorted(notice.data["sequence"] for notice in notices) == ["2", "4", "4"]


async def test_a_burst_is_one_notice(pushing: Pushing) -> None:
    ann, _, chat = await pushing.people()
    pushing.queue.hold = asyncio.Event()
    for number in range(3):
        await ann.send(chat, f"m{number}")
    await until(lambda: pushing.queue.depths()["messages"] == 3)
    pushing.queue.hold.set()
    (notice,) = await pushing.pushed()
    assert (notice.data["sequence"], notice.badge) == ("4", 3)


async def test_the_badge_is_counted_once_a_minute(pushing: Pushing) -> None:
    ann, _, chat = await pushing.people()
    await ann.send(chat, "m1")
    await pushing.pushed()
    hidden = await ann.group("bob")
    await ann.send(hidden, "m2", silent=True)
    await ann.send(chat, "m3")
    assert [notice.badge for notice in await pushing.pushed(2)] == [1, 2], "one more"
    pushing.rest.clock.time += 60_000
    await ann.send(chat, "m4")
    assert (await pushing.pushed(3))[-1].badge == 4, "counted, with the silent one"


async def test_reading_elsewhere_takes_the_notice_back(pushing: Pushing) -> None:
    ann, bob, chat = await pushing.people()
    await ann.send(chat, "m1")
    await pushing.pushed()
    for _ in range(2):
        await bob.ok("PUT", f"/v1/chats/{chat}/receipt", {"read": 2})
    notices = await pushing.pushed(2)
    assert (notices[-1].kind, notices[-1].collapse_key, notices[-1].badge) == ("clear", chat, 0)


async def test_a_browser_shows_every_notice_so_none_is_taken_back(pushing: Pushing) -> None:
    ann, bob, chat = await pushing.people()
    backend = await pushing.rest.tenant(pushing.tenant)
    settings = {"fcm": {"key": "k"}, "webpush": {"key": "w"}}
    await backend.ok("PUT", f"/v1/tenants/{pushing.tenant}/push", settings)
    await register(bob, "a browser", provider="webpush")
    await ann.send(chat, "m1")
    await pushing.pushed()
    await bob.ok("PUT", f"/v1/chats/{chat}/receipt", {"read": 2})
    await ann.send(chat, "m2")
    kinds = [notice.kind for notice in await pushing.pushed(2)]
    assert kinds == ["message", "message"]


async def test_without_a_device_nothing_is_claimed(pushing: Pushing) -> None:
    ann, bob, _ = await pushing.people()
    cat = await pushing.rest.user("cat", pushing.tenant)
    await register(cat, "another phone")
    chat = await ann.group("bob", "cat")
    await bob.ok("DELETE", PHONE)
    await ann.send(chat, "m1")
    await pushing.pushed()  # to the third member, after it was found out who has a device
    await register(bob, "later")
    await ann.send(chat, "m2")
    await pushing.pushed(3)
    sent = [(target.address, notice.data["sequence"]) for target, notice in pushing.fake.sent]
    assert sorted(sent) == [("another phone", "2"), ("another phone", "3"), ("later", "3")]


@pytest.mark.parametrize(
    "meanwhile",
    ["read", "redacted", "muted", "blocked", "unregistered", "given away", "nothing"],
)
async def test_another_attempt_is_made_only_if_there_is_still_something_to_notify_of(
    pushing: Pushing, meanwhile: str
) -> None:
    ann, bob, chat = await pushing.people()
    await register(bob, "busy")
    later = rfc3339(pushing.rest.clock.time + 60_000)
    requests: dict[str, tuple[Actor, str, str, Any]]
    requests = {
        "read": (bob, "PUT", f"/v1/chats/{chat}/receipt", {"read": 2}),
        "redacted": (ann, "DELETE", f"/v1/chats/{chat}/messages/2", None),
        "muted": (bob, "PUT", f"/v1/chats/{chat}/mute", {"until": later}),
        "blocked": (bob, "PUT", "/v1/me/blocks/ann", {}),
        "unregistered": (bob, "DELETE", PHONE, None),
        "given away": (ann, "PUT", PHONE, {"provider": "fcm", "token": "busy", "app": "news"}),
        "nothing": (bob, "GET", "/v1/me", None),
    }

    async def happens() -> None:
        who, method, path, body = requests[meanwhile]
        await who.ok(method, path, body)

    pushing.fake.after_busy = happens
    counts = declared.push.counts
    before = Counter({outcome: counts[outcome] for outcome in ("sent", "outdated")})
    await ann.send(chat, "m1")
    outcome = "sent" if meanwhile == "nothing" else "outdated"
    await until(lambda: counts[outcome] == before[outcome] + 1)
    shown = [notice for _, notice in pushing.fake.sent if notice.kind == "message"]
    assert len(shown) == (meanwhile == "nothing")

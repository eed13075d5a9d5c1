# SPDX-License-Identifier: Apache-2.0
"""The steps of push in a timeline: every rule that holds a notice back, and every answer of a push
service, in a single process on SQLite and in a worker on DynamoDB."""

import asyncio
from typing import Final

import pytest

from tests.integration.push_world import PHONE, Pushing, register
from tests.integration.push_world import is_worker as is_worker
from tests.integration.push_world import pushing as pushing
from tests.integration.push_world import rest as rest
from tests.integration.rest_world import Actor
from tests.integration.test_push_inbox import News
from tests.integration.test_push_inbox import fake as fake
from tests.integration.test_push_inbox import news as news
from tests.support.waiting import until
from tidings.delivery import push_queue
from tidings.model.ids import rfc3339

pytestmark = pytest.mark.asyncio(loop_scope="module")

DEVICE: Final = "device phone by fcm"


async def told(asker: Pushing | News, user: str, **about: str) -> list[tuple[str, str]]:
    """The steps of push in the timeline, without the claim."""
    backend = await asker.rest.tenant(asker.tenant)
    asked = "&".join(f"{name}={value}" for name, value in about.items())
    path = f"/v1/tenants/{asker.tenant}/explain?user_id={user}&{asked}"
    timeline = (await backend.ok("GET", path))["timeline"]
    found = [(one["what"], one["where"]) for one in timeline if one["what"].startswith("push")]
    return [step for step in found if step[0] != "push_claimed"]


async def until_told(pushing: Pushing, chat: str, sequence: int, *steps: tuple[str, str]) -> None:
    """Wait until these are the steps of a message to Bob."""

    async def found() -> object:
        return await told(pushing, "bob", message_id=f"{chat}.{sequence}")

    await until(found, equals=list(steps))


async def held(pushing: Pushing, ann: Actor, chat: str) -> int:
    """Send a message that waits in the queue; return its sequence."""
    pushing.queue.hold = asyncio.Event()
    sequence = int((await ann.send(chat, "m1"))["sequence"])
    await until_told(pushing, chat, sequence, ("push_waiting", "unknown"))
    return sequence


@pytest.mark.parametrize(
    ("token", "step"),
    [
        ("works", ("pushed", DEVICE)),
        ("busy", ("pushed", DEVICE)),
        ("gone", ("push_device_removed", DEVICE)),
        ("unclear", ("push_unknown", f"{DEVICE}: no answer")),
        ("refused", ("push_refused", f"{DEVICE}: too large")),
    ],
)
async def test_what_a_push_service_answers(
    pushing: Pushing, token: str, step: tuple[str, str]
) -> None:
    ann, bob, chat = await pushing.people()
    await register(bob, token)
    await ann.send(chat, "m1")
    await until_told(pushing, chat, 2, step)


async def test_a_push_service_that_asked_to_wait_too_long(pushing: Pushing) -> None:
    ann, bob, chat = await pushing.people()
    await register(bob, "busy")

    async def mutes() -> None:
        await bob.ok("PUT", f"/v1/chats/{chat}/mute", {"until": "2099-01-01T00:00:00Z"})

    pushing.fake.after_busy = mutes
    await ann.send(chat, "m1")
    reason = "there is nothing to notify of any more"
    await until_told(pushing, chat, 2, ("push_not_sent", f"{DEVICE}: {reason}"))


async def test_rules_that_hold_a_notice_back(pushing: Pushing) -> None:
    ann, bob, chat = await pushing.people()
    sequence = await held(pushing, ann, chat)
    await ann.ok("DELETE", f"/v1/chats/{chat}/messages/{sequence}")
    assert pushing.queue.hold is not None
    pushing.queue.hold.set()
    await until_told(pushing, chat, sequence, ("push_skipped", "rule content_gone"))

    other = await ann.group("bob")
    sequence = await held(pushing, ann, other)
    await bob.ok("PUT", f"/v1/chats/{other}/receipt", {"read": sequence})
    pushing.queue.hold.set()
    await until_told(pushing, other, sequence, ("push_skipped", "rule not_claimed"))

    if not pushing.is_worker:  # a worker has no connections, and finds the receipt
        pushing.eyes.taken.add((pushing.key("bob"), 3))
        await ann.send(other, "m2")
        await until_told(pushing, other, 3, ("push_skipped", "rule taken"))


async def test_of_a_burst_each_message_is_told_apart(pushing: Pushing) -> None:
    ann, bob, chat = await pushing.people()
    muted = {"until": rfc3339(pushing.rest.clock.time + 60_000), "except_mentions": True}
    await bob.ok("PUT", f"/v1/chats/{chat}/mute", muted)
    await held(pushing, ann, chat)
    await ann.send(chat, "m2", mentions=["bob"])
    await ann.send(chat, "m3")
    await until(lambda: pushing.queue.depths()["messages"] == 3)
    assert pushing.queue.hold is not None
    pushing.queue.hold.set()
    await pushing.pushed()
    for sequence in (2, 4):
        await until_told(pushing, chat, sequence, ("push_skipped", "rule muted"))
    await until_told(pushing, chat, 3, ("pushed", DEVICE))

    other = await ann.group("bob")
    pushing.queue.hold = asyncio.Event()
    for number in range(2 * push_queue.MESSAGES_MAX):
        await ann.send(other, f"n{number}")
    pushing.queue.hold.set()
    for sequence in range(2, 2 + 2 * push_queue.MESSAGES_MAX):
        await until_told(pushing, other, sequence, ("pushed", DEVICE))


async def test_notices_that_come_to_nothing(
    pushing: Pushing, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann, bob, chat = await pushing.people()
    monkeypatch.setattr(push_queue, "TENANT_WAITING_MAX", 0)
    await ann.send(chat, "m1")
    await until_told(pushing, chat, 2, ("push_dropped", "unknown"))
    monkeypatch.undo()
    sequence = await held(pushing, ann, other := await ann.group("bob"))
    await bob.ok("DELETE", PHONE)
    assert pushing.queue.hold is not None
    pushing.queue.hold.set()
    await until_told(pushing, other, sequence, ("push_not_sent", "unknown"))


async def test_who_does_not_want_a_notification_and_who_is_asleep(news: News) -> None:
    ann, bob, cat = [await news.user(name) for name in ("ann", "bob", "cat")]
    off = {"categories": {"offers": {"push": False}}}
    await bob.ok("PUT", "/v1/inboxes/news/preferences", off)
    quiet = {"from": "00:00", "to": "23:59", "timezone": "UTC"}
    await cat.ok("PUT", "/v1/inboxes/news/preferences", {"quiet_hours": quiet})
    notice = await news.post(["ann", "bob", "cat"], "offers")
    await news.notify(notice, "ann", "bob", "cat")
    steps = {
        user.name: await told(news, user.name, notification_id=notice) for user in (ann, bob, cat)
    }
    assert steps == {
        "ann": [("pushed", DEVICE)],
        "bob": [("push_skipped", "rule unwanted")],
        "cat": [("push_skipped", "rule quiet")],
    }

# SPDX-License-Identifier: Apache-2.0
"""What became of a notification that a user does not see, on every engine."""

from typing import Any

import msgspec
import pytest

from tests.integration.engines import long_engine as long_engine
from tests.integration.inbox_world import Newsroom, Reader, open_newsroom, to_everyone, to_users
from tests.integration.inbox_world import delivering as delivering
from tests.integration.rest_world import Json, Rest
from tests.integration.test_rest_deliver_at import append_without_note
from tests.integration.test_rest_scheduled import pass_time
from tidings.model.ids import rfc3339
from tidings.ports.scheduled_notifications import due_of_notification
from tidings.ports.world import new_ulid

pytestmark = pytest.mark.asyncio(loop_scope="module")

MINUTE = 60_000
LISTED_AND_ALL = pytest.mark.parametrize("uids", [["ann"], None])


async def explained(room: Newsroom, user: str, name: str) -> Json:
    """What the tenant is told about a notification and a user."""
    query = f"user_id={user}&notification_id={name}&inbox={room.inbox}"
    told: Json = await room.actor.ok("GET", f"/v1/tenants/{room.tenant}/explain?{query}")
    return told


async def code(room: Newsroom, user: str, name: str) -> str:
    return str((await explained(room, user, name))["code"])


def step(told: Json, what: str) -> tuple[str, str]:
    """The time and place of a step, which is there once."""
    (found,) = [(one["at"], one["where"]) for one in told["timeline"] if one["what"] == what]
    return found


def steps(told: Json) -> list[str]:
    return [one["what"] for one in told["timeline"]]


def post_for(uids: list[str] | None, title: str, **more: Any) -> Json:
    return to_everyone(title, **more) if uids is None else to_users(uids, title, **more)


async def tell(room: Newsroom, uids: list[str] | None, title: str, **more: Any) -> str:
    """Post, and wait until it is delivered; no two have the same time."""
    room.rest.clock.time += 1
    name = str((await room.post(post_for(uids, title, **more)))["id"])
    await room.delivered(name)
    return name


async def want(reader: Reader, is_wanted: bool) -> None:
    """Switch a category on or off."""
    path = f"/v1/inboxes/{reader.inbox}/preferences"
    await reader.actor.ok("PUT", path, {"categories": {"offers": {"in_app": is_wanted}}})


async def test_a_copy_that_was_not_made(rest: Rest) -> None:
    room = await open_newsroom(rest, "nocopy")
    ann, ben = await room.user("ann"), await room.user("ben")
    await room.user("cat")
    await want(ann, False)
    name = await tell(room, ["ann", "ben"], "offer", category="offers")
    told = await explained(room, "ann", name)
    assert (told["code"], told["since"]) == ("unwanted", "unknown")
    assert "as they are now" in told["verdict"]
    assert "is not kept" in told["verdict"], "cat is not addressed, and could switch it off too"
    assert "required" in told["next_step"]
    assert step(told, "unwanted") == ("unknown", "preferences of user ann, inbox nocopy")
    assert "copied" in steps(await explained(room, "ben", name))
    await want(ben, False)
    assert await code(room, "ben", name) not in ("unwanted", "not_addressed"), "it is listed still"
    await want(ann, True)
    for user in ("ann", "cat"):
        told = await explained(room, user, name)
        assert told["code"] == "unknown", "earlier preferences are not kept"
        assert "unwanted" not in steps(told)
    plain = await tell(room, ["ann"], "no category")
    assert await code(room, "cat", plain) == "not_addressed"


async def test_what_the_tenant_leaves_out_by_default(rest: Rest) -> None:
    room = await open_newsroom(rest, "defaults", category_rules={"offers": {"in_app": False}})
    ann = await room.user("ann")
    for uids in (["ann"], None):
        name = await tell(room, uids, "offer", category="offers")
        assert await code(room, "ann", name) == "unwanted"
    assert await ann.titles() == []


async def test_a_broadcast_that_preferences_hide(rest: Rest) -> None:
    room = await open_newsroom(rest, "hidden")
    ann = await room.user("ann")
    name = await tell(room, None, "offer", category="offers")
    assert await code(room, "ann", name) == "unknown", "nobody knows whether ann is connected"
    await want(ann, False)
    told = await explained(room, "ann", name)
    assert (told["code"], told["since"]) == ("unwanted", "unknown")
    assert "is hidden" in told["verdict"]
    assert steps(told) == ["posted", "unwanted"]
    await ann.read(before=rfc3339(rest.clock.time))
    assert await code(room, "ann", name) == "unwanted", "it was read with others, unseen"
    await want(ann, True)
    assert await code(room, "ann", name) == "read"


@LISTED_AND_ALL
async def test_what_the_user_has_put_away(rest: Rest, uids: list[str] | None) -> None:
    room = await open_newsroom(rest, f"away{len(uids or ())}")
    ann = await room.user("ann")
    path = f"/v1/inboxes/{room.inbox}/state"
    name = await tell(room, uids, "put away")
    rest.clock.time += MINUTE
    await ann.actor.ok("PUT", path, {"ids": [name], "archived": True})
    told = await explained(room, "ann", name)
    assert (told["code"], told["since"]) == ("archived", rfc3339(rest.clock.time))
    assert step(told, "archived") == (rfc3339(rest.clock.time), f"inbox {room.inbox}")
    until = rfc3339(rest.clock.time + MINUTE)
    change = {"ids": [name], "archived": False, "snooze_until": until}
    await ann.actor.ok("PUT", path, change)
    told = await explained(room, "ann", name)
    assert (told["code"], told["since"]) == ("snoozed", "unknown")
    assert until in told["verdict"]
    assert step(told, "snoozed") == ("unknown", f"inbox {room.inbox}, until {until}")
    rest.clock.time += MINUTE
    told = await explained(room, "ann", name)
    assert told["code"] not in ("archived", "snoozed"), "it is listed again"
    assert "snoozed" not in steps(told)
    await ann.actor.ok("PUT", path, {"ids": [name], "read": True, "archived": True})
    assert await code(room, "ann", name) == "read"


@LISTED_AND_ALL
async def test_what_a_newer_one_takes_the_place_of(rest: Rest, uids: list[str] | None) -> None:
    room = await open_newsroom(rest, f"newer{len(uids or ())}")
    ann = await room.user("ann")
    first = await tell(room, uids, "first", collapse_key="k")
    other = await tell(room, None if uids else ["ann"], "second", collapse_key="k")
    third = await tell(room, uids, "another key", collapse_key="j")
    assert await ann.titles() == ["another key", "second"]
    told = await explained(room, "ann", first)
    assert (told["code"], told["since"]) == ("collapsed", "unknown")
    assert step(told, "collapsed") == ("unknown", f"inbox {room.inbox}")
    for name in (other, third):
        assert await code(room, "ann", name) != "collapsed"
    await room.redact(other)
    assert await code(room, "ann", first) != "collapsed"


async def schedule(room: Newsroom, uids: list[str] | None, **more: Any) -> tuple[str, str]:
    """Schedule a post in a minute; its id and its time."""
    at = rfc3339(room.rest.clock.time + MINUTE)
    return str((await room.post(post_for(uids, "later", deliver_at=at, **more)))["id"]), at


@LISTED_AND_ALL
async def test_what_waits_for_its_time(rest: Rest, uids: list[str] | None) -> None:
    room = await open_newsroom(rest, f"wait{len(uids or ())}")
    for user in ("ann", "ben"):
        await room.user(user)
    name, at = await schedule(room, uids)
    for user in ("ann", "ben"):
        told = await explained(room, user, name)
        assert (told["code"], told["since"]) == ("scheduled", "unknown")
        assert at in told["verdict"]
        assert told["timeline"] == [{"at": at, "what": "due", "where": f"inbox {room.inbox}"}]
    rest.clock.time += MINUTE
    told = await explained(room, "ann", name)
    assert (told["code"], told["since"]) == ("queued", at)
    await pass_time(rest, 0)
    await room.delivered(name)
    assert steps(await explained(room, "ann", name))[0] == "posted"
    expected = "not_addressed" if uids else "unknown"
    assert await code(room, "ben", name) == expected
    gone, at = await schedule(room, uids)
    await room.redact(gone)
    told = await explained(room, "ann", gone)
    assert (told["code"], steps(told)) == ("retracted", ["retracted", "due"])


@LISTED_AND_ALL
async def test_what_was_given_up(rest: Rest, uids: list[str] | None) -> None:
    room = await open_newsroom(rest, f"never{len(uids or ())}")
    await room.user("ann")
    name, at = await schedule(room, uids)
    store = rest.core.store
    (found,) = await store.notifications.get(room.tenant, room.inbox, [name])
    due = due_of_notification(found, rest.clock.time)
    rest.clock.time += MINUTE
    await rest.core.due_work["inbox"].give_up(due)
    await store.due.drop(due)
    told = await explained(room, "ann", name)
    assert (told["code"], told["since"]) == ("failed", "unknown")
    assert step(told, "due") == (at, f"inbox {room.inbox}")
    assert "Post it again" in told["next_step"]
    other = new_ulid(rest.core.clock, rest.core.chance)
    restored = msgspec.structs.replace(found, notification_id=other, restored=True)
    await store.notifications.put(restored)
    told = await explained(room, "ann", other)
    assert (told["code"], told["since"]) == ("restored", "unknown")
    assert step(told, "due") == (at, f"inbox {room.inbox}")


async def test_what_was_given_up_when_all_had_it(rest: Rest) -> None:
    """The process died after the last job, again and again."""
    room = await open_newsroom(rest, "allhad")
    for user in ("ann", "ben"):
        await room.user(user)
    name, _ = await schedule(room, ["ann"])
    await pass_time(rest, 1)
    await room.delivered(name)
    await rest.core.store.scheduled_notifications.fail(room.tenant, room.inbox, name)
    assert "copied" in steps(await explained(room, "ann", name))
    assert await code(room, "ann", name) != "failed"
    assert await code(room, "ben", name) == "not_addressed"


async def test_a_scheduled_broadcast_is_found_in_the_log_before_its_note(
    rest: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = await open_newsroom(rest, "nonote")
    ann = await room.user("ann")
    name, at = await schedule(room, None)
    await append_without_note(room, name, monkeypatch)
    assert step(await explained(room, "ann", name), "posted") == (at, "inbox nonote")
    await ann.read(ids=[name])
    assert await code(room, "ann", name) == "read"

# SPDX-License-Identifier: Apache-2.0
"""Preferences over REST: who chooses what, and what it does to lists, counts and frames."""

import pytest

from tests.integration.engines import long_engine as long_engine
from tests.integration.inbox_world import Newsroom, Reader, open_newsroom
from tests.integration.inbox_world import delivering as delivering
from tests.integration.rest_world import Json, Rest

pytestmark = pytest.mark.asyncio(loop_scope="module")

NIGHT = {"from": "22:00", "to": "07:00", "timezone": "Europe/Berlin"}
ALL_ON = {"in_app": True, "push": True, "email": True, "required": False}
RULES: Json = {"security": {"required": True}, "offers": {"in_app": False, "email": False}}


async def choose(reader: Reader, quiet: Json | None = None, **categories: Json) -> Json:
    body = {"categories": categories, "quiet_hours": quiet}
    path = f"/v1/inboxes/{reader.inbox}/preferences"
    put: Json = await reader.actor.ok("PUT", path, body)
    assert await reader.actor.ok("GET", path) == put
    return put


async def tell(room: Newsroom, title: str, uids: list[str] | None = None, **more: str) -> str:
    """Post to some users or to everyone, a moment after what was posted before."""
    room.rest.clock.time += 1
    if uids is None:
        return await room.tell_everyone(title, **more)
    return await room.tell(uids, title, **more)


async def test_defaults_apply_until_a_user_chooses(rest: Rest) -> None:
    room = await open_newsroom(
        rest, "pref1", categories=["news", "offers", "security"], category_rules=RULES
    )
    ann = await room.user("ann")
    path = "/v1/inboxes/pref1/preferences"
    found = await ann.actor.ok("GET", path)
    assert found == {
        "categories": {
            "news": ALL_ON,
            "offers": {"in_app": False, "push": True, "email": False, "required": False},
            "security": ALL_ON | {"required": True},
        },
        "chosen": {},
        "quiet_hours": None,
    }
    shown = await room.actor.ok("GET", room.path)
    assert shown["category_rules"]["offers"] == {
        "required": False, "in_app": False, "push": True, "email": False,
    }  # fmt: skip
    chosen = await choose(ann, NIGHT, news={"push": False}, offers={"in_app": True})
    assert chosen["quiet_hours"] == NIGHT
    assert chosen["categories"]["news"] == ALL_ON | {"push": False}
    assert chosen["categories"]["offers"] == ALL_ON | {"email": False}
    assert chosen["chosen"] == {"news": {"push": False}, "offers": {"in_app": True}}
    # What is sent back as it was read applies as before, and is the user's choice from then on.
    kept = await ann.actor.ok("PUT", path, chosen)
    assert kept["categories"] == chosen["categories"]
    assert kept["chosen"]["news"] == {"in_app": True, "push": False, "email": True}
    ben = await room.user("ben")
    assert await ben.actor.ok("GET", path) == found


async def test_what_was_read_can_be_sent_back_after_a_category_is_gone(rest: Rest) -> None:
    room = await open_newsroom(rest, "pref-gone", categories=["news", "offers"])
    ann = await room.user("ann")
    await choose(ann, news={"push": False}, offers={"push": False})
    await room.actor.ok("PUT", room.path, {"title": "News", "categories": ["news"]})
    path = "/v1/inboxes/pref-gone/preferences"
    left = await ann.actor.ok("GET", path)
    assert left["categories"] == {"news": ALL_ON | {"push": False}}
    assert left["chosen"] == {"news": {"push": False}}
    # What was chosen is stored again, and a default stays a default.
    again = left | {"categories": left["chosen"]}
    assert await ann.actor.ok("PUT", path, again) == left
    rules = {"news": {"email": False}}
    config = {"title": "News", "categories": ["news"], "category_rules": rules}
    await room.actor.ok("PUT", room.path, config)
    assert (await ann.actor.ok("GET", path))["categories"]["news"]["email"] is False


async def test_what_is_off_is_neither_listed_nor_counted(rest: Rest) -> None:
    room = await open_newsroom(rest, "pref2")
    ann, ben = await room.user("ann"), await room.user("ben")
    await tell(room, "first", ["ann", "ben"], category="offers")
    await choose(ann, offers={"in_app": False})
    await tell(room, "second", ["ann", "ben"], category="offers")
    await tell(room, "third", ["ann", "ben"], category="news")
    await tell(room, "fourth", ["ann", "ben"])
    await tell(room, "fifth", category="offers")
    await tell(room, "sixth", category="news")
    # What was delivered before stays.
    assert await ann.titles() == ["sixth", "fourth", "third", "first"]
    assert await ann.unread() == {"total": 4, "categories": {"news": 2, "offers": 1}}
    assert len(await ben.titles()) == 6
    await choose(ann)
    # A broadcast is one entry for all, so it is shown again; no copy was made.
    assert await ann.titles() == ["sixth", "fifth", "fourth", "third", "first"]
    assert (await ann.unread())["total"] == 5


async def test_a_default_that_is_off_needs_no_preferences(rest: Rest) -> None:
    room = await open_newsroom(rest, "pref3", category_rules=RULES)
    ann, ben = await room.user("ann"), await room.user("ben")
    await choose(ben, offers={"in_app": True})
    await tell(room, "copy", ["ann", "ben"], category="offers")
    await tell(room, "broadcast", category="offers")
    assert await ann.titles() == []
    assert await ben.titles() == ["broadcast", "copy"]


async def test_pages_are_whole_although_broadcasts_are_hidden(rest: Rest) -> None:
    room = await open_newsroom(rest, "pref4")
    ann = await room.user("ann")
    await choose(ann, offers={"in_app": False})
    shown = []
    for number in range(6):
        await tell(room, f"hidden {number}", category="offers")
        shown.append(await tell(room, f"shown {number}", category="news"))
        shown.append(await tell(room, f"copy {number}", ["ann"]))
    assert await ann.all_ids(2) == shown[::-1]
    assert await ann.all_ids(3, "&unread=true") == shown[::-1]


async def test_a_required_category_cannot_be_switched_off(rest: Rest) -> None:
    room = await open_newsroom(rest, "pref5", category_rules=RULES)
    ann = await room.user("ann")
    for channel in ("in_app", "push", "email"):
        body = {"categories": {"security": {channel: False}}}
        answer = await ann.actor.refused("PUT", "/v1/inboxes/pref5/preferences", body)
        assert answer == (409, "preferences.required")
    await choose(ann, news={"in_app": False})
    # It becomes required later: then it is shown.
    rules = {"news": {"required": True}}
    await room.actor.ok("PUT", room.path, {"title": "News", "category_rules": rules})
    await tell(room, "copy", ["ann"], category="news")
    assert await ann.titles() == ["copy"]
    found = await ann.actor.ok("GET", "/v1/inboxes/pref5/preferences")
    assert found["chosen"] == {}  # a choice without an effect


@pytest.mark.attack("D12")
@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"categories": {"other": {}}}, "/categories/other"),
        ({"categories": {"a#b": {}}}, None),
        ({"categories": {"news": {"in_app": "no"}}}, None),
        ({"categories": {"news": {"sms": True}}}, None),
        ({"categories": {f"c{n}": {} for n in range(101)}}, "/categories"),
        ({"quiet_hours": {"from": "22:00", "to": "07:00"}}, None),
        ({"quiet_hours": NIGHT | {"from": "25:00"}}, "/quiet_hours/from"),
        ({"quiet_hours": NIGHT | {"to": "22:00"}}, "/quiet_hours/to"),
        ({"quiet_hours": NIGHT | {"timezone": "../../etc/passwd"}}, "/quiet_hours/timezone"),
        ({"quiet_hours": NIGHT | {"timezone": "x" * 65}}, "/quiet_hours/timezone"),
        ({"quiet": None}, "/quiet"),
    ],
)
async def test_malformed_preferences_are_refused(
    rest: Rest, body: Json, pointer: str | None
) -> None:
    room = await open_newsroom(rest, "pref6", categories=["news"])
    ann = await room.user("ann")
    answer = await ann.actor.call("PUT", "/v1/inboxes/pref6/preferences", body)
    assert (answer.status_code, answer.json()["code"]) == (400, "request.invalid")
    if pointer is not None:
        assert [error["pointer"] for error in answer.json()["errors"]] == [pointer]


async def test_rules_are_for_categories_of_the_inbox(rest: Rest) -> None:
    room = await open_newsroom(rest, "pref7")
    body = {"title": "News", "categories": ["news"], "category_rules": {"other": {}}}
    assert await room.actor.refused("PUT", room.path, body) == (400, "request.invalid")


async def test_an_unknown_inbox_has_no_preferences(rest: Rest) -> None:
    ann = await rest.user("ann")
    path = "/v1/inboxes/nothing/preferences"
    assert await ann.refused("GET", path) == (404, "inbox.not_found")
    assert await ann.refused("PUT", path, {}) == (404, "inbox.not_found")

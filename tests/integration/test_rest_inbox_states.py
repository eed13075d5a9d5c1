# SPDX-License-Identifier: Apache-2.0
"""What users do with their notifications over REST: seen, archived, snoozed, unread again."""

from typing import Any

import pytest

from tests.integration.engines import long_engine as long_engine
from tests.integration.inbox_world import Reader, open_newsroom
from tests.integration.inbox_world import delivering as delivering
from tests.integration.rest_world import Json, Rest, problem
from tidings.model import notification_states
from tidings.model.ids import rfc3339
from tidings.model.notification_states import BROADCAST_STATES_MAX, SNOOZE_MS_MAX

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def change(reader: Reader, **wanted: Any) -> Json:
    """Change states; what is left."""
    left: Json = await reader.actor.ok("PUT", f"/v1/inboxes/{reader.inbox}/state", wanted)
    return left


async def by_id(reader: Reader, query: str = "") -> dict[str, Json]:
    return {one["id"]: one for one in (await reader.page(query))["data"]}


async def test_each_state_shows_and_is_counted(rest: Rest) -> None:
    news = await open_newsroom(rest, "states")
    ann = await news.user("ann")
    copy = await news.tell(["ann"], "copy", category="a")
    sent = await news.tell_everyone("broadcast", category="b")
    both, now = [copy, sent], rfc3339(rest.clock.time)
    assert await ann.unread() == {"total": 2, "categories": {"a": 1, "b": 1}}
    left = await change(ann, ids=both, seen=True)
    assert left == {"unseen": 0, "unread": 2, "categories": {"a": 1, "b": 1}}
    assert await ann.unread() == {"total": 2, "categories": {"a": 1, "b": 1}, "unseen": 0}
    assert {one["seen_at"] for one in (await by_id(ann)).values()} == {now}

    assert (await change(ann, ids=both, read=True))["unread"] == 0
    assert {one["read_at"] for one in (await by_id(ann)).values()} == {now}
    again = await change(ann, ids=both, read=False)
    assert again == {"unseen": 0, "unread": 2, "categories": {"a": 1, "b": 1}}
    assert {one["read_at"] for one in (await by_id(ann)).values()} == {None}

    assert (await change(ann, ids=both, archived=True))["unread"] == 0
    assert await by_id(ann) == await by_id(ann, "?archived=false") == {}
    archived = await by_id(ann, "?archived=true")
    assert [archived[one]["archived_at"] for one in both] == [now, now]
    assert (await change(ann, ids=both, archived=False))["unread"] == 2
    assert set(await by_id(ann)) == set(both)
    assert await by_id(ann, "?archived=true") == {}


async def test_what_is_snoozed_comes_back_by_itself(rest: Rest) -> None:
    news = await open_newsroom(rest, "snoozed")
    ann = await news.user("ann")
    both = [await news.tell(["ann"], "copy"), await news.tell_everyone("broadcast")]
    until = rfc3339(rest.clock.time + 5_000)
    assert (await change(ann, ids=both, snooze_until=until))["unread"] == 0
    assert await by_id(ann) == {}
    assert {one["snoozed_until"] for one in (await by_id(ann, "?snoozed=true")).values()} == {until}
    rest.clock.time += 5_000
    assert set(await by_id(ann)) == set(both)
    assert await by_id(ann, "?snoozed=true") == {}
    assert (await ann.unread())["total"] == 2

    later = rfc3339(rest.clock.time + 60_000)
    await change(ann, ids=both, snooze_until=later)
    assert (await change(ann, ids=both, snooze_until=None))["unread"] == 2
    await change(ann, ids=both, snooze_until=later, archived=True)
    assert set(await by_id(ann, "?archived=true")) == set(both)
    assert await by_id(ann, "?snoozed=true") == {}


async def test_all_up_to_a_time_at_once_and_again(rest: Rest) -> None:
    news = await open_newsroom(rest, "all-states")
    ann, now = await news.user("ann"), rfc3339(rest.clock.time)
    both = [await news.tell(["ann"], "copy"), await news.tell_everyone("broadcast")]
    assert (await change(ann, before=now, seen=True))["unseen"] == 0
    assert (await change(ann, before=now, read=True))["unread"] == 0
    assert (await change(ann, ids=both, read=False))["unread"] == 2
    rest.clock.time += 1
    later = await news.tell(["ann"], "later")
    assert (await change(ann, before=now, read=True))["unread"] == 1, "the same time once more"
    assert (await change(ann, ids=both, read=False))["unread"] == 3
    assert (await ann.read(before=now))["total"] == 1
    await change(ann, ids=both, read=False)
    assert (await ann.read(ids=both))["total"] == 1
    assert (await change(ann, before=now, archived=True))["unread"] == 1
    assert set(await by_id(ann)) == {later}
    await change(ann, ids=both[:1], archived=False)
    assert set(await by_id(ann)) == {later, both[0]}
    rest.clock.time += 1
    await change(ann, before=rfc3339(rest.clock.time), archived=True)
    assert await by_id(ann) == {}, "a later mark covers what was taken out before"


async def test_others_and_strangers_notice_nothing(rest: Rest) -> None:
    news = await open_newsroom(rest, "states-of-others")
    ann, bob = await news.user("ann"), await news.user("bob")
    ids = [await news.tell(["ann", "bob"], "copy"), await news.tell_everyone("broadcast")]
    only = await news.tell(["bob"], "only bob")
    left = await change(ann, ids=[*ids, only, "b99", "nonsense"], archived=True, read=True)
    assert left["unread"] == 0
    assert set(await by_id(bob)) == {*ids, only}
    assert (await bob.unread())["total"] == 3


async def test_a_change_that_says_nothing_or_too_much_is_refused(rest: Rest) -> None:
    news = await open_newsroom(rest, "bad-states")
    ann = await news.user("ann")
    await news.tell_everyone("broadcast")
    now = rfc3339(rest.clock.time)
    far = rfc3339(rest.clock.time + SNOOZE_MS_MAX + 1_000)
    for body in (
        {"ids": ["b1"]},
        {"seen": True},
        {"ids": ["b1"], "before": now, "seen": True},
        {"ids": [], "seen": True},
        {"ids": ["b1"] * 101, "seen": True},
        {"ids": ["b1"] * 20_000, "seen": True},
        {"before": now, "read": False},
        {"before": now, "seen": True, "archived": False},
        {"before": now, "snooze_until": now},
        {"before": "soon", "seen": True},
        {"ids": ["b1"], "snooze_until": "soon"},
        {"ids": ["b1"], "snooze_until": far},
        {"ids": ["b1"], "seen": "yes"},
        {"ids": ["b1"], "seen": True, "starred": True},
    ):
        answer = await ann.actor.call("PUT", f"/v1/inboxes/{ann.inbox}/state", body)
        assert answer.status_code == 400, (body, answer.text)
    assert (await ann.unread()) == {"total": 1, "categories": {}}
    missing = await ann.actor.call("PUT", "/v1/inboxes/none/state", {"before": now, "seen": True})
    assert problem(missing) == (404, "inbox.not_found")


async def test_states_of_broadcasts_are_limited_and_a_mark_makes_room(
    rest: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert BROADCAST_STATES_MAX == 200
    monkeypatch.setattr("tidings.actions.inbox.states.BROADCAST_STATES_MAX", 3)
    assert notification_states.BROADCAST_STATES_MAX == 200
    news = await open_newsroom(rest, "many-states")
    ann = await news.user("ann")
    ids = [await news.tell_everyone(f"broadcast {number}") for number in range(6)]
    await change(ann, ids=ids[:3], archived=True)
    await change(ann, ids=ids[:3], archived=True, seen=True)
    body = {"ids": ids[3:4], "archived": True}
    full = await ann.actor.call("PUT", f"/v1/inboxes/{ann.inbox}/state", body)
    assert problem(full) == (409, "limit.reached")
    assert (await change(ann, ids=ids[3:], read=True))["unread"] == 0, "read marks have more room"

    rest.clock.time += 1
    await change(ann, before=rfc3339(rest.clock.time), archived=True, seen=True)
    await change(ann, ids=ids[3:4], archived=False)
    assert set(await by_id(ann)) == {ids[3]}


# Actions.


ACTIONS = [
    {"id": "accept", "label": "Accept", "uri": "https://acme.example/accept"},
    {"id": "decline", "label": "Decline"},
]


async def act(reader: Reader, notification_id: str, action: str) -> Any:
    path = f"/v1/inboxes/{reader.inbox}/notifications/{notification_id}/actions/{action}"
    return await reader.actor.call("POST", path)


async def test_the_first_action_is_taken_and_every_later_one_answers_the_same(rest: Rest) -> None:
    news = await open_newsroom(rest, "actions")
    ann, bob = await news.user("ann"), await news.user("bob")
    ids = [
        await news.tell(["ann"], "copy", actions=ACTIONS),
        await news.tell_everyone("broadcast", actions=ACTIONS),
    ]
    listed = await by_id(ann)
    for each in ids:
        assert listed[each]["actions"] == ACTIONS
        first = await act(ann, each, "accept")
        now = rfc3339(rest.clock.time)
        wanted = {"id": each, "action": "accept", "acted_at": now}
        assert (first.status_code, first.json()) == (200, wanted)
        rest.clock.time += 1
        for action in ("accept", "decline"):
            again = await act(ann, each, action)
            assert (again.status_code, again.json()) == (200, wanted)
        shown = (await by_id(ann))[each]
        assert (shown["action"], shown["acted_at"], shown["read_at"]) == ("accept", now, now)
    assert (await ann.unread())["total"] == 0
    assert problem(await act(bob, ids[0], "accept")) == (404, "notification.not_found")
    assert (await act(bob, ids[1], "decline")).json()["action"] == "decline"
    for action in ("other", "..", "a b"):
        assert problem(await act(bob, ids[1], action))[0] == 404
    assert problem(await act(bob, ids[1], "other")) == (404, "action.not_found")
    for missing in ("b99", "nonsense"):
        assert problem(await act(ann, missing, "accept")) == (404, "notification.not_found")
    for gone in ids:
        await news.redact(gone)
        assert problem(await act(ann, gone, "accept")) == (404, "notification.not_found")


async def test_an_action_is_an_event_for_the_webhooks_of_the_tenant(rest: Rest) -> None:
    news = await open_newsroom(rest, "acted-events", "acted")
    ann = await news.user("ann")
    endpoint = {"url": "https://acme.example/hook", "events": ["notification.acted"]}
    made = await news.actor.call("PUT", "/v1/tenants/acted/webhooks/w1", endpoint)
    assert made.status_code == 201, made.text
    asked = await news.tell(["ann"], "copy", actions=ACTIONS)
    acted = (await act(ann, asked, "decline")).json()
    rest.clock.time += 61_000
    assert (await act(ann, asked, "accept")).json() == acted
    event = await rest.core.store.tenant_events.after("acted", 0)
    assert event is not None
    assert (event.type, event.data) == (
        "notification.acted",
        {
            "inbox": "acted-events",
            "notification_id": asked,
            "user_id": "ann",
            "action": "decline",
            "acted_at": acted["acted_at"],
        },
    )
    assert await rest.core.store.tenant_events.after("acted", event.sequence) is None


async def test_actions_that_are_not_sound_are_refused(rest: Rest) -> None:
    news = await open_newsroom(rest, "bad-actions")
    sound = {"id": "a", "label": "A"}
    for actions, pointer in (
        ([sound] * 3, "/actions"),
        ([sound, sound], "/actions"),
        ([{**sound, "id": "a b"}], "/actions/0/id"),
        ([sound, {"id": "b", "label": " "}], "/actions/1/label"),
        ([{**sound, "label": "x" * 101}], "/actions/0/label"),
        ([{**sound, "uri": "javascript:alert(1)"}], "/actions/0/uri"),
        ([{**sound, "uri": "http://acme.example"}], "/actions/0/uri"),
        ([{**sound, "uri": "/relative"}], "/actions/0/uri"),
        ([{"id": "a"}], None),
        ([{**sound, "more": 1}], None),
    ):
        body = {"audience": {"kind": "everyone"}, "message": {"title": "t", "body": ""}}
        answer = await news.try_post({**body, "actions": actions})
        assert answer.status_code == 400, (actions, answer.text)
        assert pointer is None or answer.json()["errors"][0]["pointer"] == pointer


# Collapse keys and expiry.


async def test_of_a_collapse_key_only_the_newest_shows(rest: Rest) -> None:
    news = await open_newsroom(rest, "collapsing")
    ann = await news.user("ann")
    key = {"collapse_key": "build 7"}
    first = await news.tell(["ann"], "first", **key, category="ci")
    second = await news.tell_everyone("second", **key)
    other = await news.tell(["ann"], "other", collapse_key="build 8")
    rest.clock.time += 1
    third = await news.tell(["ann"], "third", **key, category="ci")
    plain = await news.tell(["ann"], "plain")
    listed = await by_id(ann)
    assert set(listed) == {third, other, plain}
    assert listed[third]["collapse_key"] == "build 7"
    assert listed[third]["collapsed"] == 2
    assert "collapsed" not in listed[other]
    assert await ann.unread() == {"total": 3, "categories": {"ci": 1}}
    for limit in (1, 2, 3):
        assert sorted(await ann.all_ids(limit)) == sorted([third, other, plain])

    assert (await ann.read(ids=[third])) == {"total": 2, "categories": {}}
    assert "collapsed" not in (await by_id(ann))[third], "a group is read when its newest is"
    rest.clock.time += 1
    fourth = await news.tell(["ann"], "fourth", **key)
    assert "collapsed" not in (await by_id(ann))[fourth]
    await change(ann, ids=[third], read=False)
    assert (await by_id(ann))[fourth]["collapsed"] == 3
    await news.redact(fourth)
    assert (await by_id(ann))[third]["collapsed"] == 2
    await change(ann, ids=[third], archived=True)
    assert set(await by_id(ann)) == {other, plain}, "the newest stands for the group"
    assert {first, second} & set(await ann.all_ids(1, "&archived=true")) == set()


async def test_a_notification_expires_when_its_tenant_says(rest: Rest) -> None:
    news = await open_newsroom(rest, "early", keep_days=1)
    ann = await news.user("ann")
    soon = rfc3339(rest.clock.time + 5_000)
    far = rfc3339(rest.clock.time + 5 * 86_400_000)
    ids = [
        await news.tell(["ann"], "copy", expires_at=soon),
        await news.tell_everyone("broadcast", expires_at=soon),
        await news.tell_everyone("long", expires_at=far),
    ]
    assert set(await by_id(ann)) == set(ids)
    listed = await news.actor.ok("GET", f"{news.path}/notifications")
    expiries = {one["id"]: one["expires_at"] for one in listed["data"]}
    assert expiries[ids[0]] == expiries[ids[1]] == soon
    assert expiries[ids[2]] < far
    rest.clock.time += 5_000
    assert set(await by_id(ann)) == {ids[2]}
    assert (await ann.unread())["total"] == 1
    for body in ({"expires_at": rfc3339(rest.clock.time)}, {"expires_at": "soon"}):
        message = {"audience": {"kind": "everyone"}, "message": {"title": "t", "body": ""}}
        assert (await news.try_post({**message, **body})).status_code == 400


async def test_a_repeated_post_with_options_is_the_same_post(rest: Rest) -> None:
    news = await open_newsroom(rest, "repeated-options")
    headers = {"Idempotency-Key": "k"}
    body = {"audience": {"kind": "everyone"}, "message": {"title": "t", "body": ""}}
    more = {"actions": ACTIONS, "collapse_key": "k", "expires_at": rfc3339(rest.clock.time + 9_000)}
    first = await news.post({**body, **more}, headers)
    assert await news.post({**body, **more}, headers) == first
    assert (await news.try_post(body, headers)).status_code == 409

# SPDX-License-Identifier: Apache-2.0
"""Notifications with a time of delivery: never early, once, and not after a retraction."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.integration.engines import long_engine as long_engine
from tests.integration.inbox_world import Newsroom, open_newsroom, to_everyone, to_users
from tests.integration.inbox_world import delivering as delivering
from tests.integration.rest_world import Json, Rest, problem
from tests.integration.test_rest_scheduled import pass_time
from tests.support.clock import next_year
from tidings.actions.inbox import late_delivery
from tidings.actions.inbox.broadcast_log import LogViews
from tidings.model.ids import rfc3339
from tidings.model.scheduled import SETTLE_MS
from tidings.ports.bus import Job
from tidings.ports.due import Due
from tidings.ports.scheduled_notifications import due_of_notification

pytestmark = pytest.mark.asyncio(loop_scope="module")

MINUTE = 60_000


def in_minutes(rest: Rest, minutes: float) -> str:
    return rfc3339(rest.clock.time + int(minutes * MINUTE))


async def schedule(
    room: Newsroom, title: str, uids: list[str] | None = None, minutes: float = 1, **more: Any
) -> str:
    """Schedule a post to some users or to everyone; returns its id."""
    at = in_minutes(room.rest, minutes)
    if uids is None:
        body = to_everyone(title, deliver_at=at, **more)
    else:
        body = to_users(uids, title, deliver_at=at, **more)
    posted = await room.post(body)
    assert posted["status"] == "scheduled"
    return str(posted["id"])


async def listed(room: Newsroom) -> dict[str, Json]:
    """What the tenant sees in its list, by title."""
    page = await room.actor.ok("GET", f"{room.path}/notifications")
    return {one["message"]["title"]: one for one in page["data"] if one["message"]}


@pytest.mark.parametrize("uids", [["ann", "ben"], None])
async def test_it_is_delivered_at_its_time_and_not_before(
    rest: Rest, uids: list[str] | None
) -> None:
    room = await open_newsroom(rest, f"later{len(uids or ())}")
    ann = await room.user("ann")
    name = await schedule(room, "later", uids, minutes=2, category="news")
    shown = (await listed(room))["later"]
    assert shown["scheduled"] is True
    assert shown["audience"] == ("everyone" if uids is None else "users")
    assert shown["posted_at"] == in_minutes(rest, 2)
    assert (await room.progress(name))["status"] == "scheduled"
    rest.clock.time += 1
    await room.tell(["ann"], "in between")
    await pass_time(rest, 1.9)
    assert await ann.titles() == ["in between"]
    assert (await ann.unread())["total"] == 1
    await pass_time(rest, 0.1)
    assert (await room.delivered(name))["status"] == "done"
    assert await ann.titles() == ["later", "in between"]
    assert await ann.unread() == {"total": 2, "categories": {"news": 1}}
    after = await listed(room)
    assert len(after) == 2
    assert after["later"]["scheduled"] is False
    await pass_time(rest, 1)
    assert len(await ann.titles()) == 2


@pytest.mark.parametrize("uids", [["ann"], None])
async def test_a_retraction_before_its_time_ends_it(rest: Rest, uids: list[str] | None) -> None:
    room = await open_newsroom(rest, f"gone{len(uids or ())}")
    ann = await room.user("ann")
    name = await schedule(room, "never", uids)
    await room.redact(name)
    assert (await room.progress(name))["status"] == "redacted"
    held = rest.core.store.scheduled_notifications.held
    assert await held(room.tenant, room.inbox, name, 10) == []
    await pass_time(rest, 2)
    assert await ann.titles() == []
    await room.redact(name)


async def test_a_broadcast_keeps_the_id_of_its_post(rest: Rest) -> None:
    room = await open_newsroom(rest, "oneid")
    ann = await room.user("ann")
    name = await schedule(room, "later", actions=[{"id": "yes", "label": "Yes"}])
    await pass_time(rest, 1.5)
    copy, other = await room.tell(["ann"], "own"), await room.tell_everyone("now")
    assert set(await ann.all_ids(1)) == {copy, other, name}
    assert (await listed(room))["later"]["id"] == name
    assert (await room.progress(name))["status"] == "done"

    path = f"/v1/inboxes/{room.inbox}"
    await ann.actor.ok("PUT", f"{path}/state", {"ids": [name], "archived": True})
    assert name not in await ann.all_ids(10)
    await ann.actor.ok("PUT", f"{path}/state", {"ids": [name], "archived": False})
    assert name in await ann.all_ids(10)
    assert (await ann.read(ids=[name]))["total"] == 2
    acted = await ann.actor.ok("POST", f"{path}/notifications/{name}/actions/yes")
    assert acted["action"] == "yes"
    question = f"/v1/tenants/{room.tenant}/explain?user_id=ann&notification_id={name}"
    assert (await room.actor.ok("GET", question))["code"] == "read"


async def test_another_process_may_have_just_delivered_a_broadcast(
    rest: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This process has not read the log since, and the user changes the broadcast here."""
    room = await open_newsroom(rest, "elsewhere")
    ann = await room.user("ann")
    more: Json = {"actions": [{"id": "yes", "label": "Yes"}]}
    names = [await schedule(room, title, **more) for title in ("put away", "read", "acted")]
    monkeypatch.setattr(type(rest.core.store.notifications), "broadcasts_age_ms", 60_000)
    monkeypatch.setattr(LogViews, "learn", lambda *_: None)
    rest.clock.time += MINUTE
    path = f"/v1/inboxes/{room.inbox}"

    async def deliver(name: str) -> None:
        (found,) = await rest.core.store.notifications.get(room.tenant, room.inbox, [name])
        await rest.core.due_work["inbox"].do(due_of_notification(found, rest.clock.time))

    away, read, acted = names
    await deliver(away)
    counts = await ann.actor.ok("PUT", f"{path}/state", {"ids": [away], "archived": True})
    assert counts["unread"] == 0
    assert await ann.all_ids(10) == []
    await deliver(read)
    assert (await ann.read(ids=[read]))["total"] == 0
    await deliver(acted)
    chosen = await ann.actor.ok("POST", f"{path}/notifications/{acted}/actions/yes")
    assert chosen["action"] == "yes"
    assert (await ann.unread())["total"] == 0
    assert await ann.all_ids(10) == [acted, read]


async def test_a_broadcast_is_retracted_by_its_first_id_afterwards(rest: Rest) -> None:
    room = await open_newsroom(rest, "bothids")
    ann = await room.user("ann")
    name = await schedule(room, "later")
    await pass_time(rest, 1)
    assert await ann.titles() == ["later"]
    await room.redact(name)
    assert await ann.titles() == []
    assert (await room.progress(name))["status"] == "redacted"


@pytest.mark.parametrize("uids", [["ann"], None])
async def test_a_repeat_is_the_same_notification(rest: Rest, uids: list[str] | None) -> None:
    room = await open_newsroom(rest, f"again{len(uids or ())}")
    ann = await room.user("ann")
    at = in_minutes(rest, 1)
    body = (
        to_everyone("once", deliver_at=at)
        if uids is None
        else to_users(uids, "once", deliver_at=at)
    )
    key = {"Idempotency-Key": "k1"}
    first = await room.post(body, key)
    assert await room.post(body, key) == first
    other = await room.try_post({**body, "deliver_at": in_minutes(rest, 2)}, key)
    assert (other.status_code, other.json()["code"]) == (409, "request.conflict")
    await pass_time(rest, 1)
    await room.delivered(first["id"])
    assert await room.post(body, key) == first
    late = await room.try_post(body, {"Idempotency-Key": "k2"})
    assert late.status_code == 400, "its time is over"
    assert await ann.titles() == ["once"]
    later = {**body, "deliver_at": in_minutes(rest, 1)}
    second = await room.post(later, {"Idempotency-Key": "k2"})
    assert await room.post(later, {"Idempotency-Key": "k2"}) == second


@pytest.mark.parametrize("uids", [["ann"], None])
async def test_a_process_that_dies_in_it_delivers_it_once(
    rest: Rest, uids: list[str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is due again and again, as if the item had never been removed."""
    room = await open_newsroom(rest, f"dies{len(uids or ())}")
    ann = await room.user("ann")
    monkeypatch.setattr(late_delivery, "JOBS_AT_ONCE", 1)
    name = await schedule(room, "once", uids)
    rest.clock.time += MINUTE
    due = Due(
        kind="inbox", at=rest.clock.time, item_id=name, subject=room.inbox, tenant=room.tenant,
        made_at=rest.clock.time,
    )  # fmt: skip
    work = rest.core.due_work["inbox"]
    if uids is None:
        # It dies between the log and the note that the log has it.
        async def die(*_: object) -> None:
            raise ConnectionError

        with monkeypatch.context() as dying:
            store = rest.core.store.scheduled_notifications
            dying.setattr(type(store), "finish", die)
            with pytest.raises(ConnectionError):
                await work.do(due)
        assert await ann.titles() == ["once"]
    for _ in range(3):
        await work.do(due)
    await pass_time(rest, 1)
    await room.delivered(name)
    assert await ann.titles() == ["once"]
    assert (await ann.unread())["total"] == 1


async def append_without_note(room: Newsroom, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A scheduled broadcast is due in a minute, and its process dies between the log and the note
    that the log has it."""
    rest = room.rest
    (found,) = await rest.core.store.notifications.get(room.tenant, room.inbox, [name])
    rest.clock.time += MINUTE

    async def die(*_: object) -> None:
        raise ConnectionError

    with monkeypatch.context() as dying:
        dying.setattr(type(rest.core.store.scheduled_notifications), "finish", die)
        with pytest.raises(ConnectionError):
            await rest.core.due_work["inbox"].do(due_of_notification(found, rest.clock.time))


async def test_a_broadcast_is_listed_once_if_a_process_dies_before_its_retraction(
    rest: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = await open_newsroom(rest, "double")
    name = await schedule(room, "once")
    await append_without_note(room, name, monkeypatch)
    await room.redact(name)
    page = await room.actor.ok("GET", f"{room.path}/notifications")
    assert [one["id"] for one in page["data"]] == [name]


@pytest.mark.parametrize("uids", [["ann"], None])
async def test_a_delivery_that_is_given_up_shows_as_failed(
    rest: Rest, uids: list[str] | None
) -> None:
    room = await open_newsroom(rest, f"fails{len(uids or ())}")
    ann = await room.user("ann")
    name = await schedule(room, "fails", uids)
    (found,) = await rest.core.store.notifications.get(room.tenant, room.inbox, [name])
    due = due_of_notification(found, rest.clock.time)
    rest.clock.time += MINUTE
    await rest.core.due_work["inbox"].give_up(due)
    await rest.core.store.due.drop(due)
    assert (await room.progress(name))["status"] == "failed"
    held = rest.core.store.scheduled_notifications.held
    assert await held(room.tenant, room.inbox, name, 10) == []
    await pass_time(rest, 1)
    assert await ann.titles() == []
    await room.redact(name)
    assert (await room.progress(name))["status"] == "redacted"


@pytest.mark.parametrize("uids", [["ann"], None])
async def test_what_is_stored_too_slowly_is_refused_and_a_repeat_stores_it_again(
    rest: Rest, uids: list[str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = await open_newsroom(rest, f"slow{len(uids or ())}")
    ann = await room.user("ann")
    store = rest.core.store.scheduled_notifications
    real, took_ms = store.hold, [2 * MINUTE, SETTLE_MS // 2 + 1, SETTLE_MS // 2]

    async def hold(jobs: Sequence[Job]) -> None:
        await real(jobs)
        await pass_time(rest, took_ms.pop(0) / MINUTE)

    monkeypatch.setattr(store, "hold", hold)
    body = to_everyone("slow") if uids is None else to_users(uids, "slow")
    missed = await room.try_post({**body, "deliver_at": in_minutes(rest, 1)})
    assert problem(missed) == (503, "store.unavailable"), "its time has come meanwhile"
    later, key = {**body, "deliver_at": in_minutes(rest, 4)}, {"Idempotency-Key": "k"}
    assert problem(await room.try_post(later, key)) == (503, "store.unavailable")
    posted = await room.post(later, key)
    await pass_time(rest, 4)
    await room.delivered(posted["id"])
    assert await ann.titles() == ["slow"]
    assert (took_ms, (await room.post(later, key))["id"]) == ([], posted["id"])


async def test_many_users_get_it_in_portions(rest: Rest) -> None:
    room = await open_newsroom(rest, "portions")
    users = [f"u{number}" for number in range(250)]
    last = await room.user("u249")
    name = await schedule(room, "for many", users)
    await pass_time(rest, 1)
    done = await room.delivered(name)
    assert (done["recipients"], done["delivered"]) == (250, 250)
    assert await last.titles() == ["for many"]


async def test_what_was_never_stored_is_dropped_once_it_is_certain(rest: Rest) -> None:
    due = Due(
        kind="inbox", at=rest.clock.time, item_id="0" * 26, subject="bothids", tenant="acme",
        made_at=rest.clock.time,
    )  # fmt: skip
    await rest.core.store.due.put(due, rest.clock.time)
    await pass_time(rest, 0)
    await pass_time(rest, SETTLE_MS / MINUTE)
    read = rest.core.store.due.read
    for shard in await rest.core.store.due.lease("inbox", "test", rest.clock.time):
        assert await read("inbox", shard, rest.clock.time, 10) == []


async def test_a_time_that_is_over_or_far_away_is_refused(rest: Rest) -> None:
    room = await open_newsroom(rest, "bounds")
    now = rest.clock.time
    for at in (now - MINUTE, now, next_year(now) + 1):
        answer = await room.try_post(to_users(["ann"], "x", deliver_at=rfc3339(at)))
        assert (answer.status_code, answer.json()["code"]) == (400, "request.invalid")
        assert [error["pointer"] for error in answer.json()["errors"]] == ["/deliver_at"]
    last = to_users(["ann"], "x", deliver_at=rfc3339(next_year(now)))
    assert (await room.try_post(last)).status_code == 202


async def test_a_deleted_inbox_keeps_no_users_of_what_was_to_come(rest: Rest) -> None:
    room = await open_newsroom(rest, "deleted")
    name = await schedule(room, "never", ["ann"])
    await rest.core.store.notifications.empty(room.tenant, room.inbox, name)
    await pass_time(rest, 1)
    held = rest.core.store.scheduled_notifications.held
    assert await held(room.tenant, room.inbox, name, 10) == []

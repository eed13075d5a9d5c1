# SPDX-License-Identifier: Apache-2.0
"""The notifications in the export of a person, on every engine: each once, hidden or not."""

from typing import Any

import pytest

from tests.integration.engines import long_engine as long_engine
from tests.integration.inbox_world import Newsroom, open_newsroom
from tests.integration.inbox_world import delivering as delivering
from tests.integration.rest_world import Rest
from tests.integration.test_rest_export import exported, of
from tidings.model import limits
from tidings.model.ids import rfc3339

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def tell(room: Newsroom, title: str, *uids: str, **more: Any) -> str:
    """Post to listed users, or to everyone if none is listed; no two have the same time."""
    room.rest.clock.time += 1
    if uids:
        return await room.tell(uids, title, **more)
    return await room.tell_everyone(title, **more)


@pytest.mark.parametrize("page", [1, 2, 100])
async def test_every_notification_is_exported_once(
    rest: Rest, monkeypatch: pytest.MonkeyPatch, page: int
) -> None:
    room = await open_newsroom(rest, f"all{page}")
    other = await open_newsroom(rest, f"other{page}")
    user = f"user{page}"
    reader = await room.user(user)
    state = f"/v1/inboxes/{room.inbox}/state"
    expected = []
    for uids in ([user], []):
        names = {
            title: await tell(room, f"{title} {len(uids)}", *uids, **more)
            for title, more in (
                ("archived", {}),
                ("snoozed", {}),
                ("older", {"collapse_key": "k"}),
                ("newer", {"collapse_key": "k"}),
                ("offer", {"category": "offers"}),
                ("retracted", {}),
            )
        }
        await room.redact(names.pop("retracted"))
        expected += [f"{title} {len(uids)}" for title in reversed(names)]
        await reader.actor.ok("PUT", state, {"ids": [names["archived"]], "archived": True})
        until = rfc3339(rest.clock.time + limits.DAY_MS)
        await reader.actor.ok("PUT", state, {"ids": [names["snoozed"]], "snooze_until": until})
    await tell(room, "not hers", "somebody")
    await tell(other, "in another inbox", user)
    off = {"categories": {"offers": {"in_app": False}}}
    await reader.actor.ok("PUT", f"/v1/inboxes/{room.inbox}/preferences", off)
    assert sorted(await reader.titles()) == ["newer 0", "offer 1"]

    monkeypatch.setattr(limits, "PAGE_MAX", page)
    monkeypatch.setattr(limits, "USER_COPIES_MAX", 3)
    records = [one for one in await exported(rest, user) if one["kind"] == "notification"]

    found = {one["message"]["title"]: one for one in records if one["inbox"] == room.inbox}
    assert [one["message"]["title"] for one in records if one["inbox"] == room.inbox] == expected
    assert [one["message"]["title"] for one in records if one["inbox"] == other.inbox] == [
        "in another inbox"
    ]
    for number in (0, 1):
        assert found[f"archived {number}"]["archived_at"] is not None
        assert found[f"snoozed {number}"]["snoozed_until"] is not None
        assert found[f"newer {number}"]["archived_at"] is None
        assert found[f"older {number}"]["collapse_key"] == "k"
    assert all("collapsed" not in one for one in records)


async def test_states_are_those_of_the_person(rest: Rest) -> None:
    room = await open_newsroom(rest, "states")
    ann, ben = await room.user("ann"), await room.user("ben")
    for uids in (["ann", "ben"], []):
        name = await tell(room, "of both", *uids, actions=[{"id": "yes", "label": "Yes"}])
        path = f"/v1/inboxes/states/notifications/{name}/actions/yes"
        await ann.actor.ok("POST", path)
        await ben.actor.ok("PUT", "/v1/inboxes/states/state", {"ids": [name], "seen": True})
    for user, action in (("ann", "yes"), ("ben", None)):
        records = await exported(rest, user)
        told = [one for one in records if one["kind"] == "notification"]
        here = of([one for one in told if one["inbox"] == "states"], "notification", "action")
        assert here == [(action,), (action,)]
        states = [(one["read_at"], one["seen_at"]) for one in told if one["inbox"] == "states"]
        assert all((read is None) == (action is None) for read, _ in states)
        assert all(seen is not None for _, seen in states)

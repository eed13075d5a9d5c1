# SPDX-License-Identifier: Apache-2.0
"""What a user does with notifications on one device is shown on the others, on a real server."""

import itertools
from typing import Any

import pytest

from tests.integration.socket_town import people, settled, told
from tests.support.device import Device
from tests.support.inbox import Inbox
from tests.support.people import Person, Town

pytestmark = pytest.mark.asyncio(loop_scope="module")

_numbers = itertools.count(1)


@pytest.fixture(scope="module", params=["sqlite", "dynamodb"])
def engine(request: pytest.FixtureRequest) -> str:
    """Each of them."""
    return str(request.param)


async def an_inbox(town: Town) -> Inbox:
    return await Inbox(town, f"states-{next(_numbers)}").make()


async def live(person: Person, name: str = "phone") -> Device:
    device = person.device(name)
    await device.connect()
    return device


async def change(inbox: Inbox, person: Person, **wanted: Any) -> Any:
    return await person.call("PUT", f"/v1/inboxes/{inbox.name}/state", wanted)


async def test_every_device_of_the_user_learns_of_a_change_and_nobody_else(town: Town) -> None:
    inbox = await an_inbox(town)
    ann, bob = await people(town, "ann", "bob")
    phone, tablet, others = await live(ann), await live(ann, "tablet"), await live(bob)
    posted = await inbox.post(None, category="offers")
    for device in (phone, tablet, others):
        await device.frame("notification", id=posted["id"], inbox=inbox.name)
    left = await change(inbox, ann, ids=[posted["id"]], seen=True, archived=False)
    assert left == {"unseen": 0, "unread": 1, "categories": {"offers": 1}}
    for device in (phone, tablet):
        frame = await device.frame("marked", inbox=inbox.name)
        assert frame == {
            "op": "marked", "inbox": inbox.name, "ids": [posted["id"]], "seen": True,
            "archived": False,
        }  # fmt: skip
        count = await device.frame("unread", inbox=inbox.name)
        assert (count["total"], count["unseen"]) == (1, 0)
    await settled(others)
    assert told(others, "marked") == []
    for device in (phone, tablet, others):
        await device.drop()


async def test_an_action_is_shown_on_every_device(town: Town) -> None:
    inbox = await an_inbox(town)
    (ann,) = await people(town, "ann")
    phone = await live(ann)
    actions = [{"id": "accept", "label": "Accept"}]
    posted = await inbox.post([ann.user_id], actions=actions, collapse_key="k")
    frame = await phone.frame("notification", id=posted["id"])
    assert (frame["actions"], frame["collapse_key"]) == (actions, "k")
    path = f"/v1/inboxes/{inbox.name}/notifications/{posted['id']}/actions/accept"
    acted = await ann.call("POST", path)
    state = await phone.frame("marked", inbox=inbox.name)
    assert (state["ids"], state["read"]) == ([posted["id"]], True)
    assert (state["action"], state["acted_at"]) == ("accept", acted["acted_at"])
    await phone.drop()


async def test_a_snooze_and_its_end_and_a_mark_are_shown(town: Town) -> None:
    inbox = await an_inbox(town)
    (ann,) = await people(town, "ann")
    phone = await live(ann)
    posted = await inbox.post(None)
    until = "2026-12-01T00:00:00.000Z"
    await change(inbox, ann, ids=[posted["id"]], snooze_until=until)
    assert (await phone.frame("marked", snooze_until=until))["ids"] == [posted["id"]]
    await change(inbox, ann, ids=[posted["id"]], snooze_until=None)
    assert (await phone.frame("marked", snooze_until=None))["ids"] == [posted["id"]]
    await change(inbox, ann, before="2026-01-01T00:00:00.000Z", read=True)
    frame = await phone.frame("marked", before="2026-01-01T00:00:00.000Z")
    assert frame["read"] is True
    assert "ids" not in frame
    await phone.drop()

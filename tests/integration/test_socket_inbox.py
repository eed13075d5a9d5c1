# SPDX-License-Identifier: Apache-2.0
"""What connected devices are told of their inboxes, on a real server."""

import itertools

import pytest

from tests.integration.socket_town import code_of_hello, people, settled, told
from tests.support.canary import canary
from tests.support.client_socket import Socket
from tests.support.device import Device
from tests.support.inbox import Inbox
from tests.support.people import Person, Town
from tests.support.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

_numbers = itertools.count(1)


@pytest.fixture(scope="module", params=["sqlite", "dynamodb"])
def engine(request: pytest.FixtureRequest) -> str:
    """Each of them."""
    return str(request.param)


async def an_inbox(town: Town) -> Inbox:
    return await Inbox(town, f"news-{next(_numbers)}").make()


async def live(person: Person, name: str = "phone") -> Device:
    device = person.device(name)
    await device.connect()
    return device


async def test_who_gets_a_copy_is_told_on_every_device_and_nobody_else(town: Town) -> None:
    inbox = await an_inbox(town)
    ann, bob, cat = await people(town, "ann", "bob", "cat")
    phone, tablet, other = await live(ann), await live(ann, "tablet"), await live(cat)
    posted = await inbox.post(
        [ann.user_id, bob.user_id], category="offers", sender="Shop", host_system_id="h1"
    )
    frame = await phone.frame("notification", inbox=inbox.name)
    assert await tablet.frame("notification", inbox=inbox.name) == frame
    (listed,) = await inbox.listed(ann)
    del listed["read_at"]
    assert frame == {"op": "notification", "inbox": inbox.name, **listed}
    assert frame["id"] == posted["id"]
    assert frame["message"] == {"title": "hello", "body": canary("hello")}
    assert (frame["sender"], frame["category"]) == ("Shop", "offers")
    await settled(other)
    assert told(other, "notification") == []
    for device in (phone, tablet, other):
        await device.drop()


async def test_everyone_who_is_connected_is_told_of_what_is_for_everyone(town: Town) -> None:
    inbox = await an_inbox(town)
    ann, bob = await people(town, "ann", "bob")
    devices = [await live(ann), await live(bob)]
    posted = await inbox.post(None)
    for device, person in zip(devices, (ann, bob), strict=True):
        frame = await device.frame("notification", inbox=inbox.name)
        assert frame["id"] == posted["id"]
        (listed,) = await inbox.listed(person)
        assert listed["received_at"] == frame["received_at"]
        await device.drop()


@pytest.mark.attack("D10")
async def test_another_tenant_hears_nothing(town: Town) -> None:
    inbox = await an_inbox(town)
    (ann,) = await people(town, "ann")
    async with Town(town.url, town.root_key, f"{town.tenant}-2") as elsewhere:
        namesake = await elsewhere.user(ann.user_id)
        here, there = await live(ann), await live(namesake)
        await inbox.post(None)
        first = await inbox.post([ann.user_id])
        await here.frame("notification", id=first["id"])
        await inbox.redact(first["id"])
        await here.frame("retracted", id=first["id"])
        await settled(there)
        assert [frame for frame in there.raw if "inbox" in frame] == []
        for device in (here, there):
            await device.drop()


async def test_what_is_taken_back_is_said_to_who_has_it_with_a_fresh_count(town: Town) -> None:
    inbox = await an_inbox(town)
    ann, bob = await people(town, "ann", "bob")
    mine, others = await live(ann), await live(bob)
    kept = await inbox.post([ann.user_id, bob.user_id], category="offers")
    gone = await inbox.post([ann.user_id], category="offers")
    await mine.frame("notification", id=gone["id"])
    await others.frame("notification", id=kept["id"])
    await inbox.redact(gone["id"])
    await mine.frame("retracted", inbox=inbox.name, id=gone["id"])
    count = await mine.frame("unread", inbox=inbox.name)
    assert (count["total"], count["categories"]) == (1, {"offers": 1})
    await settled(others)
    assert told(others, "retracted") == told(others, "unread") == []
    for device in (mine, others):
        await device.drop()


async def test_what_everyone_was_told_is_taken_back_from_everyone(town: Town) -> None:
    inbox = await an_inbox(town)
    ann, bob = await people(town, "ann", "bob")
    devices = [await live(ann), await live(bob)]
    posted = await inbox.post(None)
    for device in devices:
        await device.frame("notification", id=posted["id"], inbox=inbox.name)
    await inbox.redact(posted["id"])
    for device in devices:
        await device.frame("retracted", inbox=inbox.name, id=posted["id"])
        count = await device.frame("unread", inbox=inbox.name)
        assert (count["total"], count["categories"]) == (0, {})
        await device.drop()


async def test_what_is_taken_back_while_it_is_delivered_is_shown_to_nobody_any_more(
    town: Town,
) -> None:
    inbox = await an_inbox(town)
    readers = await people(town, *("ann", "bob", "cat", "dan"))
    devices = [await live(person) for person in readers]
    # One in each part of the list: most have yet to get a copy when it is taken back.
    listed = [f"nobody-{number}" for number in range(2_000)]
    for place, person in enumerate(readers):
        listed.insert(600 * place, person.user_id)
    posted = await inbox.post(listed)
    await inbox.redact(posted["id"])
    for device in devices:
        await settled(device)
    before = [len(told(device, "notification", id=posted["id"])) for device in devices]
    shown = [await inbox.listed(person) for person in readers]
    assert shown == [[]] * len(readers)
    later = await inbox.post(["nobody"])
    await inbox.done(later["id"])  # jobs go in order: all of the first one are done with by now
    for device, person, frames in zip(devices, readers, before, strict=True):
        await settled(device)
        assert len(told(device, "notification", id=posted["id"])) == frames
        assert await inbox.listed(person) == []
        await device.drop()
    assert (await inbox.progress(posted["id"]))["status"] == "redacted"


@pytest.mark.attack("D04")
async def test_who_came_later_is_not_told_where_later_ones_do_not_see_it(town: Town) -> None:
    inbox = await Inbox(town, f"news-{next(_numbers)}").make(late_joiners=False)
    (early,) = await people(town, "early")
    posted = await inbox.post(None)
    (late,) = await people(town, "late")
    devices = [await live(early), await live(late)]
    await inbox.redact(posted["id"])
    await devices[0].frame("retracted", inbox=inbox.name, id=posted["id"])
    await settled(devices[1])
    assert told(devices[1], "retracted") == []
    again = await inbox.post(None)
    for device in devices:
        await device.frame("notification", inbox=inbox.name, id=again["id"])
        await device.drop()


async def test_reading_on_one_device_is_told_to_all(town: Town) -> None:
    inbox = await an_inbox(town)
    (ann,) = await people(town, "ann")
    devices = [await live(ann), await live(ann, "tablet")]
    first, second = await inbox.post([ann.user_id]), await inbox.post(None, category="offers")
    for device in devices:
        await device.frame("notification", id=first["id"])
        await device.frame("notification", id=second["id"], inbox=inbox.name)
    assert await inbox.read(ann, ids=[first["id"]]) == {"total": 1, "categories": {"offers": 1}}
    for device in devices:
        count = await device.frame("unread", inbox=inbox.name)
        assert (count["total"], count["categories"]) == (1, {"offers": 1})
        await device.drop()


async def test_hello_names_inboxes_and_gets_their_counts_before_live(town: Town) -> None:
    inbox = await an_inbox(town)
    (ann,) = await people(town, "ann")
    first = await inbox.post([ann.user_id], category="offers")
    await until(lambda: inbox.listed(ann))
    await inbox.post(None)
    socket = Socket(town.url)
    await socket.open()
    named = {inbox.name: first["id"], "nowhere": None}
    socket.tell({"op": "hello", "token": ann.token, "device": "phone", "inboxes": named})
    await socket.frame("live")
    frames = told(socket, "unread") + told(socket, "inbox_missed")
    counts = {"total": 2, "categories": {"offers": 1}, "exact": True}
    assert frames == [
        {"op": "unread", "inbox": inbox.name, **counts},
        {"op": "inbox_missed", "inbox": inbox.name, "count": 1, "exact": True},
    ]
    ops = [frame["op"] for frame in socket.raw]
    assert ops.index("inbox_missed") < ops.index("live")
    await socket.drop()


@pytest.mark.parametrize(
    "inboxes",
    [{"news": "not an id"}, {"news": 7}, ["news"], {f"inbox-{n}": None for n in range(21)}],
)
async def test_inboxes_of_a_wrong_form_close_the_connection(town: Town, inboxes: object) -> None:
    code = await code_of_hello(Socket(town.url), token="x", device="phone", inboxes=inboxes)
    assert code == 4400

# SPDX-License-Identifier: Apache-2.0
"""An inbox as users see it: the list, what is read, what is unread, what is gone."""

import asyncio

import pytest

from tests.integration.cores import all_of
from tests.integration.engines import engine as engine
from tests.integration.inbox_world import delivering as delivering
from tests.integration.inbox_world import (
    open_newsroom,
    to_everyone,
    to_users,
)
from tests.integration.rest_world import Rest, problem
from tests.support.canary import canary
from tidings.model import limits
from tidings.model.ids import rfc3339, ulid, user_key
from tidings.model.notifications import Copy

pytestmark = pytest.mark.asyncio(loop_scope="module")

DAY_MS = limits.DAY_MS


async def test_a_notification_reaches_the_listed_users_and_nobody_else(rest: Rest) -> None:
    news = await open_newsroom(rest, "listed")
    ann, bob, cat = [await news.user(name) for name in ("ann", "bob", "cat")]
    body = to_users(
        ["ann", "bob", "ann"],
        canary("sale"),
        category="offers",
        sender="Shop",
        host_system_id="crm-7",
    )
    body["message"]["cta_uri"] = "https://shop.example/sale"
    posted = await news.post(body)
    assert posted.keys() == {"id", "recipients", "estimated", "status"}
    assert (posted["recipients"], posted["estimated"], posted["status"]) == (2, False, "queued")
    assert await news.delivered(posted["id"]) == {
        "id": posted["id"],
        "status": "done",
        "recipients": 2,
        "delivered": 2,
        "label": None,
    }

    page = await ann.page()
    assert page == {
        "data": [
            {
                "id": posted["id"],
                "host_system_id": "crm-7",
                "category": "offers",
                "sender": "Shop",
                "received_at": rfc3339(rest.clock.time),
                "read_at": None,
                "message": body["message"],
            }
        ],
        "next_cursor": None,
    }
    assert await bob.page() == page
    assert (await cat.page())["data"] == []
    assert await cat.unread() == {"total": 0, "categories": {}}


async def test_a_broadcast_is_one_entry_that_everyone_sees(rest: Rest) -> None:
    news = await open_newsroom(rest, "everyone")
    ann = await news.user("ann")
    posted = await news.post(to_everyone("Hello", category="word"))
    assert (posted["id"], posted["estimated"], posted["status"]) == ("b1", True, "done")
    assert posted["recipients"] >= 1
    assert await ann.titles() == ["Hello"]
    assert await ann.unread() == {"total": 1, "categories": {"word": 1}}
    progress = await news.progress("b1")
    assert (progress["status"], progress["delivered"]) == ("done", posted["recipients"])
    late = await news.user("somebody-new")
    assert await late.titles() == ["Hello"]


@pytest.mark.attack("D04")
async def test_late_joiners_see_what_came_before_only_if_it_was_posted_so(rest: Rest) -> None:
    news = await open_newsroom(rest, "joiners", late_joiners=False)
    early = await news.user("early-bird")
    rest.clock.time += 1_000
    await news.tell_everyone("Before")
    rest.clock.time += 1_000
    late = await news.user("latecomer")
    await news.tell_everyone("After")
    assert await early.titles() == ["After", "Before"]
    assert await late.titles() == ["After"]
    assert (await early.unread())["total"] == 2
    assert (await late.unread())["total"] == 1
    # What counts is what the inbox said when it was posted.
    news = await open_newsroom(rest, "joiners", late_joiners=True)
    assert await late.titles() == ["After"]
    # Nor can a mark be set on what one does not see.
    await late.read(ids=["b1"])
    assert (await late.unread())["total"] == 1


async def test_both_kinds_are_merged_by_time_and_paged_without_loss(rest: Rest) -> None:
    news = await open_newsroom(rest, "merged")
    ann = await news.user("ann")
    expected: list[str] = []
    for number in range(9):
        rest.clock.time += number % 2  # some bear the same time
        if number % 3 == 0:
            expected.append(await news.tell_everyone(f"e{number}"))
        else:
            expected.append(await news.tell(["ann"], f"u{number}"))
    whole = await ann.all_ids(100)
    assert sorted(whole) == sorted(expected)
    for limit in (1, 2, 3, 5, 9):
        assert await ann.all_ids(limit) == whole
    times = [one["received_at"] for one in (await ann.page("?limit=100"))["data"]]
    assert times == sorted(times, reverse=True)


async def test_filters_look_through_everything(rest: Rest) -> None:
    news = await open_newsroom(rest, "filters")
    ann = await news.user("ann")
    ids = []
    for number in range(8):
        rest.clock.time += 1
        category = "red" if number < 4 else "blue"
        if number % 2:
            ids.append(await news.tell_everyone(f"n{number}", category=category))
        else:
            ids.append(await news.tell(["ann"], f"n{number}", category=category))
    await ann.read(ids=[ids[0], ids[1], ids[7]])
    assert await ann.all_ids(2, "&category=red") == ids[3::-1]
    assert await ann.all_ids(3, "&unread=true") == ids[6:1:-1]
    assert await ann.all_ids(1, "&unread=false") == [ids[7], ids[1], ids[0]]
    assert await ann.all_ids(1, "&category=red&unread=false") == [ids[1], ids[0]]
    assert await ann.all_ids(5, "&category=green") == []
    for query in (
        "category=",
        "category=*",
        "category=a%23b",
        "unread=",
        "unread=True",
        "unread=1",
    ):
        path = f"/v1/inboxes/filters/notifications?{query}"
        assert await ann.actor.refused("GET", path) == (400, "request.invalid"), query
    assert await ann.unread() == {"total": 5, "categories": {"red": 2, "blue": 3}}


@pytest.mark.attack("D17")
async def test_a_cursor_is_for_one_list_of_one_user(rest: Rest) -> None:
    news = await open_newsroom(rest, "cursors")
    other = await open_newsroom(rest, "cursors-2")
    ann, bob = await news.user("ann"), await news.user("bob")
    for number in range(3):
        await news.tell_everyone(f"n{number}")
        await other.tell_everyone(f"o{number}")
    cursor = (await ann.page("?limit=1"))["next_cursor"]
    assert [one["message"]["title"] for one in (await ann.page(f"?cursor={cursor}"))["data"]] == [
        "n1",
        "n0",
    ]
    elsewhere = await other.user("ann")
    refused = (400, "cursor.invalid")
    for reader, query in (
        (bob, ""),
        (elsewhere, ""),
        (ann, "&unread=true"),
        (ann, "&category=red"),
    ):
        path = f"/v1/inboxes/{reader.inbox}/notifications?cursor={cursor}{query}"
        assert await reader.actor.refused("GET", path) == refused
    path = "/v1/inboxes/cursors/notifications?cursor=made-up"
    assert await ann.actor.refused("GET", path) == refused


async def test_reading_by_id_and_up_to_a_time(rest: Rest) -> None:
    news = await open_newsroom(rest, "reading")
    ann, bob = await news.user("ann"), await news.user("bob")
    ids = [await news.tell(["ann", "bob"], "one", category="red"), await news.tell_everyone("two")]
    rest.clock.time += 1_000
    read_at = rfc3339(rest.clock.time)
    assert await ann.read(ids=[ids[0], ids[0], "b99", "nonsense", "0" * 26]) == {
        "total": 1,
        "categories": {},
    }
    assert await ann.read(ids=[ids[1]]) == {"total": 0, "categories": {}}
    assert {one["read_at"] for one in (await ann.page())["data"]} == {read_at}
    # A second mark does not move the first, and others are not concerned.
    rest.clock.time += 1_000
    await ann.read(ids=ids)
    assert {one["read_at"] for one in (await ann.page())["data"]} == {read_at}
    assert await bob.unread() == {"total": 2, "categories": {"red": 1}}

    before = rfc3339(rest.clock.time)
    rest.clock.time += 1_000
    ids += [await news.tell(["bob"], "three"), await news.tell_everyone("four")]
    assert await bob.read(before=before) == {"total": 2, "categories": {}}
    reads = {one["id"]: one["read_at"] for one in (await bob.page())["data"]}
    assert reads == {ids[0]: before, ids[1]: before, ids[2]: None, ids[3]: None}
    # Never backwards, and never ahead of the clock.
    await bob.read(before="2000-01-01T00:00:00Z")
    assert (await bob.unread())["total"] == 2
    assert await bob.read(before="2999-01-01T00:00:00+01:00") == {"total": 0, "categories": {}}
    rest.clock.time += 1_000
    await news.tell(["bob"], "five")
    await news.tell_everyone("six")
    assert (await bob.unread())["total"] == 2


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"ids": []},
        {"ids": ["b1"], "before": "2030-01-01T00:00:00Z"},
        {"ids": ["b1"] * 101},
        {"ids": ["b1"] * 20_000},
        {"ids": [7]},
        {"before": "yesterday"},
        {"before": "2030-01-01T00:00:00"},
        {"before": 1_800_000_000},
        {"all": True},
    ],
)
async def test_a_mark_says_exactly_one_thing(rest: Rest, change: dict[str, object]) -> None:
    news = await open_newsroom(rest, "marks")
    ann = await news.user("ann")
    answer = await ann.actor.call("PUT", "/v1/inboxes/marks/read", change)
    assert problem(answer) == (400, "request.invalid")


@pytest.mark.attack("D23")
async def test_what_was_taken_back_is_gone_for_everyone_and_stays_gone(rest: Rest) -> None:
    news = await open_newsroom(rest, "redacted")
    ann, bob = await news.user("ann"), await news.user("bob")
    listed = await news.tell(["ann", "bob"], canary("secret"), category="red")
    told = await news.tell_everyone(canary("secret too"), category="red")
    stays = await news.tell_everyone("stays")
    await ann.read(ids=[listed])
    for _ in range(2):
        await all_of(news.redact(gone) for gone in (listed, told))
    for gone in (listed, told):
        assert (await news.progress(gone))["status"] == "redacted"
        for reader in (ann, bob):
            assert gone not in await reader.all_ids(10)
    assert "secret" not in str(await ann.page())
    assert await ann.all_ids(1) == [stays]
    for reader in (ann, bob):
        assert await reader.unread() == {"total": 1, "categories": {}}
    # An unread filter and a repeated mark meet nothing of it either.
    assert await bob.all_ids(10, "&unread=true") == [stays]
    await bob.read(ids=[listed, told])
    assert await bob.all_ids(10, "&unread=false") == []


async def test_a_page_is_full_though_the_newest_were_taken_back(rest: Rest) -> None:
    news = await open_newsroom(rest, "holes")
    ann = await news.user("ann")
    for title in ("first", "second"):
        await news.tell(["ann"], title)
    gone = [await news.tell(["ann"], f"gone {number}") for number in range(3)]
    await news.tell_everyone("middle")
    gone += [await news.tell_everyone("gone too"), await news.tell(["ann"], "gone at last")]
    await all_of(news.redact(one) for one in gone)
    for query in ("?limit=1", "?limit=1&unread=true"):
        page = await ann.page(query)
        assert [one["message"]["title"] for one in page["data"]] == ["middle"]
        titles = []
        while True:
            titles += [one["message"]["title"] for one in page["data"]]
            if page["next_cursor"] is None:
                break
            page = await ann.page(f"{query}&cursor={page['next_cursor']}")
        # Ids made in one millisecond have no order.
        assert (titles[0], sorted(titles[1:])) == ("middle", ["first", "second"])


async def test_many_who_take_back_the_same_take_it_back_once(rest: Rest) -> None:
    news = await open_newsroom(rest, "together")
    told = await news.tell_everyone("soon gone")
    await asyncio.gather(*(news.redact(told) for _ in range(8)))
    log = await rest.core.store.notifications.broadcasts(
        news.tenant, news.inbox, after=0, limit=100
    )
    assert [entry.kind for entry in log] == ["broadcast", "retraction"]


@pytest.mark.attack("D23")
async def test_redaction_overtakes_delivery(rest: Rest) -> None:
    news = await open_newsroom(rest, "overtaken")
    uids = [f"crowd{number}" for number in range(250)]
    posted = await news.post(to_users(uids, canary("oops")))
    await news.redact(posted["id"])
    last = await news.user(uids[-1])
    assert (await last.page())["data"] == []
    assert (await last.unread())["total"] == 0
    assert (await news.progress(posted["id"]))["status"] == "redacted"


async def test_what_has_expired_is_gone(rest: Rest) -> None:
    news = await open_newsroom(rest, "expiring", keep_days=2)
    listed = await news.tell(["ann"], "one")
    told = await news.tell_everyone("two")
    rest.clock.time += 2 * DAY_MS - 1
    ann = await news.user("ann")
    assert sorted(await ann.all_ids(10)) == sorted([listed, told])
    rest.clock.time += 1
    assert await ann.all_ids(10) == []
    assert (await ann.unread())["total"] == 0
    for gone in (listed, told):
        path = f"{news.path}/notifications/{gone}"
        for method in ("GET", "DELETE"):
            assert await news.actor.refused(method, path) == (404, "notification.not_found")


async def test_only_so_many_of_the_newest_copies_count(
    rest: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "USER_COPIES_MAX", limits.PAGE_MAX + 20)
    news = await open_newsroom(rest, "many")
    ann = await news.user("ann")
    copies = rest.core.store.copies
    first = await news.tell(["ann"], "the oldest")
    told = await news.tell_everyone("for all")
    for number in range(limits.USER_COPIES_MAX):
        copy = Copy(
            notification_id=ulid(rest.clock.time + 1 + number, bytes(10)),
            category="flood",
            received_at=rest.clock.time,
            expires_at=rest.clock.time + DAY_MS,
        )
        await copies.deliver([user_key("acme", "ann")], "many", copy)
    assert await ann.unread() == {
        "total": limits.USER_COPIES_MAX + 1,
        "categories": {"flood": limits.USER_COPIES_MAX},
    }
    # The flood has no text, so that nothing of it is listed; the oldest is out of sight.
    assert await ann.all_ids(100) == [told]
    assert await ann.all_ids(100, "&unread=true") == [told]
    assert first not in await ann.all_ids(7)


async def test_an_inbox_that_is_not_there(rest: Rest) -> None:
    news = await open_newsroom(rest, "there")
    ann = await news.user("ann")
    for inbox in ("not-there", "There", "there%20", "%23", "U%23ann", "*", "a%3Ab", "x" * 65):
        for method, path, body in (
            ("GET", f"/v1/inboxes/{inbox}/notifications", None),
            ("GET", f"/v1/inboxes/{inbox}/unread", None),
            ("PUT", f"/v1/inboxes/{inbox}/read", {"ids": ["b1"]}),
        ):
            assert await ann.actor.refused(method, path, body) == (404, "inbox.not_found"), path
        base = f"/v1/tenants/acme/inboxes/{inbox}"
        for method, path, body in (
            ("GET", base, None),
            ("POST", f"{base}/notifications", to_everyone("x")),
            ("GET", f"{base}/notifications/b1", None),
            ("DELETE", f"{base}/notifications/b1", None),
        ):
            assert await news.actor.refused(method, path, body) == (404, "inbox.not_found"), path


async def test_a_notification_that_is_not_there(rest: Rest) -> None:
    news = await open_newsroom(rest, "lost")
    await news.tell_everyone("one")
    await news.redact("b1")
    for name in ("b2", "b3", "b0", "b01", "b", "B1", "0" * 26, "x", "%23", "b1%0A", "b" + "9" * 12):
        path = f"{news.path}/notifications/{name}"
        for method in ("GET", "DELETE"):
            assert await news.actor.refused(method, path) == (404, "notification.not_found"), name
    assert (await news.progress("b1"))["status"] == "redacted"

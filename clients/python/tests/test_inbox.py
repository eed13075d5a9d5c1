# SPDX-License-Identifier: Apache-2.0
"""Inboxes through the client: the tenant's half and the user's half against a real server."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from clients.python.tests.screens import Screen
from clients.python.tests.test_client import a_client, long_on_tables, shown
from tests.integration.engines import engine as engine
from tests.support.people import Town
from tests.support.waiting import until
from tidings_client import (
    Action,
    CategoryPreference,
    CategoryRule,
    Client,
    Connected,
    ConnectionList,
    InboxConfig,
    InboxPreferences,
    InboxStateChanged,
    InboxUnreadChanged,
    NewNotification,
    Notification,
    NotificationRetracted,
    Posted,
    QuietHours,
    Refused,
    RootApi,
    TenantApi,
    Unread,
)


@pytest.fixture
async def tenant(town: Town) -> AsyncIterator[TenantApi]:
    """The tenant of a test, with an inbox for news."""
    async with TenantApi(town.url, town.tenant, await town.tenant_key()) as api:
        await api.put_inbox("news", InboxConfig(title="News"))
        yield api


def saying(title: str, category: str | None = None) -> NewNotification:
    return NewNotification(title=title, body=f"all about {title}", category=category)


async def delivered(tenant: TenantApi, posted: Posted) -> str:
    """Wait until everyone has it; its id."""

    async def status() -> str:
        return (await tenant.progress("news", posted.id)).status

    await until(status, equals="done")
    return posted.id


async def post(tenant: TenantApi, title: str, category: str | None = None) -> str:
    """Notify alice; the id, once she has it."""
    return await delivered(
        tenant, await tenant.post_to_users("news", ["alice"], saying(title, category))
    )


async def titles(client: Client, *, unread: bool | None = None) -> list[str]:
    return [one.title async for one in client.inbox("news").notifications(unread=unread)]


def count(screen: Screen, kind: type) -> int:
    return sum(isinstance(event, kind) for event in screen.events)


async def test_settings_are_replaced_as_a_whole(tenant: TenantApi) -> None:
    login = {"login": {"phone": True, "register": False}}
    assert await tenant.put_settings({**login, "own": 1}) == {**login, "own": 1}
    assert await tenant.put_settings(login) == login
    assert await tenant.settings() == login
    with pytest.raises(Refused, match=r"request\.invalid"):
        await tenant.put_settings({"login": {"phone": "yes"}})
    assert await tenant.settings() == login
    await tenant.put_settings({})


async def test_an_inbox_is_what_was_put(tenant: TenantApi) -> None:
    config = InboxConfig(
        title="Offers",
        description="what is cheap",
        schema_version="2",
        categories=["shoes"],
        late_joiners=False,
        keep_days=7,
        message_schema={"type": "object", "properties": {"price": {"type": "integer"}}},
    )
    assert await tenant.put_inbox("offers", config) == config
    assert await tenant.inbox("offers") == config
    with pytest.raises(Refused, match=r"inbox\.not_found"):
        await tenant.inbox("nothing")
    priced = NewNotification(title="t", body="", extras={"price": 3}, category="shoes")
    await tenant.post_to_users("offers", ["alice"], priced)
    with pytest.raises(Refused) as refused:
        await tenant.post_to_users("offers", ["alice"], saying("t", "hats"))
    assert refused.value.status == 400


async def test_a_notification_is_escalated_only_to_listed_users_and_after_minutes(
    tenant: TenantApi,
) -> None:
    soon = NewNotification(title="soon", body="", email_after_minutes=5)
    posted = await delivered(tenant, await tenant.post_to_users("news", ["alice"], soon))
    assert posted
    with pytest.raises(Refused, match=r"request\.invalid"):
        await tenant.post_to_everyone("news", soon)
    never = NewNotification(title="never", body="", email_after_minutes=0)
    with pytest.raises(Refused, match=r"request\.invalid"):
        await tenant.post_to_users("news", ["alice"], never)


async def test_a_user_chooses_what_reaches_them(town: Town, tenant: TenantApi) -> None:
    rules = {"safety": CategoryRule(required=True), "offers": CategoryRule(email=False)}
    await tenant.put_inbox("news", InboxConfig(title="News", category_rules=rules))
    async with a_client(town) as alice:
        inbox = alice.inbox("news")
        night = QuietHours(start="22:00", end="06:30", timezone="Asia/Tokyo")
        wish = InboxPreferences(
            categories={"offers": CategoryPreference(in_app=False)}, quiet_hours=night
        )
        chosen = await inbox.choose(wish)
        assert chosen.quiet_hours == night
        assert chosen.categories["offers"] == CategoryPreference(
            in_app=False, push=True, email=False, required=False
        )
        assert chosen.categories["safety"].required
        assert await inbox.preferences() == chosen
        assert chosen.chosen == wish.categories
        again = msgspec.structs.replace(chosen, categories=chosen.chosen)
        assert await inbox.choose(again) == chosen
        off = InboxPreferences(categories={"safety": CategoryPreference(push=False)})
        with pytest.raises(Refused, match=r"preferences\.required"):
            await inbox.choose(off)
        await post(tenant, "an offer", "offers")
        await post(tenant, "a warning", "safety")
        assert await titles(alice) == ["a warning"]


async def test_the_list_page_by_page(town: Town, tenant: TenantApi) -> None:
    for number in range(5):
        await post(tenant, f"number {number}", "odd" if number % 2 else "even")
    await tenant.post_to_everyone("news", saying("for all"))
    async with a_client(town) as alice:
        inbox = alice.inbox("news")
        newest = ["for all", "number 4", "number 3", "number 2", "number 1", "number 0"]
        assert await titles(alice) == newest
        first = await inbox.page(limit=2)
        assert [one.title for one in first.data] == newest[:2]
        second = await inbox.page(limit=2, cursor=first.next_cursor)
        assert [one.title for one in second.data] == newest[2:4]
        odd = [one.title async for one in inbox.notifications(category="odd")]
        assert odd == ["number 3", "number 1"]
        one = first.data[1]
        assert (one.inbox, one.body, one.category) == ("news", "all about number 4", "even")
        assert (one.read_at, one.cta_uri) == (None, None)


@long_on_tables
async def test_more_than_a_page(town: Town, tenant: TenantApi) -> None:
    for number in range(51):
        await tenant.post_to_everyone("news", saying(f"{number}"))
    async with a_client(town) as alice:
        assert await titles(alice) == [f"{number}" for number in reversed(range(51))]


async def test_reading(town: Town, tenant: TenantApi) -> None:
    ids = [await post(tenant, f"number {n}", "some" if n else None) for n in range(3)]
    ids.append((await tenant.post_to_everyone("news", saying("for all"))).id)
    async with a_client(town) as alice:
        inbox = alice.inbox("news")
        assert await inbox.unread() == Unread(4, {"some": 2})
        assert await inbox.read([]) == Unread(4, {"some": 2})
        strangers = [f"b{number}" for number in range(2, 200)]
        assert await inbox.read([ids[1], *strangers, ids[3]]) == Unread(2, {"some": 1})
        assert await titles(alice, unread=True) == ["number 2", "number 0"]
        assert await titles(alice, unread=False) == ["for all", "number 1"]
        assert await inbox.read_before(datetime(2020, 1, 1, tzinfo=UTC)) == Unread(2, {"some": 1})
        newest = (await inbox.page(limit=1, unread=True)).data[0]
        elsewhere = newest.received_at.astimezone(tz=None) + timedelta(microseconds=1)
        assert await inbox.read_before(elsewhere) == Unread(0, {})
        assert {one.read_at is None async for one in inbox.notifications()} == {False}
        with pytest.raises(Refused, match=r"inbox\.not_found"):
            await alice.inbox("nothing").unread()


async def test_what_comes_while_connected_comes_as_events(town: Town, tenant: TenantApi) -> None:
    async with shown(alice := a_client(town)) as screen, shown(a_client(town)) as other:
        for one in (screen, other):
            await one.until(lambda s=one: count(s, Connected))  # type: ignore[misc]
        link = NewNotification(
            title="sale", body="now", cta_uri="https://acme.example/", sender="Acme"
        )
        single = await delivered(tenant, await tenant.post_to_users("news", ["alice"], link))
        everyone = (await tenant.post_to_everyone("news", saying("for all"))).id
        await screen.until(lambda: count(screen, Notification) == 2)
        events = [event for event in screen.events if isinstance(event, Notification)]
        assert {event.id for event in events} == {single, everyone}
        (sale,) = [event for event in events if event.id == single]
        assert (sale.inbox, sale.title, sale.body, sale.sender) == ("news", "sale", "now", "Acme")
        assert sale.cta_uri == "https://acme.example/"
        assert {one.id async for one in alice.inbox("news").notifications()} == {single, everyone}

        await alice.inbox("news").read([everyone])
        changed = InboxUnreadChanged(inbox="news", total=1, categories={})
        await other.until(lambda: changed in other.events)

        await tenant.redact("news", single)
        await screen.until(lambda: NotificationRetracted(inbox="news", id=single) in screen.events)
        await screen.until(
            lambda: InboxUnreadChanged(inbox="news", total=0, categories={}) in screen.events
        )
        assert await titles(alice) == ["for all"]


async def test_progress_and_taking_back(town: Town, tenant: TenantApi) -> None:
    users = [f"user-{number}" for number in range(101)]  # more than one job delivers to
    labelled = NewNotification(title="t", body="b", label="some of them")
    posted = await tenant.post_to_users("news", [*users, *users], labelled)
    assert (posted.recipients, posted.estimated, posted.status) == (101, False, "queued")
    await delivered(tenant, posted)
    progress = await tenant.progress("news", posted.id)
    assert (progress.recipients, progress.delivered) == (101, 101)
    assert progress.label == "some of them"
    for _ in range(2):
        await tenant.redact("news", posted.id)
    assert (await tenant.progress("news", posted.id)).status == "redacted"
    async with a_client(town, "user-7") as client:
        assert await titles(client) == []
        assert await client.inbox("news").unread() == Unread(0, {})
    with pytest.raises(Refused, match=r"notification\.not_found"):
        await tenant.progress("news", "b999")


async def test_a_post_under_a_key_is_one_post(tenant: TenantApi) -> None:
    posts = [
        await tenant.post_to_users("news", ["alice"], saying("t"), key="monday") for _ in range(2)
    ]
    assert len({one.id for one in posts}) == 1
    for_all = [await tenant.post_to_everyone("news", saying("t"), key="all") for _ in range(2)]
    assert len({one.id for one in for_all}) == 1
    with pytest.raises(Refused, match=r"request\.conflict"):
        await tenant.post_to_users("news", ["bob"], saying("t"), key="monday")
    assert (await tenant.post_to_everyone("news", saying("t"))).id != for_all[0].id


async def test_what_was_done_is_listed(tenant: TenantApi) -> None:
    await tenant.put_inbox("other", InboxConfig(title="Other"))
    page = await tenant.audit(limit=1)
    (act,) = page.data
    assert (act.actor, act.action, act.target) == ("tenant_key", "put_inbox", "other")
    assert (act.outcome, act.fields) == ("done", ["title"])
    before = await tenant.audit(cursor=page.next_cursor)
    assert before.data[0].target == "news"


async def test_what_goes_on_is_shown(town: Town, tenant: TenantApi) -> None:
    alice = await town.user("alice")
    assert await tenant.connections("alice") == ConnectionList([], True)
    async with alice.device("phone"), RootApi(town.url, town.root_key) as root:
        [connection] = (await tenant.connections("alice")).data
        assert (connection.device, connection.unacknowledged) == ("phone", 0)
        state = await root.state()
        assert connection.process == state.answered_by
        assert state.complete
        assert state.totals.sockets >= 1
        assert set(state.processes[0].latencies) >= {"send", "delivery"}
        page = await root.audit(limit=1)
        assert (page.data[0].action, page.data[0].target) == ("make_token", "alice")


async def test_states_and_actions_reach_every_device(town: Town, tenant: TenantApi) -> None:
    buttons = (Action(id="yes", label="Yes"), Action(id="no", label="No"))
    in_an_hour = datetime.now(UTC) + timedelta(hours=1)
    asked = NewNotification(
        title="question", body="", actions=buttons, collapse_key="q", expires_at=in_an_hour
    )
    async with shown(alice := a_client(town)) as screen:
        await screen.until(lambda: count(screen, Connected))
        inbox = alice.inbox("news")
        first = await post(tenant, "first")
        older = await delivered(tenant, await tenant.post_to_users("news", ["alice"], asked))
        newer = await delivered(tenant, await tenant.post_to_users("news", ["alice"], asked))
        (question, plain) = (await inbox.page()).data
        assert (question.id, question.collapsed, plain.id) == (newer, 1, first)
        assert (question.actions, question.collapse_key) == (list(buttons), "q")

        left = await inbox.change([first], seen=True, snooze_until=in_an_hour)
        assert (left.unseen, left.unread, left.categories) == (1, 1, {})
        assert [one.id for one in (await inbox.page(snoozed=True)).data] == [first]
        await inbox.change([first], snooze_until=None, archived=True)
        assert [one.id async for one in inbox.notifications(archived=True)] == [first]

        acted = await inbox.act(newer, "yes")
        assert (await inbox.act(newer, "no")) == acted
        assert (acted.id, acted.action) == (newer, "yes")
        chosen = InboxStateChanged(
            inbox="news", ids=(newer,), read=True, action="yes", acted_at=acted.acted_at
        )
        await screen.until(lambda: chosen in screen.events)
        assert (await inbox.change_before(datetime.now(UTC), archived=True)).unread == 0
        assert (await inbox.page()).data == []
        assert older not in [one.id for one in (await inbox.page(archived=True)).data]

# SPDX-License-Identifier: Apache-2.0
"""Verbs of inboxes on notifications that are gone, and beside a queue in trouble."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tests.integration.cores import Deployment, open_deployment
from tests.support.canary import canary
from tests.support.intercepted import Intercepted
from tests.support.users import ANN, BOB
from tidings.actions.inbox import posted, reading
from tidings.actions.inbox import settings as inbox_settings
from tidings.actions.inbox.posted import DeadLetterJobs
from tidings.actions.inbox.reading import ListFilter, ListNotifications
from tidings.actions.inbox.settings import ListInboxes
from tidings.model.ids import TIME_MS_MAX
from tidings.model.limits import DAY_MS
from tidings.model.notifications import InboxConfig, Posting
from tidings.model.refusals import CursorInvalid, QueueUnavailable
from tidings.ports.bus import DeadLetter, Job, JobsUnavailable

INBOX = ("acme", "news")


@pytest.fixture
async def opened(tmp_path: Path) -> AsyncIterator[Deployment]:
    async with open_deployment(tmp_path / "data") as deployment:
        await deployment.people(ANN)
        config = InboxConfig(title="News", keep_days=1)
        await deployment.core.store.inbox_settings.put_config(*INBOX, config)
        yield deployment


async def post(opened: Deployment, users: list[str] | None) -> str:
    """Post something; returns its id."""
    posting = Posting(users=users, message={"title": canary("title"), "body": "…"})
    return (await opened.core.inbox.post(*INBOX, posting, None)).notification_id


# Showing.


async def test_a_notification_is_shown_until_it_is_retracted(opened: Deployment) -> None:
    showing = opened.core.inbox.showing
    posted = await post(opened, ["ann"])
    shown = await showing.copy_text(*INBOX, posted)
    assert shown is not None and shown.text.message["title"] == canary("title")
    await opened.core.inbox.redact(*INBOX, posted)
    assert await showing.copy_text(*INBOX, posted) is None
    assert await showing.copy_texts(*INBOX, [posted]) == {}, "its content is gone, too"


async def test_a_notification_is_shown_until_it_expires(opened: Deployment) -> None:
    posted = await post(opened, ["ann"])
    opened.clock.time += DAY_MS
    assert await opened.core.inbox.showing.copy_text(*INBOX, posted) is None


async def test_who_is_unknown_joins_at_the_end_of_time(opened: Deployment) -> None:
    showing = opened.core.inbox.showing
    assert await showing.joined_at(BOB) == TIME_MS_MAX
    await opened.people(BOB)
    assert await showing.joined_at(BOB) == opened.clock.now(), "not remembered as unknown"


# Listing.


async def test_a_broadcast_that_is_emptied_while_it_is_listed_is_left_out(
    opened: Deployment,
) -> None:
    listing: ListNotifications = opened.core.inbox.list
    kept, emptied = await post(opened, None), await post(opened, None)

    class Emptied:
        """Reads like the real one, but the content of one broadcast is gone by then."""

        def __getattr__(self, name: str) -> Any:
            return getattr(listing.showing, name)

        async def broadcast_text(self, broadcast: Any) -> Any:
            if broadcast.notification_id == emptied:
                broadcast = msgspec.structs.replace(broadcast, box=None)
            return await listing.showing.broadcast_text(broadcast)

    showing: Any = Emptied()
    for verb, listed in ((listing, [emptied, kept]), (replace(listing, showing=showing), [kept])):
        page, _ = await verb(ANN, "news", ListFilter(limit=10))
        assert [one.received.notification_id for one in page] == listed


async def test_a_cursor_of_another_form_is_invalid(opened: Deployment) -> None:
    listing = opened.core.inbox.list
    for _ in range(2):
        await post(opened, None)
    wanted = ListFilter(limit=1)
    _, cursor = await listing(ANN, "news", wanted)
    good = listing.cursors.open(purpose_of(wanted), ANN, cursor or "")
    page, _ = await listing(ANN, "news", with_cursor(listing, wanted, good))
    assert len(page) == 1
    with pytest.raises(CursorInvalid):
        await listing(ANN, "news", with_cursor(listing, wanted, b'"not a start"'))


def with_cursor(listing: ListNotifications, wanted: ListFilter, payload: bytes) -> ListFilter:
    sealed = listing.cursors.seal(purpose_of(wanted), ANN, payload)
    return msgspec.structs.replace(wanted, cursor=sealed)


def purpose_of(wanted: ListFilter) -> str:
    return reading._purpose("news", wanted)


# Settings and jobs.


@pytest.mark.parametrize(
    ("stored", "rule"),
    [("ask", "ask"), ("contacts", "contacts"), ("open", "open"), (7, "open")],
)
async def test_invites_that_mean_nothing_leave_groups_open(
    opened: Deployment, stored: object, rule: str
) -> None:
    core = opened.core
    await core.store.inbox_settings.put_settings("acme", {"invites": stored})
    assert await core.inbox.settings.invites("acme") == rule


class NoQueue:
    """A queue that takes nothing."""

    async def put(self, _: object) -> None:
        raise JobsUnavailable


async def test_a_dead_letter_stays_while_the_queue_does_not_take_it(opened: Deployment) -> None:
    core = opened.core
    aside_id = f"{'0' * 26}-0"
    job = Job(
        tenant="acme",
        inbox="news",
        notification_id="n1",
        number=0,
        users=("ann",),
        category=None,
        posted_at=1,
        expires_at=2,
    )
    letter = DeadLetter(aside_id=aside_id, job=job, reason="x", at=1)
    await core.store.dead_letters.keep(letter)
    queue: Any = NoQueue()
    letters = DeadLetterJobs(core.store.dead_letters, queue)
    with pytest.raises(QueueUnavailable):
        await letters.replay(aside_id)
    assert await letters.page(None, 10) == ([letter], None)
    with pytest.raises(CursorInvalid):
        await letters.page("not a cursor", 10)
    await replace(letters, jobs=core.jobs).replay(aside_id)
    assert await letters.page(None, 10) == ([], None)


async def test_a_retraction_waits_until_no_cache_shows_the_notification(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    time, slept = 100.0, list[float]()

    async def sleep(seconds: float) -> None:
        nonlocal time
        slept.append(seconds)
        time += min(seconds, 0.75)  # a loop may wake early

    monkeypatch.setattr(posted, "monotonic", lambda: time)
    monkeypatch.setattr("asyncio.sleep", sleep)
    await posted._until(101.0)
    assert slept == [1.0, 0.25]


async def test_users_who_list_their_inboxes_share_one_read(
    opened: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inbox_settings, "monotonic", lambda: 0.0)
    reads: list[str] = []

    async def counted(name: str, call: Callable[[], Awaitable[Any]]) -> Any:
        reads.append(name)
        return await call()

    store = opened.core.store
    for name in ("news", "offers", "orders"):
        config = InboxConfig(title=name, message_schema={"type": "object"})
        await store.inbox_settings.put_config("acme", name, config)
    settings: Any = Intercepted(store.inbox_settings, counted)
    lists = ListInboxes(settings, store.tenants, opened.core.vault.cursors)

    first, cursor = await lists.of_user(ANN, None, 2)
    assert [name for name, _ in first] == ["news", "offers"]
    assert [config.message_schema for _, config in first] == [None, None]
    assert await lists.of_user(BOB, None, 1) != (first, cursor)
    assert reads == ["configs"]
    rest, end = await lists.of_user(ANN, cursor, 2)
    assert ([name for name, _ in rest], end) == (["orders"], None)

# SPDX-License-Identifier: Apache-2.0
"""The use cases of the inbox whose cost is measured: in inboxes the process knows, until quiet."""

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from scripts.cost_page import (
    APPEND_LATE,
    AUDIENCES,
    BROADCAST_BY_PREFERENCE,
    BY_PREFERENCE,
    COPIES,
    COPIES_MOST,
    DELIVER_LATE,
    PLAN_EMAILS,
    SCHEDULE_BROADCAST,
    SCHEDULE_POST,
    SEND_EMAILS,
    TEXT,
    post_name,
)
from tests.contract.cost_cases import Bill, Ground, a_ground
from tests.contract.inbox_builders import a_notification, new_id
from tests.contract.metering import Process, person
from tests.contract.test_people import a_signing_key, a_tenant
from tests.integration.inbox_world import running_jobs
from tests.support.canary import canary
from tests.support.waiting import until
from tidings.actions.inbox import broadcast_log, settings
from tidings.actions.inbox.posting import Posted, jobs_for
from tidings.actions.inbox.reading import ListFilter
from tidings.actions.push.directory import PushDirectory, TenantPush
from tidings.model.ids import UserKey, user_id
from tidings.model.notification_states import StateChange
from tidings.model.notifications import Copy, InboxConfig, NotificationAction, Posting, PostOptions
from tidings.model.preferences import CategoryChoice, Preferences
from tidings.ports.due import Due
from tidings.ports.escalations import due_of_escalation, escalations_for
from tidings.ports.people import NO_FIELDS, ProfileFields
from tidings.stores.dynamodb.inbox.items import copy_item
from tidings.stores.dynamodb.patterns import Pattern

TENANT = "acme"
INBOX = "default"
QUIET = "reading"
"""An inbox in which nobody tells everyone anything."""
STATES = "states"
"""An inbox whose notifications have actions."""
CATEGORY = "offers"

FILL = Pattern("fill", "BatchWriteItem", ("inbox",), "to have many copies at once")

Act = Callable[[Process], Awaitable[object]]

_people = itertools.count(1)


class HandTime:
    """The monotonic time of what a process remembers: it passes when a case says so."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


class InboxGround:
    """Where the cases take place."""

    def __init__(self, ground: Ground, time: HandTime) -> None:
        self.ground = ground
        self.time = time

    async def make_inbox(self) -> None:
        """A tenant that says something, an inbox, and an announcement in its log."""
        home = self.ground.home
        await home.store.tenants.put(a_tenant(), a_signing_key("s1"))
        await home.core.inbox.settings.put(TENANT, {"inbox": {"keep_days": 90}})
        for inbox in (INBOX, QUIET, STATES):
            await home.core.inbox.configs.put(TENANT, inbox, InboxConfig(title="Offers"))
        await post(home, None)

    @asynccontextmanager
    async def process(self, before: Act) -> AsyncIterator[Process]:
        """A process that knows the inbox from something it did a moment ago."""
        async with self.ground.process() as process:
            await before(process)
            await process.store.notifications.close()
            self.time.now += 0.1
            yield process

    async def step(self, name: str, act: Act, before: Act = lambda p: post(p, None)) -> None:
        """One step, and what follows from it."""
        async with self.process(before) as process:
            self.ground.start(process)
            await act(process)
            answer = process.meter.reading()
        self.ground.keep(name, answer, process)


def posting(users: list[UserKey] | None, *, is_question: bool = False) -> Posting:
    """A notification whose text is as long as that of every other one."""
    message: dict[str, object] = {"title": "A title", "body": canary("").ljust(TEXT - 100, "x")}
    ids = None if users is None else [user_id(user) for user in users]
    asks = (NotificationAction(id="yes", label="Yes"),) if is_question else ()
    options = PostOptions(actions=asks)
    return Posting(users=ids, message=message, category=CATEGORY, sender="shop", options=options)


async def post(
    process: Process, users: list[UserKey] | None, key: str | None = None, inbox: str = INBOX
) -> Posted:
    asked = posting(users, is_question=inbox == STATES)
    return await process.core.inbox.post(TENANT, inbox, asked, key)


async def deliver(process: Process, portions: int) -> None:
    """Do all jobs there are."""
    done = process.meter.requests.get("delete_job", 0) + portions
    async with running_jobs(process.core):
        await until(lambda: process.meter.requests.get("delete_job", 0) == done)


def some_people(count: int) -> list[UserKey]:
    return [person(next(_people)) for _ in range(count)]


async def _without_push(*_: object) -> TenantPush:
    return TenantPush()


async def inbox_bills(endpoint: str, folder: Path) -> dict[str, Bill]:
    """Every use case, by its name."""
    time = HandTime()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(broadcast_log, "monotonic", time)
        patch.setattr(settings, "monotonic", time)
        # A process reads the push settings of a tenant once, and learns of changes from the feed.
        patch.setattr(PushDirectory, "tenant", _without_push)
        async with a_ground(endpoint, folder) as ground:
            inbox = InboxGround(ground, time)
            await inbox.make_inbox()
            posted = [await posts_to_users(inbox, count) for count in AUDIENCES]
            await posts_to_everyone(inbox)
            await redactions(inbox, posted[AUDIENCES.index(max(AUDIENCES))])
            await reads(inbox)
            await states(inbox)
            await look_anew(inbox)
            await scheduled_posts(inbox)
            await planned_emails(inbox)
            await sent_emails(inbox)
            await preferences(inbox)
            return ground.bills


async def posts_to_users(inbox: InboxGround, count: int) -> str:
    """Returns the id of the notification, which all of them have."""
    users = some_people(count)
    async with inbox.process(lambda p: post(p, None)) as process:
        inbox.ground.start(process)
        posted = await post(process, users)
        answer = process.meter.reading()
        await deliver(process, -(-count // 100))
    inbox.ground.keep(post_name(count, in_store=True), answer, process)
    return posted.notification_id


async def posts_to_everyone(inbox: InboxGround) -> None:
    await inbox.step("broadcast", lambda p: post(p, None))
    await inbox.step("broadcast, with a key", lambda p: post(p, None, "key"))


async def redactions(inbox: InboxGround, posted: str) -> None:
    """Of a notification that most users have; and, before it is redacted, how far it has got."""
    most = max(AUDIENCES)
    await inbox.step(
        f"progress, of {most:,} users", lambda p: p.core.inbox.progress(TENANT, INBOX, posted)
    )
    await inbox.step(
        f"retract, of {most:,} users", lambda p: p.core.inbox.redact(TENANT, INBOX, posted)
    )
    told = (await post(inbox.ground.home, None)).notification_id
    await inbox.step("retract a broadcast", lambda p: p.core.inbox.redact(TENANT, INBOX, told))


async def reads(inbox: InboxGround) -> None:
    (user, busy), home = some_people(2), inbox.ground.home
    ids = [(await post(home, [user], inbox=QUIET)).notification_id for _ in range(COPIES + 1)]
    await deliver(home, COPIES + 1)
    await fill(home, busy)

    async def list_page(process: Process) -> None:
        seen, cursor = await process.core.inbox.list(user, QUIET, ListFilter(limit=COPIES))
        assert (len(seen), cursor is None) == (COPIES, False)

    for name, act in {
        f"list of {COPIES}": list_page,
        f"unread count, {COPIES} copies": lambda p: p.core.inbox.unread(user, QUIET),
        f"unread count, {COPIES_MOST:,} copies": lambda p: p.core.inbox.unread(busy, QUIET),
        f"counts at hello, {COPIES_MOST:,} copies": lambda p: p.core.inbox.unread.news(
            busy, QUIET, None
        ),
        f"read one of {COPIES}": lambda p: p.core.inbox.read.some(user, QUIET, ids[:1]),
        f"read all of {COPIES}": lambda p: p.core.inbox.read.before(
            user, QUIET, p.core.clock.now()
        ),
        f"read all of {COPIES}, by seconds": lambda p: p.core.inbox.read.posted_before(
            user, QUIET, p.core.clock.now()
        ),
    }.items():
        await inbox.step(name, act, list_page)


async def states(inbox: InboxGround) -> None:
    (user,), home = some_people(1), inbox.ground.home
    ids = [(await post(home, [user], inbox=STATES)).notification_id for _ in range(COPIES)]
    await deliver(home, COPIES)
    sent = (await post(home, None, inbox=STATES)).notification_id
    archive = StateChange(archived=True)

    async def list_page(process: Process) -> None:
        await process.core.inbox.list(user, STATES, ListFilter(limit=COPIES))

    for name, act in {
        "choose an action": lambda p: p.core.inbox.act(user, STATES, ids[0], "yes"),
        f"archive one of {COPIES}": lambda p: p.core.inbox.states.some(
            user, STATES, ids[:1], archive
        ),
        f"archive a broadcast, {COPIES} copies": lambda p: p.core.inbox.states.some(
            user, STATES, [sent], archive
        ),
        f"archive all of {COPIES}": lambda p: p.core.inbox.states.before(
            user, STATES, p.core.clock.now(), archive
        ),
    }.items():
        await inbox.step(name, act, list_page)


async def fill(home: Process, user: UserKey) -> None:
    """Give a user as many copies as count, without a notification for each."""
    now = home.core.clock.now()
    copies = (
        Copy(
            notification_id=f"{number:026d}",
            category=CATEGORY,
            received_at=now,
            expires_at=now + 90 * 86_400_000,
        )
        for number in range(COPIES_MOST)
    )
    items = [copy_item(user, QUIET, copy) for copy in copies]
    await home.store.copies._dynamo.batch_write(FILL, puts=items)


async def look_anew(inbox: InboxGround) -> None:
    async def look(process: Process) -> None:
        inbox.time.now += 2
        await process.core.inbox.configs.get(TENANT, INBOX)
        await process.core.inbox.views.get(TENANT, INBOX)

    await inbox.step("an inbox read again, at most once a second", look)


async def scheduled_posts(inbox: InboxGround) -> None:
    """To users and to everyone: when they are posted, and at their time."""
    users = some_people(100)
    at = inbox.ground.home.core.clock.now() + 60_000
    for audience, names in (
        (users, (SCHEDULE_POST, DELIVER_LATE)),
        (None, (SCHEDULE_BROADCAST, APPEND_LATE)),
    ):
        later = msgspec.structs.replace(posting(audience), options=PostOptions(deliver_at=at))
        made: list[str] = []

        async def schedule(
            process: Process, later: Posting = later, made: list[str] = made
        ) -> None:
            posted = await process.core.inbox.post(TENANT, INBOX, later, None)
            made.append(posted.notification_id)

        async def fire(process: Process, made: list[str] = made) -> None:
            due = Due(
                kind="inbox", at=at, item_id=made[-1], subject=INBOX, tenant=TENANT, made_at=at
            )
            assert await process.core.due_work["inbox"].do(due)
            await process.store.due.drop_done([due])

        await schedule(inbox.ground.home)
        await inbox.step(names[0], schedule, before=schedule)
        await inbox.step(names[1], fire)


async def planned_emails(inbox: InboxGround) -> None:
    """What a post stores for later, besides what every post does."""
    users = [user_id(user) for user in some_people(100)]
    now = inbox.ground.home.core.clock.now()

    async def plan(process: Process) -> None:
        made = a_notification(new_id(now), tenant=TENANT, inbox=INBOX, posted_at=now)
        portions = escalations_for(jobs_for(made, users), 5)
        await process.store.escalations.put(portions, now)

    await inbox.step(PLAN_EMAILS, plan, before=plan)


async def sent_emails(inbox: InboxGround) -> None:
    """What an escalation takes at its time: of 100 users, one has an address."""
    home, now = inbox.ground.home, inbox.ground.home.core.clock.now()
    users = some_people(100)
    addressed = ProfileFields(email="reader@example.org")
    for user in users:
        fields = addressed if user == users[0] else NO_FIELDS
        await home.store.users.put(user, display_name=None, phone_number=None, now=1, fields=fields)
    posted = await post(home, users)
    await deliver(home, 1)
    found = await home.store.notifications.get(TENANT, INBOX, [posted.notification_id])
    ids = [user_id(user) for user in users]
    portions = escalations_for(jobs_for(found[0], ids), 0)
    await home.store.escalations.put(portions, now)
    due = due_of_escalation(portions[0], now)

    async def fire(process: Process) -> None:
        await process.core.email_work["escalation"].do(due)
        await process.store.due.drop(due)

    await inbox.step(SEND_EMAILS, fire)


async def preferences(inbox: InboxGround) -> None:
    """The last cases: from now on some users of the inbox have preferences."""
    user, *others = some_people(101)
    off = Preferences(categories={CATEGORY: CategoryChoice(push=False)})

    async def choose(process: Process) -> None:
        await process.core.inbox.preferences.put(user, INBOX, off)

    await inbox.step("first preferences in an inbox", choose)
    await inbox.step("preferences in an inbox", choose)
    for other in others:  # the engine of this test charges nothing for items that do not exist
        await inbox.ground.home.store.preferences.put(other, INBOX, off)
    async with inbox.process(lambda p: post(p, None)) as process:
        inbox.ground.start(process)
        await post(process, others)
        answer = process.meter.reading()
        await deliver(process, 1)
    inbox.ground.keep(BY_PREFERENCE, answer, process)
    await inbox.step(BROADCAST_BY_PREFERENCE, lambda p: post(p, None))

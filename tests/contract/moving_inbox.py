# SPDX-License-Identifier: Apache-2.0
"""For the suites about moving: inboxes with all there is in them."""

from typing import Final

import msgspec

from tests.contract.engines import Store
from tests.contract.inbox_builders import (
    INBOX,
    TENANT,
    a_broadcast,
    a_claim,
    a_copy,
    a_notification,
    a_retraction,
    a_scheduled,
    new_id,
    some_jobs,
)
from tests.contract.moving_ground import LATER
from tests.support.clock import NOW
from tests.support.users import ANN, BOB, CAT
from tidings.actions.inbox.posting import jobs_for
from tidings.model.escalations import Escalation
from tidings.model.ids import UserKey
from tidings.model.limits import DAY_MS
from tidings.model.notification_states import StateChange
from tidings.model.notifications import NOTHING_READ, InboxConfig, Notification
from tidings.model.preferences import CategoryChoice, CategoryRule, Preferences, QuietHours
from tidings.model.scheduled import DONE_KEPT_MS
from tidings.ports.bus import DeadLetter
from tidings.ports.due import due_of
from tidings.ports.escalations import portion_of
from tidings.ports.scheduled_notifications import due_of_notification

OTHER_TENANT: Final = "acme-2"
OTHER_ANN: Final = UserKey(f"{OTHER_TENANT}:ann")
OVER: Final = "over"
"""An inbox whose log has expired to its last entry."""
FINISHED: Final = (150, 2, 99, 0)
KEYS: Final = ("0f", "00", "ff")
POSTED: Final = tuple(new_id() for _ in range(4))
REDACTED: Final = new_id()
EXPIRED: Final = new_id()
SINGLY: Final = (12, 100, 9, 11)
CHOSEN: Final = Preferences(
    categories={
        "offers": CategoryChoice(push=False),
        "a": CategoryChoice(in_app=False, email=True),
    },
    quiet_hours=QuietHours(start="22:00", end="07:00", timezone="Europe/Berlin"),
)


async def fill_inbox(store: Store) -> None:
    """One of everything, and two of what has to be put in order; some of it over by `LATER`."""
    await _say(store)
    await _post(store)
    await _announce(store)
    for key in KEYS:
        claim = a_claim(hint=3, notification_id=POSTED[0], expires_at=LATER + 1)
        await store.notifications.claim_key(TENANT, INBOX, key, claim)
    await store.notifications.claim_key(TENANT, INBOX, "over", a_claim(expires_at=LATER))
    await _deliver(store)
    await _schedule_notifications(store)
    await store.jobs.put(some_jobs(3, users=("ann", "Bob")))
    await store.jobs.put(some_jobs(2, tenant=OTHER_TENANT, category="offers"))
    for number, job in enumerate(some_jobs(2)):
        aside = DeadLetter(aside_id=new_id(), job=job, reason=f"no reason {number} 🌻", at=NOW)
        await store.dead_letters.keep(aside)
    await _schedule(store)


async def _schedule(store: Store) -> None:
    whole = a_scheduled(
        1, mentions=("bob", "cat"), silent=True, ttl_seconds=5, reply_to=2, content_type="text/x"
    )
    for message in (whole, *map(a_scheduled, range(2, 6)), a_scheduled(9, user_id=OTHER_ANN)):
        await store.due.put(due_of(message), NOW)
        assert await store.scheduled.add(message) == message
    done = [a_scheduled(2).sent(7, LATER), a_scheduled(3).failed("chat.not_found", LATER)]
    over = a_scheduled(4).cancelled(LATER - DONE_KEPT_MS)
    for message in (*done, over):
        await store.scheduled.finish(message)
        await store.due.drop(due_of(message))


async def _say(store: Store) -> None:
    await store.inbox_settings.put_settings(OTHER_TENANT, {})
    said = {"z": [1.5, None, {"ä": True}], "inbox": {"keep_days": 30}, "a": 2**60}
    await store.inbox_settings.put_settings(TENANT, said)
    whole = InboxConfig(
        title="News",
        description="What is new",
        schema_version="1.1",
        categories=("offers", "a"),
        late_joiners=False,
        keep_days=7,
        message_schema={"type": "object", "properties": {"b": {}, "a": {}}},
        category_rules={"offers": CategoryRule(email=False), "a": CategoryRule(required=True)},
    )
    for tenant, inbox in ((TENANT, "news-2"), (TENANT, "all"), (OTHER_TENANT, INBOX)):
        await store.inbox_settings.put_config(tenant, inbox, InboxConfig(title=inbox))
    await store.inbox_settings.put_config(TENANT, INBOX, whole)
    for inbox in (INBOX, "all"):
        assert await store.preferences.begin(TENANT, inbox)


async def _post(store: Store) -> None:
    for posted in reversed(POSTED):
        await store.notifications.put(a_notification(posted, category="offers"))
    await store.notifications.put(a_notification(EXPIRED, expires_at=LATER))
    await store.notifications.put(a_notification(REDACTED))
    await store.notifications.empty(TENANT, INBOX, REDACTED)
    for number in FINISHED:
        await store.notifications.finish_job(TENANT, INBOX, POSTED[1], number)
    await store.notifications.finish_job(TENANT, INBOX, EXPIRED, 0)
    await store.notifications.put(a_notification(tenant=OTHER_TENANT))


async def _schedule_notifications(store: Store) -> None:
    """One for users, one for everyone that waits, and one that the log has."""
    listed, waiting, appended = (
        a_notification(new_id(LATER + days), posted_at=LATER + days, everyone=days > 2 * DAY_MS)
        for days in (2 * DAY_MS, 3 * DAY_MS, 4 * DAY_MS)
    )
    for late in (listed, waiting, appended):
        await store.notifications.put(late)
        if late is not appended:
            await store.due.put(due_of_notification(late, late.posted_at), late.posted_at)
    await store.scheduled_notifications.hold(jobs_for(listed, [f"u{n}" for n in range(101)]))
    escalation = _escalation(listed)
    await store.escalations.put([escalation], escalation.at)
    await store.scheduled_notifications.begin(TENANT, INBOX, appended.notification_id, 4)
    await store.scheduled_notifications.finish(TENANT, INBOX, appended.notification_id, 5)


def _escalation(late: Notification) -> Escalation:
    return Escalation(
        tenant=TENANT,
        inbox=INBOX,
        notification_id=late.notification_id,
        number=1,
        users=("u100",),
        category=late.category,
        at=late.posted_at + DAY_MS,
        expires_at=late.expires_at,
        attempt=2,
    )


async def _announce(store: Store) -> None:
    log = [
        a_broadcast(1, expires_at=LATER),
        a_broadcast(2),
        a_broadcast(3, expires_at=LATER),
        a_retraction(4, REDACTED),
        a_broadcast(5),
        a_retraction(6, "b5"),
        a_broadcast(1, inbox=OVER, expires_at=LATER),
        a_broadcast(2, inbox=OVER, expires_at=LATER),
        a_broadcast(1, tenant=OTHER_TENANT),
    ]
    for entry in log:
        assert await store.notifications.append_broadcast(entry)
    await store.notifications.retract_broadcast(TENANT, INBOX, 5)


async def _deliver(store: Store) -> None:
    for posted in POSTED:
        await store.copies.deliver((BOB, ANN), INBOX, a_copy(posted, category="offers"))
    await store.copies.deliver((ANN,), INBOX, a_copy(EXPIRED, expires_at=LATER))
    await store.copies.deliver((OTHER_ANN,), INBOX, a_copy(POSTED[0]))
    await store.copies.deliver((BOB,), "all", a_copy(received_at=NOW + 3))
    await store.copies.mark_read(BOB, INBOX, POSTED[1:3], NOW + 4)
    await store.copies.read_broadcasts(ANN, INBOX, SINGLY, NOW + 5)
    await store.preferences.put(ANN, INBOX, CHOSEN)
    await store.preferences.put(CAT, "all", CHOSEN)
    await store.copies.read_broadcasts(ANN, INBOX, (9, 8), NOW + 6)
    await store.copies.read_before(BOB, INBOX, NOW + 7, 5)
    await store.copies.read_broadcasts(BOB, INBOX, (4, 6), NOW + 8)
    await store.copies.read_broadcasts(UserKey("acme:Zoe"), INBOX, (2,), NOW + 9)
    assert await store.escalations.claim(ANN, INBOX, POSTED[3], NOW + 10)
    await _change_states(store)


async def _change_states(store: Store) -> None:
    states, everything = store.inbox_states, StateChange(seen=True, archived=True)
    nothing = StateChange(seen=False, read=False, archived=False, snoozed_until=NOW + 1)
    marked = await store.copies.read_state(BOB, INBOX)
    await states.change_copies(BOB, INBOX, POSTED[:1], everything, marked, NOW + 10)
    await states.change_copies(BOB, INBOX, POSTED[1:2], nothing, marked, NOW + 11)
    await states.act_on_copy(BOB, INBOX, POSTED[2], "yes", NOW + 12)
    await states.change_broadcasts(BOB, INBOX, [a_broadcast(2)], nothing, marked, NOW + 13)
    await states.act_on_broadcast(BOB, INBOX, a_broadcast(5), "no", NOW + 14)
    over = a_broadcast(3, expires_at=LATER)
    await states.change_broadcasts(BOB, INBOX, [over], everything, marked, NOW + 15)
    await states.change_broadcasts(CAT, INBOX, [a_broadcast(2)], everything, NOTHING_READ, NOW)
    await states.mark_before(BOB, INBOX, "seen", NOW + 16, 2)
    await states.mark_before(BOB, INBOX, "archived", NOW + 17, 1)


async def _scheduled(store: Store) -> list[object]:
    """All scheduled messages, and what is due."""
    ids = [a_scheduled(number).scheduled_id for number in range(1, 6)]
    found = [await store.scheduled.get(ANN, each) for each in ids if each != ids[3]]
    due = [
        msgspec.structs.replace(one, place="")
        for shard in await store.due.lease("message", "test", LATER)
        for one in await store.due.read("message", shard, LATER + DAY_MS, 100)
    ]
    await store.due.give_back("message", "test")
    assert {one.item_id for one in due} == {ids[0], ids[4], a_scheduled(9).scheduled_id}
    return [*found, *sorted(due, key=lambda one: (one.subject, one.item_id))]


async def _escalations(store: Store) -> list[object]:
    """The portions of users who are due, with what they are due for."""
    due = [
        msgspec.structs.replace(one, place="", made_at=0)
        for shard in await store.due.lease("escalation", "test", LATER)
        for one in await store.due.read("escalation", shard, LATER + 4 * DAY_MS, 100)
    ]
    await store.due.give_back("escalation", "test")
    (one,) = due
    found = await store.escalations.get(TENANT, INBOX, *portion_of(one))
    assert found is not None
    return [one, found]


async def inbox_answers(store: Store) -> list[object]:
    """What is asked about it, as it counts at `LATER`."""
    settings, notifications = store.inbox_settings, store.notifications
    answers: list[object] = [
        *[await settings.settings(tenant) for tenant in (TENANT, OTHER_TENANT)],
        *[await settings.config(TENANT, inbox) for inbox in (INBOX, "all", "news-2", OVER)],
        sorted(
            await notifications.get(TENANT, INBOX, (*POSTED, REDACTED)),
            key=lambda one: one.notification_id,
        ),
        *[await notifications.finished_jobs(TENANT, INBOX, one) for one in POSTED],
        *[await notifications.claim_key(TENANT, INBOX, key, a_claim(hint=9)) for key in KEYS],
        await store.dead_letters.page(after=None, limit=10),
    ]
    for tenant, inbox in ((TENANT, INBOX), (TENANT, OVER), (OTHER_TENANT, INBOX)):
        log = await notifications.broadcasts(tenant, inbox, after=0, limit=100)
        answers.append([entry for entry in log if entry.expires_at > LATER])
        last = await notifications.last_broadcasts(tenant, inbox, before=None, limit=1)
        answers.append(last[0].sequence)
    for user in (ANN, BOB, CAT, OTHER_ANN):
        copies = await store.copies.newest(user, INBOX, before=None, limit=100)
        answers.append([copy for copy in copies if copy.expires_at > LATER])
        state = await store.copies.read_state(user, INBOX)
        own = {name: one for name, one in state.broadcasts.items() if one.expires_at > LATER}
        answers.append(msgspec.structs.replace(state, broadcasts=own))
    return [*answers, *await _scheduled(store), *await _escalations(store)]

# SPDX-License-Identifier: Apache-2.0
"""Exports all facts in the table of inboxes, in order and with bounded memory.

One scan collects only the names of the partitions. The names are sorted, and the partitions are
read in that order. One query is enough for the partition of a user.
"""

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Final

from tidings.model import limits
from tidings.model.ids import UserKey, ulid
from tidings.model.notifications import Notification
from tidings.ports.export_inbox_facts import (
    CopyFact,
    DeadLetterFact,
    EscalationFact,
    HeldJobFact,
    InboxFact,
    InboxFacts,
    JobFact,
    NotificationFact,
    OfInbox,
    OfUser,
    PostKeyFact,
    ScheduledFact,
    TenantSettingsFact,
    broadcast_fact,
    converted,
    read_state_facts,
)
from tidings.ports.inboxes import PostKey
from tidings.stores.dynamodb.chat.scheduled import (
    is_scheduled,
    scheduled_partition,
    to_scheduled,
)
from tidings.stores.dynamodb.client.dynamo import Dynamo
from tidings.stores.dynamodb.client.retrying import AT_ONCE, Item, gather_bounded
from tidings.stores.dynamodb.export.scanning import whole_table
from tidings.stores.dynamodb.inbox import inbox_patterns as patterns
from tidings.stores.dynamodb.inbox.copies import to_read_state
from tidings.stores.dynamodb.inbox.escalations import ESCALATION, to_escalation
from tidings.stores.dynamodb.inbox.items import (
    NEXT_TO,
    Partitions,
    body_key,
    inbox_partition,
    is_copy,
    made,
    portions_of,
    to_copy,
    to_notification,
    user_partition,
)
from tidings.stores.dynamodb.inbox.jobs import FIRST, DynamoDeadLetters, job_items, to_job
from tidings.stores.dynamodb.inbox.notifications import DynamoInboxSettings, DynamoNotifications
from tidings.stores.dynamodb.inbox.scheduled_notifications import HELD, to_held_job

PAGE_CONTENTS: Final = 200
PAGE_ITEMS: Final = 1_000
USER_ITEMS: Final = limits.USER_COPIES_MAX + 1
"""Number of items in a page of a user's partition: all visible copies and the read marks."""


class InboxSource:
    """Reads all facts from the table of inboxes, to which nothing may be written meanwhile."""

    def __init__(self, dynamo: Dynamo) -> None:
        self._dynamo = dynamo
        self._settings = DynamoInboxSettings(dynamo)
        self._notifications = DynamoNotifications(dynamo)
        self._dead_letters = DynamoDeadLetters(dynamo)
        self._ends: dict[tuple[str, str], tuple[str, int]] = {}
        """For each tenant and inbox: the result of `_end` when the inbox was read."""
        self._now = 0

    async def facts(self, now: int) -> AsyncIterator[Sequence[InboxFacts]]:
        """Yield all facts that are valid at `now`, in the order of an export file."""
        self._now = now
        partitions = Partitions()
        async for page in whole_table(self._dynamo, patterns.SCAN_INBOX):
            for item in page:
                partitions.meet(item)
        for tenant in partitions.tenants():
            if (settings := await self._settings.settings(tenant)) is not None:
                yield [TenantSettingsFact(tenant=tenant, settings=settings)]
        for tenant, inbox in partitions.inboxes():
            async for some in self._of_inbox(tenant, inbox, now):
                yield some
        users = partitions.users()
        while few := list(islice(users, AT_ONCE)):
            lists = await gather_bounded(partial(self._of_user, *user, now) for user in few)
            yield [fact for facts in lists for fact in facts]
        async for jobs in self._jobs(now):
            yield jobs
        for user in partitions.scheduling():
            yield await self._scheduled(user, now)

    async def changed(self) -> list[str]:
        """Return the names of inboxes that got a notification after they were read."""
        return [
            f"{tenant}/{inbox}"
            for (tenant, inbox), end in self._ends.items()
            if await self._end(tenant, inbox) != end
        ]

    # Facts of an inbox.

    async def _of_inbox(
        self, tenant: str, inbox: str, now: int
    ) -> AsyncIterator[Sequence[OfInbox]]:
        self._ends[tenant, inbox] = await self._end(tenant, inbox)
        config = await self._settings.config(tenant, inbox)
        if config is not None:
            yield [converted(InboxFact, config, tenant=tenant, inbox=inbox)]
        partition = inbox_partition(tenant, inbox)
        async for items in self._pages(partition, "n#", PAGE_CONTENTS):
            some = [to_notification(tenant, inbox, item) for item in _kept(items, now)]
            yield await self._with_progress(partition, some)
        async for items in self._pages(partition, HELD, PAGE_ITEMS):
            yield [converted(HeldJobFact, to_held_job(item)) for item in items]
        async for items in self._pages(partition, ESCALATION, PAGE_ITEMS):
            yield [converted(EscalationFact, to_escalation(item)) for item in items]
        async for entries in self._log(tenant, inbox, now):
            yield entries
        async for items in self._pages(partition, "k#", PAGE_ITEMS):
            yield [
                converted(
                    PostKeyFact,
                    made(PostKey, item),
                    tenant=tenant,
                    inbox=inbox,
                    key=item["sk"].removeprefix("k#"),
                )
                for item in _kept(items, now)
            ]

    async def _end(self, tenant: str, inbox: str) -> tuple[str, int]:
        """Return the key of the newest notification for listed users, and the log's head.

        Scheduled notifications of later days are left out. Their ids are above those of new ones.
        """
        last = body_key(tenant, inbox, ulid(self._now + limits.DAY_MS, bytes(10)))["sk"]
        posted = await self._dynamo.query(
            patterns.EXPORT_INBOX,
            "#pk = :inbox AND #sk BETWEEN :first AND :last",
            {":inbox": inbox_partition(tenant, inbox), ":first": "n#", ":last": last},
            limit=1,
            backwards=True,
        )
        log = await self._notifications.last_broadcasts(tenant, inbox, before=None, limit=1)
        return posted[0]["sk"] if posted else "", log[0].sequence if log else 0

    async def _pages(self, partition: str, kind: str, size: int) -> AsyncIterator[list[Item]]:
        """Yield the items whose sort keys start with `kind`, in order."""
        first = kind
        while first:
            items = await self._dynamo.query(
                patterns.EXPORT_INBOX,
                "#pk = :inbox AND #sk BETWEEN :first AND :last",
                {":inbox": partition, ":first": first, ":last": f"{kind}{NEXT_TO}"},
                limit=size,
            )
            yield items
            # No sort key contains a space, so no key lies between the last item's and this one.
            first = f"{items[-1]['sk']} " if len(items) == size else ""

    async def _with_progress(
        self, partition: str, some: list[Notification]
    ) -> list[NotificationFact]:
        if not some:
            return []
        first, last = (portions_of(end.notification_id) for end in (some[0], some[-1]))
        items = await self._dynamo.query(
            patterns.EXPORT_INBOX,
            "#pk = :inbox AND #sk BETWEEN :first AND :last",
            {":inbox": partition, ":first": first, ":last": f"{last}{NEXT_TO}"},
        )
        done: dict[str, set[int]] = {posted.notification_id: set() for posted in some}
        for item in items:
            done.get(item["sk"].split("#")[1], set()).update(item["done"])
        return [
            converted(
                NotificationFact, posted, finished_jobs=tuple(sorted(done[posted.notification_id]))
            )
            for posted in some
        ]

    async def _log(self, tenant: str, inbox: str, now: int) -> AsyncIterator[Sequence[OfInbox]]:
        after, (_, last) = 0, self._ends[tenant, inbox]
        while after < last:
            entries = await self._notifications.broadcasts(
                tenant, inbox, after=after, limit=PAGE_CONTENTS
            )
            yield [
                broadcast_fact(entry, now, is_last=entry.sequence == last)
                for entry in entries
                if entry.expires_at > now or entry.sequence == last
            ]
            after = entries[-1].sequence

    # Facts of a user.

    async def _of_user(self, user: UserKey, inbox: str, now: int) -> list[OfUser]:
        copies: list[CopyFact] = []
        marks: list[Item] = []
        async for items in self._newest_first(user_partition(user, inbox)):
            marks += [item for item in items if not is_copy(item)]
            copies += [
                converted(CopyFact, to_copy(item), user_id=user, inbox=inbox)
                for item in _kept(filter(is_copy, items), now)
            ]
            if len(copies) >= limits.USER_COPIES_MAX:
                break
        visible = copies[: limits.USER_COPIES_MAX]
        state = to_read_state(marks[::-1])
        return [*visible[::-1], *read_state_facts(user, inbox, state, now)]

    async def _newest_first(self, partition: str) -> AsyncIterator[list[Item]]:
        """Yield pages of a user's items: the marks, the states of single broadcasts, and then the
        copies, newest first."""
        below = NEXT_TO
        while below:
            items = await self._dynamo.query(
                patterns.EXPORT_COPIES,
                "#pk = :user AND #sk < :below",
                {":user": partition, ":below": below},
                limit=USER_ITEMS,
                backwards=True,
            )
            below = items[-1]["sk"] if len(items) == USER_ITEMS else ""
            yield items

    async def _scheduled(self, user: UserKey, now: int) -> list[InboxFacts]:
        where, values = "#pk = :user", {":user": scheduled_partition(user)}
        items = await self._dynamo.query(patterns.EXPORT_COPIES, where, values)
        messages = [to_scheduled(item) for item in items if is_scheduled(item)]
        return [
            converted(ScheduledFact, message)
            for message in messages
            if message.expires_at is None or message.expires_at > now
        ]

    # Jobs.

    async def _jobs(self, now: int) -> AsyncIterator[Sequence[InboxFacts]]:
        after, after_letter = FIRST, FIRST
        while items := await job_items(self._dynamo, after=after, limit=PAGE_ITEMS):
            jobs = map(to_job, items)
            yield [converted(JobFact, job) for job in jobs if job.expires_at > now]
            after = items[-1]["sk"]
        while some := await self._dead_letters.page(after=after_letter, limit=PAGE_ITEMS):
            yield [
                converted(DeadLetterFact, letter, job=converted(JobFact, letter.job))
                for letter in some
            ]
            after_letter = some[-1].aside_id


def _kept(items: Iterable[Item], now: int) -> Iterator[Item]:
    return (item for item in items if item["expires_at"] > now)

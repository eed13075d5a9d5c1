# SPDX-License-Identifier: Apache-2.0
"""Explain what became of a notification on its way to a user."""

import asyncio
from collections.abc import Iterator
from typing import Final

import msgspec

from tidings.actions.explain.gateway_steps import gateway_moments
from tidings.actions.explain.presence import absence, open_connections
from tidings.actions.explain.pushes import (
    FindPushes,
    WithoutDevice,
    push_moments,
    push_sentence,
)
from tidings.actions.inbox.broadcast_log import LogViews
from tidings.actions.inbox.posted import FindNotification, delivered_by
from tidings.actions.push.journal import notification_subject
from tidings.model import limits
from tidings.model.explaining import DeliveryVerdict, Explanation, Moment, in_order
from tidings.model.ids import tenant_of, user_id
from tidings.model.inbox_reading import is_for
from tidings.model.notifications import (
    EMAIL_DECIDED,
    NOTIFICATION,
    Broadcast,
    Copy,
    Notification,
)
from tidings.model.refusals import Invalid
from tidings.model.state_times import broadcast_read_at, copy_read_at
from tidings.ports.bus import DeadLetters
from tidings.ports.inboxes import Copies, InboxSettings, Notifications
from tidings.ports.journals import FoundJournals, JournalQuestion, Journals, PushRecord
from tidings.ports.people import User
from tidings.ports.world import Clock

INBOXES_MAX: Final = 200
"""How many inboxes are searched for a notification whose inbox is not named."""

_NEVER: Final = DeliveryVerdict(
    "never_accepted", "The server has not accepted such a notification, or has removed it."
)


class _Facts(msgspec.Struct, frozen=True, kw_only=True):
    posted: Notification | Broadcast
    profile: User
    is_retracted: bool
    copy: Copy | None
    read_at: int | None
    delivered: int
    is_dead_letter: bool
    now: int
    journals: FoundJournals = FoundJournals()
    pushes: tuple[PushRecord, ...] = ()

    @property
    def received_at(self) -> int | None:
        """When the notification reached the user's inbox; None if it did not."""
        if isinstance(self.posted, Notification):
            return None if self.copy is None else self.copy.received_at
        return self.posted.posted_at if is_for(self.posted, self.profile.created_at) else None

    @property
    def is_missed(self) -> bool:
        """Whether a user who could read the notification has not read it."""
        is_there = self.received_at is not None and self.profile.deactivated_at is None
        is_gone = self.is_retracted or self.posted.expires_at <= self.now
        return is_there and not is_gone and self.read_at is None


class ExplainNotification(msgspec.Struct, frozen=True):
    """Explain what became of a notification on its way to a user."""

    settings: InboxSettings
    find: FindNotification
    notifications: Notifications
    copies: Copies
    dead_letters: DeadLetters
    views: LogViews
    journals: Journals
    pushes: FindPushes
    clock: Clock

    async def __call__(self, notification_id: str, inbox: str | None, profile: User) -> Explanation:
        """Return the verdict and the timeline for a user of the tenant.

        Raises:
            Invalid: The id is malformed, several inboxes have such a notification, or the tenant
                has too many inboxes to search.
            InboxNotFound: There is no such inbox.
        """
        if NOTIFICATION.fullmatch(notification_id) is None:
            raise Invalid("notification_id: must be the id of a notification", "/notification_id")
        tenant = tenant_of(profile.user)
        if inbox is not None:
            await self.find.configs.get(tenant, inbox)
        names, are_all = ([inbox], True) if inbox is not None else await self._inboxes(tenant)
        read = [await self.find.stored(tenant, name, notification_id) for name in names]
        found = [one for one in read if one is not None]
        if len(found) > 1:
            raise Invalid("inbox: several inboxes have such a notification", "/inbox")
        if not found and not are_all:
            most = f"of the tenant's first {INBOXES_MAX} inboxes, none has such a notification"
            raise Invalid(f"inbox: must be given, because {most}", "/inbox")
        if not found:
            return Explanation(_NEVER)
        facts = await self._facts(found[0], profile)
        return Explanation(_judge(facts), in_order(_timeline(facts)))

    async def _inboxes(self, tenant: str) -> tuple[list[str], bool]:
        """Return the first inboxes of the tenant, and True if these are all."""
        page = await self.settings.configs(tenant, after=None, limit=INBOXES_MAX)
        return [name for name, _ in page.rows], page.end is None

    async def _facts(self, posted: Notification | Broadcast, profile: User) -> _Facts:
        tenant, inbox, user = posted.tenant, posted.inbox, profile.user
        name = posted.notification_id
        view = await self.views.get(tenant, inbox)
        state = await self.copies.read_state(user, inbox)
        copy, delivered, is_dead = None, 0, False
        if isinstance(posted, Broadcast):
            read_at = broadcast_read_at(posted, state)
        else:
            # No id sorts between an id and the same id with another character.
            copies = await self.copies.newest(user, inbox, before=f"{name}0", limit=1)
            copy = next((one for one in copies if one.notification_id == name), None)
            read_at = None if copy is None else copy_read_at(copy, state)
            finished = await self.notifications.finished_jobs(tenant, inbox, name)
            delivered = delivered_by(finished, posted.recipients)
            is_dead = await self._is_dead_letter(posted, profile)
        facts = _Facts(
            posted=posted,
            profile=profile,
            is_retracted=posted.box is None or view.is_retracted(name),
            copy=copy,
            read_at=read_at,
            delivered=delivered,
            is_dead_letter=is_dead,
            now=self.clock.now(),
        )
        return await self._with_journals(facts)

    async def _with_journals(self, facts: _Facts) -> _Facts:
        """Return the facts with what processes have in memory. If nothing is known about push
        notices, find out why none can be sent to a user who is not connected."""
        posted, user = facts.posted, facts.profile.user
        name = notification_subject(posted.inbox, posted.notification_id)
        question = JournalQuestion(user, notification=name)
        async with asyncio.TaskGroup() as group:
            finding = group.create_task(self.journals.find(question))
            asking = group.create_task(self.pushes.of_notification(question))
        journals, pushes = finding.result(), asking.result()
        if facts.is_missed and not pushes and not open_connections(journals):
            ways: tuple[WithoutDevice, ...] = () if isinstance(posted, Broadcast) else ("webhook",)
            pushes = await self.pushes.obstacle(user, ways)
        return msgspec.structs.replace(facts, journals=journals, pushes=pushes)

    async def _is_dead_letter(self, posted: Notification, profile: User) -> bool:
        """Return True if the delivery job for the user failed too often."""
        page = await self.dead_letters.page(after=posted.notification_id, limit=limits.PAGE_MAX)
        return any(
            letter.job.notification_id == posted.notification_id
            and user_id(profile.user) in letter.job.users
            for letter in page
        )


def _judge(facts: _Facts) -> DeliveryVerdict:
    """Return the first verdict that fits."""
    posted = facts.posted
    if facts.is_retracted:
        return DeliveryVerdict("retracted", "The notification was retracted.")
    if posted.expires_at <= facts.now:
        return DeliveryVerdict("expired", "The notification has expired.", posted.expires_at)
    if facts.received_at is None:
        return _not_received(facts)
    if facts.read_at is not None:
        return DeliveryVerdict("read", "The user has read the notification.", facts.read_at)
    if facts.copy is not None and facts.copy.escalated_at is not None:
        return _escalated(facts.copy.escalated_at)
    more = f" {push_sentence(facts.pushes)}"
    absent = absence(facts.profile, facts.journals, was_active=False, more=more)
    if absent is not None and absent.code != "offline":
        return absent
    if absent is not None and (absent.since or 0) < facts.received_at:
        return absent
    text = "The notification is in the user's inbox; the user has not read it."
    if facts.pushes:
        text += more
    return DeliveryVerdict("unread", text, facts.received_at)


def _escalated(claimed_at: int) -> DeliveryVerdict:
    if claimed_at == EMAIL_DECIDED:
        text = "The user has not read the notification, and it was escalated by e-mail."
        return DeliveryVerdict("escalated", text)
    text = "An e-mail about the notification is being sent, or its process was killed meanwhile."
    return DeliveryVerdict("escalated", text, claimed_at)


def _not_received(facts: _Facts) -> DeliveryVerdict:
    posted = facts.posted
    if isinstance(posted, Broadcast):
        text = "The notification was posted before the user was created."
        return DeliveryVerdict("not_addressed", text, facts.profile.created_at)
    if facts.is_dead_letter:
        text = "The delivery to this user failed too often; the operator can repeat it."
        return DeliveryVerdict("queued", text, posted.posted_at)
    if facts.delivered < posted.recipients:
        text = "The notification is still being delivered, and the user has no copy yet."
        return DeliveryVerdict("queued", text, posted.posted_at)
    text = "The notification was delivered to all its users, and this user is not one of them."
    return DeliveryVerdict("not_addressed", text, posted.posted_at)


def _timeline(facts: _Facts) -> Iterator[Moment]:
    posted = facts.posted
    where = f"inbox {posted.inbox}"
    yield Moment("posted", posted.posted_at, where)
    if facts.copy is not None:
        yield Moment("copied", facts.copy.received_at, where)
        yield from _email_moments(facts.copy, where)
    if facts.profile.deactivated_at is not None:
        yield Moment("deactivated", facts.profile.deactivated_at)
    for gateway in facts.journals.gateways:
        yield from gateway_moments(gateway, posted.posted_at)
    yield from push_moments(facts.pushes)
    if facts.read_at is not None:
        yield Moment("read", facts.read_at, where)
    if facts.is_retracted:
        yield Moment("retracted", None, where)
    if posted.expires_at <= facts.now:
        yield Moment("expired", posted.expires_at, where)


def _email_moments(copy: Copy, where: str) -> Iterator[Moment]:
    """Yield the claim of an e-mail, or that its outcome is known; its time is in the event."""
    if copy.escalated_at == EMAIL_DECIDED:
        yield Moment("escalated", None, where)
    elif copy.escalated_at is not None:
        yield Moment("email_claimed", copy.escalated_at, where)

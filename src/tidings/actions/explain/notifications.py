# SPDX-License-Identifier: Apache-2.0
"""Explain what became of a notification on its way to a user."""

import asyncio
from collections.abc import Iterator
from typing import Final

import msgspec

from tidings.actions.explain.gateway_steps import gateway_moments
from tidings.actions.explain.notification_rules import RULES, NotificationFacts
from tidings.actions.explain.presence import open_connections
from tidings.actions.explain.pushes import FindPushes, WithoutDevice, push_moments
from tidings.actions.inbox.broadcast_log import LogViews
from tidings.actions.inbox.counting import CountUnread
from tidings.actions.inbox.posted import FindNotification, delivered_by
from tidings.actions.push.journal import notification_subject
from tidings.model import limits
from tidings.model.explaining import DeliveryVerdict, Explanation, Moment, first_verdict, in_order
from tidings.model.ids import rfc3339, tenant_of, user_id
from tidings.model.inbox_reading import (
    InboxItem,
    from_broadcast,
    from_copy,
    is_collapsed,
    is_for,
)
from tidings.model.notifications import (
    EMAIL_DECIDED,
    NOTIFICATION,
    Broadcast,
    Copy,
    Notification,
    ReadState,
)
from tidings.model.preferences import is_on
from tidings.model.refusals import Invalid
from tidings.ports.bus import DeadLetters
from tidings.ports.inboxes import Copies, InboxSettings, Notifications
from tidings.ports.journals import JournalQuestion, Journals
from tidings.ports.people import User
from tidings.ports.world import Clock

INBOXES_MAX: Final = 200
"""How many inboxes are searched for a notification whose inbox is not named."""

_NEVER: Final = DeliveryVerdict(
    "never_accepted", "The server has not accepted such a notification, or has removed it."
)


class ExplainNotification(msgspec.Struct, frozen=True):
    """Explain what became of a notification on its way to a user."""

    settings: InboxSettings
    find: FindNotification
    notifications: Notifications
    copies: Copies
    dead_letters: DeadLetters
    views: LogViews
    counting: CountUnread
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
        return Explanation(first_verdict(RULES, facts), in_order(_timeline(facts)))

    async def _inboxes(self, tenant: str) -> tuple[list[str], bool]:
        """Return the first inboxes of the tenant, and True if these are all."""
        page = await self.settings.configs(tenant, after=None, limit=INBOXES_MAX)
        return [name for name, _ in page.rows], page.end is None

    async def _facts(self, found: Notification | Broadcast, profile: User) -> NotificationFacts:
        view = await self.views.get(found.tenant, found.inbox)
        state = await self.copies.read_state(profile.user, found.inbox)
        posted = found
        if isinstance(found, Notification) and found.everyone:
            # The note that a scheduled broadcast is in the log comes a moment after its entry.
            posted = view.broadcast(found.notification_id) or found
        copy, delivered, is_dead = None, 0, False
        if isinstance(posted, Notification) and not posted.everyone:
            copy, delivered = await self._copied(posted, profile)
            is_dead = await self._is_dead_letter(posted, profile)
        item = _item(posted, profile, copy, state)
        facts = NotificationFacts(
            posted=posted,
            profile=profile,
            is_retracted=posted.box is None or view.is_retracted(posted.notification_id),
            item=item,
            escalated_at=None if copy is None else copy.escalated_at,
            is_wanted=await self._is_wanted(posted, state),
            is_collapsed=item is not None and await self._is_collapsed(item, posted, profile),
            delivered=delivered,
            is_dead_letter=is_dead,
            now=self.clock.now(),
        )
        return await self._with_journals(facts)

    async def _copied(self, posted: Notification, profile: User) -> tuple[Copy | None, int]:
        """Return the user's copy, and to how many users the notification was delivered."""
        inbox, name = posted.inbox, posted.notification_id
        # No id sorts between an id and the same id with another character.
        copies = await self.copies.newest(profile.user, inbox, before=f"{name}0", limit=1)
        copy = next((one for one in copies if one.notification_id == name), None)
        finished = await self.notifications.finished_jobs(posted.tenant, inbox, name)
        return copy, delivered_by(finished, posted.recipients)

    async def _is_wanted(self, posted: Notification | Broadcast, state: ReadState) -> bool:
        """Return True if the user's preferences now let the category into the inbox."""
        if posted.category is None:
            return True
        config = await self.find.configs.get(posted.tenant, posted.inbox)
        return is_on("in_app", posted.category, config.category_rules, state.preferences)

    async def _is_collapsed(
        self, item: InboxItem, posted: Notification | Broadcast, profile: User
    ) -> bool:
        """Return True if lists show a newer notification with the same collapse key instead."""
        if item.collapse is None:
            return False
        look = await self.counting.look(profile.user, posted.inbox)
        return is_collapsed(item, look.view, look.copies, look.broadcasts, look.now)

    async def _with_journals(self, facts: NotificationFacts) -> NotificationFacts:
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


def _item(
    posted: Notification | Broadcast, profile: User, copy: Copy | None, state: ReadState
) -> InboxItem | None:
    """Return the notification in the user's inbox; None if it did not get there."""
    if copy is not None:
        return from_copy(copy, state)
    if isinstance(posted, Broadcast) and is_for(posted, profile.created_at):
        return from_broadcast(posted, state)
    return None


def _timeline(facts: NotificationFacts) -> Iterator[Moment]:
    """Yield what is known, in the order of cause and effect."""
    posted = facts.posted
    where = f"inbox {posted.inbox}"
    is_later = posted.posted_at > facts.now
    if not is_later:
        yield Moment("due" if _was_scheduled(posted) else "posted", posted.posted_at, where)
    yield from _copy_moments(facts, where)
    if facts.profile.deactivated_at is not None:
        yield Moment("deactivated", facts.profile.deactivated_at)
    for gateway in facts.journals.gateways:
        yield from gateway_moments(gateway, posted.posted_at)
    yield from push_moments(facts.pushes)
    yield from _state_moments(facts, where)
    if facts.is_retracted:
        yield Moment("retracted", None, where)
    if posted.expires_at <= facts.now:
        yield Moment("expired", posted.expires_at, where)
    if is_later:
        yield Moment("due", posted.posted_at, where)


def _was_scheduled(posted: Notification | Broadcast) -> bool:
    """Return True if the notification shows that it had a time of delivery. One that was delivered
    then does not: it has this time as the time of its post."""
    return isinstance(posted, Notification) and (
        posted.everyone or posted.restored or posted.failed
    )


def _copy_moments(facts: NotificationFacts, where: str) -> Iterator[Moment]:
    """Yield when the copy was made, and the claim of an e-mail, or that its outcome is known; its
    time is in the event."""
    if isinstance(facts.posted, Notification) and facts.item is not None:
        yield Moment("copied", facts.item.received_at, where)
    if facts.escalated_at == EMAIL_DECIDED:
        yield Moment("escalated", None, where)
    elif facts.escalated_at is not None:
        yield Moment("email_claimed", facts.escalated_at, where)


def _state_moments(facts: NotificationFacts, where: str) -> Iterator[Moment]:
    """Yield what the user did with the notification, and what hides it."""
    item = facts.item
    if facts.is_left_out:
        name = user_id(facts.profile.user)
        yield Moment("unwanted", None, f"preferences of user {name}, {where}")
    if item is None:
        return
    if item.read_at is not None:
        yield Moment("read", item.read_at, where)
    if item.archived_at is not None:
        yield Moment("archived", item.archived_at, where)
    if item.snoozed_until is not None and item.is_snoozed(facts.now):
        yield Moment("snoozed", None, f"{where}, until {rfc3339(item.snoozed_until)}")
    if facts.is_collapsed:
        yield Moment("collapsed", None, where)

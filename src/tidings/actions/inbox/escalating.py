# SPDX-License-Identifier: Apache-2.0
"""Escalate notifications: when a portion of users is due, find out who gets an e-mail."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from tidings.actions.inbox.emailing import ATTEMPTS_MAX, Recipient, SendEmails
from tidings.actions.inbox.preferences import Reachable
from tidings.actions.inbox.settings import InboxConfigs
from tidings.actions.inbox.showing import NotificationReader
from tidings.metrics import declared
from tidings.model.emails import EMAIL
from tidings.model.escalations import MINUTE_MS, Escalation
from tidings.model.ids import UserKey, user_id
from tidings.model.notifications import EMAIL_DECIDED, Copy, InboxConfig
from tidings.model.refusals import InboxNotFound
from tidings.model.scheduled import SETTLE_MS
from tidings.ports.due import Due
from tidings.ports.escalations import Escalations, portion_of
from tidings.ports.inboxes import Notifications
from tidings.ports.people import Tenants, User, UserStore
from tidings.ports.tenant_jobs import NotYet
from tidings.ports.world import Clock

RETRY_MS_MAX: Final = 60 * MINUTE_MS
SUSPENDED_MS: Final = 60 * MINUTE_MS
"""How often a portion of a suspended tenant is looked at again."""
CLAIM_MS: Final = 3 * MINUTE_MS
"""After this time nobody sends a claimed e-mail any more: a mail server has half a minute for each
of four answers."""


class Escalate(msgspec.Struct, frozen=True):
    """Sends the e-mails of a portion of users that is due. Users who are not decided yet, because
    of their quiet hours or of the mail server, become a portion that is due later.

    A repeat has no further effect, because each e-mail is claimed before it is sent.
    """

    configs: InboxConfigs
    tenants: Tenants
    users: UserStore
    notifications: Notifications
    escalations: Escalations
    reachable: Reachable
    showing: NotificationReader
    send: SendEmails
    clock: Clock

    async def do(self, due: Due) -> bool:
        """Escalate the notification to those who have not read it.

        Raises:
            NotYet: The notification may be one that is still being stored.
            Unavailable: It must be tried again later.
        """
        portion = await self.escalations.get(due.tenant, due.subject, *portion_of(due))
        owner = None if portion is None else await self.tenants.get(due.tenant)
        config = None if portion is None or owner is None else await self._config(portion)
        if portion is None or owner is None or config is None:
            if self.clock.now() < due.made_at + SETTLE_MS:
                raise NotYet(due.made_at + SETTLE_MS)
            if portion is not None:
                await self.escalations.drop(portion)
        elif portion.at > due.at:
            pass  # it has got a later time since, and another item
        elif owner.suspended_at is not None:
            # Nobody gets an e-mail now, but the tenant may be active again before it expires.
            at = self.clock.now() + SUSPENDED_MS
            await self._keep(portion, msgspec.structs.replace(portion, at=at))
        else:
            left = await self._escalate(portion, config)
            if left is None:
                await self.escalations.drop(portion)
            else:
                later = msgspec.structs.replace(left, at=max(left.at, due.at + 1))
                await self._keep(portion, later)
        return False

    async def give_up(self, due: Due) -> None:
        """Remove the portion, because it failed unexpectedly several times, and count its users."""
        portion = await self.escalations.get(due.tenant, due.subject, *portion_of(due))
        if portion is not None:
            declared.emails.counts["failed"] += len(portion.users)
            await self.escalations.drop(portion)

    def stop(self) -> None:
        """Begin no further e-mail, because the process ends. Users who are left become a portion
        that is due at once, for another process or after the next start."""
        self.send.stop()

    async def _keep(self, portion: Escalation, left: Escalation) -> None:
        """Store the users of a portion for whom nothing is decided yet. If another process has
        worked on the same portion meanwhile, also keep the users that it could not decide."""
        name, number = portion.notification_id, portion.number
        found: Escalation | None = portion
        while found is not None:
            if await self.escalations.replace(found, left, self.clock.now()):
                return
            found = await self.escalations.get(portion.tenant, portion.inbox, name, number)
            left = left if found is None else _united(found, left)
        await self.escalations.put([left], self.clock.now())

    async def _config(self, portion: Escalation) -> InboxConfig | None:
        """Return the settings of the inbox; None if nobody is to see the notification."""
        tenant, inbox, name = portion.tenant, portion.inbox, portion.notification_id
        if await self.showing.copy_text(tenant, inbox, name) is None:
            return None
        try:
            return await self.configs.get(tenant, inbox)
        except InboxNotFound:
            return None

    async def _escalate(self, portion: Escalation, config: InboxConfig) -> Escalation | None:
        """Send what is to be sent now; return the portion of users who are left."""
        place = portion.tenant, portion.inbox, portion.notification_id
        now = self.clock.now()
        if portion.number not in await self.notifications.finished_jobs(*place):
            # Delivery is late. The users cannot have read what they do not have.
            return _tried_again(portion, portion.users, now)
        copies = await self.escalations.copies(portion.keys, *place[1:])
        # Most users have read it by now, and cost nothing more.
        unread = [user for user, copy in copies.items() if _may_be_open(copy)]
        profiles = await self.users.get_all(unread)
        reached = [user for user in unread if _has_address(profiles.get(user))]
        times = await self.reachable.times("email", reached, portion.inbox, portion.category, now)
        times = {user: max(at, _undecided_until(copies[user])) for user, at in times.items()}
        ready = [user for user in times if times[user] <= now]
        unsent = await self.send(portion, config, _recipients(ready, copies, profiles))
        again = [user_id(one.user) for one in unsent.recipients]
        waiting = {user_id(user): at for user, at in times.items() if at > now}
        now = self.clock.now()
        left = msgspec.structs.replace(portion, users=tuple(again), at=now)
        if unsent.is_trouble:
            left = _tried_again(portion, again, now) or msgspec.structs.replace(left, users=())
        return _joined(left, waiting)


def _may_be_open(copy: Copy) -> bool:
    """Return True if the copy itself does not say that it is read or archived, or if an e-mail was
    claimed whose outcome is not known."""
    if copy.escalated_at is not None:
        return copy.escalated_at != EMAIL_DECIDED
    return copy.read_at is None and copy.archived_at is None


def _undecided_until(copy: Copy) -> int:
    """Return until when another process may be sending an e-mail about the copy."""
    return 0 if copy.escalated_at is None else copy.escalated_at + CLAIM_MS


def _has_address(user: User | None) -> bool:
    if user is None or user.deactivated_at is not None or user.email is None:
        return False
    # Addresses that are stored since before they were checked strictly are checked here.
    return EMAIL.fullmatch(user.email) is not None


def _recipients(
    users: Sequence[UserKey], copies: Mapping[UserKey, Copy], profiles: Mapping[UserKey, User]
) -> list[Recipient]:
    return [Recipient(user, profiles[user].email or "", copies[user]) for user in users]


def _tried_again(portion: Escalation, users: Sequence[str], now: int) -> Escalation | None:
    """Return the portion of users for whom another attempt is made later; None after too many."""
    if portion.attempt > ATTEMPTS_MAX:
        return None
    wait_ms = min(MINUTE_MS * 2**portion.attempt, RETRY_MS_MAX)
    return msgspec.structs.replace(
        portion, users=tuple(users), at=now + wait_ms, attempt=portion.attempt + 1
    )


def _joined(left: Escalation, waiting: Mapping[str, int]) -> Escalation | None:
    """Return one portion of all users who are left, due when the first of them is."""
    times = [*waiting.values(), *([left.at] if left.users else [])]
    if not times:
        return None
    return msgspec.structs.replace(left, users=(*left.users, *waiting), at=min(times))


def _united(one: Escalation, other: Escalation) -> Escalation:
    """Return the portion of the users of two portions, due when the first of them is."""
    users = tuple(dict.fromkeys((*one.users, *other.users)))
    at, attempt = min(one.at, other.at), max(one.attempt, other.attempt)
    return msgspec.structs.replace(one, users=users, at=at, attempt=attempt)

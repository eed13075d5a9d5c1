# SPDX-License-Identifier: Apache-2.0
"""The rules that decide what became of a notification on its way to a user.

Each rule looks at the same facts, and returns a verdict or None. The first rule that returns a
verdict decides. To add a verdict, add its code to `model/explaining.py`, and its rule to `RULES`.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from tidings.actions.explain.presence import absence
from tidings.actions.explain.pushes import push_sentence
from tidings.model.explaining import DeliveryVerdict, Rule
from tidings.model.ids import rfc3339
from tidings.model.inbox_reading import InboxItem
from tidings.model.notifications import EMAIL_DECIDED, Broadcast, Notification
from tidings.ports.journals import FoundJournals, PushRecord
from tidings.ports.people import User


class NotificationFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is known about one notification and one user of its tenant."""

    posted: Notification | Broadcast
    profile: User
    is_retracted: bool
    item: InboxItem | None
    """The notification in the user's inbox; None if it did not get there."""
    escalated_at: int | None
    """The mark of an e-mail in the user's copy."""
    is_wanted: bool
    """Whether the user's preferences, as they are now, let its category into the inbox."""
    is_collapsed: bool
    """Whether lists show a newer notification with the same collapse key instead."""
    delivered: int
    """For how many of its listed users the notification was delivered."""
    is_dead_letter: bool
    now: int
    journals: FoundJournals = FoundJournals()
    pushes: tuple[PushRecord, ...] = ()

    @property
    def waiting(self) -> Notification | None:
        """The notification, if not all of its users have got it, and this user has not."""
        posted = self.posted
        if isinstance(posted, Broadcast) or self.item is not None:
            return None
        return posted if posted.everyone or self.delivered < posted.recipients else None

    @property
    def is_left_out(self) -> bool:
        """Whether the preferences hide the broadcast, or may be why there is no copy."""
        if self.is_wanted:
            return False
        # Copies remain in the inbox, whatever the preferences say afterwards.
        return isinstance(self.posted, Broadcast) == (self.item is not None)

    @property
    def is_snoozed(self) -> bool:
        """Whether the user does not want to see the notification yet."""
        return self.item is not None and self.item.is_snoozed(self.now)

    @property
    def is_missed(self) -> bool:
        """Whether lists show the notification to the user, who has not read it."""
        if self.item is None or self.profile.deactivated_at is not None:
            return False
        is_gone = self.is_retracted or self.posted.expires_at <= self.now
        is_hidden = self.is_left_out or self.is_collapsed or self.is_snoozed
        is_done = self.item.read_at is not None or self.item.archived_at is not None
        return not (is_gone or is_hidden or is_done)


def _retracted(facts: NotificationFacts) -> DeliveryVerdict | None:
    if not facts.is_retracted:
        return None
    return DeliveryVerdict("retracted", "The notification was retracted.")


def _expired(facts: NotificationFacts) -> DeliveryVerdict | None:
    if facts.posted.expires_at > facts.now:
        return None
    text = "The notification has expired."
    return DeliveryVerdict("expired", text, facts.posted.expires_at)


def _given_up(facts: NotificationFacts) -> DeliveryVerdict | None:
    waiting = facts.waiting
    if waiting is not None and waiting.restored:
        text = "The notification was due before its backup was restored, so it is not delivered."
        return DeliveryVerdict("restored", text)
    if waiting is not None and waiting.failed:
        text = "The delivery failed so often that it was given up, and the user has no copy."
        return DeliveryVerdict("failed", text)
    return None


def _scheduled(facts: NotificationFacts) -> DeliveryVerdict | None:
    waiting = facts.waiting
    if waiting is None or waiting.posted_at <= facts.now:
        return None
    text = f"The notification is scheduled for {rfc3339(waiting.posted_at)}. Nobody has it before."
    return DeliveryVerdict("scheduled", text)


def _dead_letter(facts: NotificationFacts) -> DeliveryVerdict | None:
    if facts.item is not None or not facts.is_dead_letter:
        return None
    text = "The delivery to this user failed too often; the operator can repeat it."
    return DeliveryVerdict("queued", text, facts.posted.posted_at)


def _due(facts: NotificationFacts) -> DeliveryVerdict | None:
    if facts.waiting is None or not facts.waiting.everyone:
        return None
    text = "The notification is due, and is about to be posted to everyone."
    return DeliveryVerdict("queued", text, facts.waiting.posted_at)


def _unwanted(facts: NotificationFacts) -> DeliveryVerdict | None:
    if not facts.is_left_out:
        return None
    text = "The user's preferences, as they are now, leave this category out of the inbox"
    if facts.item is not None:
        return DeliveryVerdict("unwanted", f"{text}, so the notification is hidden.")
    more = "and the user has no copy. Whether the notification was posted to this user is not kept."
    return DeliveryVerdict("unwanted", f"{text}, {more}")


def _queued(facts: NotificationFacts) -> DeliveryVerdict | None:
    if facts.waiting is None:
        return None
    text = "The notification was not delivered to all its users yet, and this user has no copy."
    return DeliveryVerdict("queued", text, facts.waiting.posted_at)


def _not_addressed(facts: NotificationFacts) -> DeliveryVerdict | None:
    posted = facts.posted
    if facts.item is not None:
        return None
    if isinstance(posted, Broadcast):
        text = "The notification was posted before the user was created."
        return DeliveryVerdict("not_addressed", text, facts.profile.created_at)
    text = "The notification was delivered to all its users, and this user "
    if posted.category is None:
        text += "is not one of them."
        return DeliveryVerdict("not_addressed", text, posted.posted_at)
    # Preferences leave out notifications with a category only, and earlier ones are not kept.
    text += "has no copy: it was not posted to this user, or preferences left out its category at "
    return DeliveryVerdict("unknown", text + "that time. Which of the two is not kept.")


def _read(facts: NotificationFacts) -> DeliveryVerdict | None:
    if facts.item is None or facts.item.read_at is None:
        return None
    return DeliveryVerdict("read", "The user has read the notification.", facts.item.read_at)


def _collapsed(facts: NotificationFacts) -> DeliveryVerdict | None:
    if not facts.is_collapsed:
        return None
    text = "Lists show a newer notification with the same collapse key instead."
    return DeliveryVerdict("collapsed", text)


def _archived(facts: NotificationFacts) -> DeliveryVerdict | None:
    if facts.item is None or facts.item.archived_at is None:
        return None
    text = "The user has archived the notification without reading it."
    return DeliveryVerdict("archived", text, facts.item.archived_at)


def _snoozed(facts: NotificationFacts) -> DeliveryVerdict | None:
    if facts.item is None or facts.item.snoozed_until is None or not facts.is_snoozed:
        return None
    until = rfc3339(facts.item.snoozed_until)
    text = f"The user has snoozed the notification until {until}, and not read it."
    return DeliveryVerdict("snoozed", text)


def _escalated(facts: NotificationFacts) -> DeliveryVerdict | None:
    claimed_at = facts.escalated_at
    if claimed_at is None:
        return None
    if claimed_at == EMAIL_DECIDED:
        text = "The user has not read the notification, and it was escalated by e-mail."
        return DeliveryVerdict("escalated", text)
    text = "An e-mail about the notification is being sent, or its process was killed meanwhile."
    return DeliveryVerdict("escalated", text, claimed_at)


def _absent(facts: NotificationFacts) -> DeliveryVerdict | None:
    more = f" {push_sentence(facts.pushes)}"
    absent = absence(facts.profile, facts.journals, was_active=False, more=more)
    if absent is None or absent.code != "offline" or facts.item is None:
        return absent
    # Who was there later could read it.
    return absent if (absent.since or 0) < facts.item.received_at else None


def _unread(facts: NotificationFacts) -> DeliveryVerdict | None:
    assert facts.item is not None, "the rules before this one judge what is not in the inbox"
    text = "The notification is in the user's inbox; the user has not read it."
    if facts.pushes:
        text += f" {push_sentence(facts.pushes)}"
    return DeliveryVerdict("unread", text, facts.item.received_at)


RULES: Final[Sequence[Rule[NotificationFacts]]] = (
    _retracted,
    _expired,
    _given_up,
    _scheduled,
    _dead_letter,
    _due,
    _unwanted,
    _queued,
    _not_addressed,
    _read,
    _collapsed,
    _archived,
    _snoozed,
    _escalated,
    _absent,
    _unread,
)
"""The rules in the order in which they are asked; the last one always has a verdict."""

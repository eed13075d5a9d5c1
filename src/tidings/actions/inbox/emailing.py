# SPDX-License-Identifier: Apache-2.0
"""Send e-mails about a notification to users who have not read it, each at most once."""

import logging
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Final, Literal

import msgspec

from tidings.actions.inbox.composing import ComposeEmail
from tidings.actions.inbox.showing import NotificationReader
from tidings.metrics import declared
from tidings.model.emails import Email, EmailOutcome
from tidings.model.escalations import Escalation, is_open
from tidings.model.ids import UserKey, rfc3339, user_id
from tidings.model.limits import SECOND_MS, USER_COPIES_MAX
from tidings.model.notifications import Copy, InboxConfig
from tidings.model.refusals import Unavailable
from tidings.ports.email import MailConnection, Mailer, MailUnavailable
from tidings.ports.escalations import Escalations
from tidings.ports.inboxes import Copies
from tidings.ports.webhooks import RaiseEvent
from tidings.ports.world import Clock

log = logging.getLogger("tidings.email")

ATTEMPTS_MAX: Final = 12
"""After this many attempts, over about seven hours, e-mails are given up."""
TURN_MS: Final = 30 * SECOND_MS
"""After this time, what is left of a portion waits, so that other tenants have their turn."""
Result = EmailOutcome | Literal["failed", "off"]


class Recipient(msgspec.Struct, frozen=True):
    """A user who may get an e-mail now."""

    user: UserKey
    address: str
    copy: Copy


class UnsentEmails(msgspec.Struct, frozen=True):
    """The recipients of a portion who are not decided yet."""

    recipients: Sequence[Recipient] = ()
    is_trouble: bool = False
    """True if the mail server was the reason, False if the time for the portion was over."""


class SendEmails:
    """Sends the e-mails of a portion of users, one after the other.

    The claim of an e-mail is stored before it is sent. If the process dies between the two, the
    e-mail is lost, and the tenant learns that its outcome is unknown. The claim is released only if
    the mail server says that it did not take the e-mail.
    """

    def __init__(
        self,
        *,
        escalations: Escalations,
        copies: Copies,
        showing: NotificationReader,
        compose: ComposeEmail,
        mailer: Mailer | None,
        raise_event: RaiseEvent,
        clock: Clock,
    ) -> None:
        self._escalations = escalations
        self._copies = copies
        self._showing = showing
        self._compose = compose
        self._mailer = mailer
        self._raise = raise_event
        self._clock = clock
        self._is_down = False
        self._is_stopping = False

    def stop(self) -> None:
        """Begin no further e-mail, because the process ends."""
        self._is_stopping = True

    async def __call__(
        self, portion: Escalation, config: InboxConfig, recipients: Sequence[Recipient]
    ) -> UnsentEmails:
        """Send an e-mail to each recipient who has not read the notification by now; return those
        who are left for later.

        Raises:
            Unavailable: The store does not answer. A repeat sends nothing twice.
        """
        if not recipients:
            return UnsentEmails()
        ends_at = self._clock.now() + TURN_MS
        again: list[Recipient] = []
        left = list(recipients)
        try:
            async with self._connected(portion) as connection:
                while left and self._clock.now() < ends_at and not self._is_stopping:
                    if not await self._one_or_later(portion, config, left[0], connection):
                        again.append(left[0])
                    del left[0]
        except MailUnavailable as error:
            self._note_down(str(error))
            return UnsentEmails([*again, *left], is_trouble=True)
        return UnsentEmails([*again, *left], is_trouble=bool(again))

    def _connected(self, portion: Escalation) -> AbstractAsyncContextManager[MailConnection | None]:
        """Return a connection to the mail server; without a mail server, or after too many
        attempts, a context whose value is None."""
        if self._mailer is None or portion.attempt >= ATTEMPTS_MAX:
            return nullcontext()
        return self._mailer.connect()

    async def _one_or_later(
        self,
        portion: Escalation,
        config: InboxConfig,
        to: Recipient,
        connection: MailConnection | None,
    ) -> bool:
        """Send one e-mail like `_one`. After an unexpected error, the others get theirs, and this
        user is tried again a limited number of times."""
        try:
            return await self._one(portion, config, to, connection)
        except (Unavailable, MailUnavailable):
            raise
        except Exception:
            extra = {"action": "email_error", "tenant": portion.tenant}
            log.exception("an e-mail failed unexpectedly", extra=extra)
            is_last = portion.attempt >= ATTEMPTS_MAX
            declared.emails.counts["failed" if is_last else "later"] += 1
            return is_last

    async def _one(
        self,
        portion: Escalation,
        config: InboxConfig,
        to: Recipient,
        connection: MailConnection | None,
    ) -> bool:
        """Send one e-mail, if it is to be sent; return False if it must be tried again."""
        inbox, name, now = portion.inbox, portion.notification_id, self._clock.now()
        if to.copy.escalated_at is not None:
            # An earlier attempt claimed it and did not finish. Nobody knows whether it was sent.
            await self._finish(portion, to.user, to.copy.escalated_at, "unknown")
            return True
        if not await self._is_unread(to, inbox, now):
            return True
        shown = await self._showing.copy_text(portion.tenant, inbox, name)
        if shown is None or not await self._escalations.claim(to.user, inbox, name, now):
            return True
        email = self._compose(to.user, to.address, inbox, config, shown)
        outcome = await self._send(portion, to.user, email, connection, now)
        if outcome == "later":
            declared.emails.counts[outcome] += 1
            await self._escalations.release(to.user, inbox, name, now)
            return False
        await self._finish(portion, to.user, now, outcome)
        return True

    async def _send(
        self,
        portion: Escalation,
        user: UserKey,
        email: Email,
        connection: MailConnection | None,
        claimed_at: int,
    ) -> Result:
        if connection is None:
            return "off" if self._mailer is None else "failed"
        try:
            outcome = await connection.send(email)
        except MailUnavailable:
            await self._escalations.release(
                user, portion.inbox, portion.notification_id, claimed_at
            )
            raise
        if self._is_down:
            self._is_down = False
            log.warning("the mail server works again", extra={"action": "email_up"})
        return outcome

    async def _finish(
        self, portion: Escalation, user: UserKey, claimed_at: int, result: Result
    ) -> None:
        declared.emails.counts[result] += 1
        if result in ("refused", "failed", "unknown"):
            extra = {"action": "email_refused", "tenant": portion.tenant, "outcome": result}
            log.warning("an e-mail was not sent, as far as we know", extra=extra)
        data = {
            "inbox": portion.inbox,
            "notification_id": portion.notification_id,
            "user_id": user_id(user),
            "escalated_at": rfc3339(claimed_at),
            "email": result,
        }
        await self._raise(portion.tenant, "notification.escalated", data)
        # A repeat after a crash, or another process, must not raise the event again.
        await self._escalations.finish(user, portion.inbox, portion.notification_id, claimed_at)

    async def _is_unread(self, to: Recipient, inbox: str, now: int) -> bool:
        state = await self._copies.read_state(to.user, inbox)
        if not is_open(to.copy, state, now):
            return False
        if to.copy.collapse is None:
            return True
        # Lists show only the newest of its key, which has an escalation of its own.
        newer = await self._copies.newest(to.user, inbox, before=None, limit=USER_COPIES_MAX)
        same = (copy for copy in newer if copy.collapse == to.copy.collapse)
        return max(copy.notification_id for copy in same) == to.copy.notification_id

    def _note_down(self, reason: str) -> None:
        declared.emails.counts["later"] += 1
        if not self._is_down:
            self._is_down = True
            extra = {"action": "email_down", "reason": reason}
            log.warning("the mail server does not work: %s", reason, extra=extra)

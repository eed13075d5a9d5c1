# SPDX-License-Identifier: Apache-2.0
"""Post a notification to listed users through a queue, or as a broadcast with one write."""

from typing import Final, Literal

import msgspec

from tidings.actions.content.vault import Vault
from tidings.actions.inbox.audience import distinct_users
from tidings.actions.inbox.broadcast_log import BroadcastAppender, LogViews
from tidings.actions.inbox.message_schemas import MessageSchemas
from tidings.actions.inbox.settings import InboxConfigs, Settings
from tidings.actions.inbox.showing import NotificationTexts
from tidings.model import limits
from tidings.model.ids import ulid
from tidings.model.notifications import Broadcast, Notification, Posting, Text, check_posting
from tidings.model.refusals import Invalid, QueueUnavailable, RequestConflict, StoreUnavailable
from tidings.model.scheduled import SETTLE_MS, schedule_end
from tidings.ports.bus import BroadcastPosted, Bus, Job, Jobs, JobsUnavailable
from tidings.ports.due import DueItems
from tidings.ports.escalations import Escalations, escalations_for
from tidings.ports.inboxes import Notifications, PostKey
from tidings.ports.people import UserStore
from tidings.ports.scheduled_notifications import ScheduledNotifications, due_of_notification
from tidings.ports.world import Chance, Clock, new_ulid

FRAME_REPEATED_MS: Final = 60 * limits.SECOND_MS
"""How long after a broadcast a repeated request sends its frame to the devices again."""
COLLAPSE_BYTES: Final = 8
"""Length of the digest of a collapse key: enough to tell the keys in one inbox apart."""


class Posted(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a request to post."""

    notification_id: str
    recipients: int
    estimated: bool
    status: Literal["queued", "done", "scheduled"]
    is_replay: bool


class _Request(msgspec.Struct, frozen=True, kw_only=True):
    """A checked request to post, with its idempotency key."""

    tenant: str
    inbox: str
    category: str | None
    text: Text
    kept_ms: int
    expires_at: int | None
    """Time at which the notification expires, if the tenant set it in the post."""
    late_joiners: bool
    collapse: str | None
    key: str | None
    digest: bytes
    email_after_minutes: int | None

    def expiry(self, posted_at: int) -> int:
        """Return when the notification expires if it is posted at this time."""
        kept_until = posted_at + self.kept_ms
        return kept_until if self.expires_at is None else min(kept_until, self.expires_at)


class PostNotification(msgspec.Struct, frozen=True):
    """Post a notification. Every step is repeatable, so a retry completes a failed request."""

    configs: InboxConfigs
    settings: Settings
    schemas: MessageSchemas
    notifications: Notifications
    jobs: Jobs
    scheduled: ScheduledNotifications
    due: DueItems
    escalations: Escalations
    users: UserStore
    texts: NotificationTexts
    views: LogViews
    append_broadcast: BroadcastAppender
    vault: Vault
    bus: Bus
    clock: Clock
    chance: Chance

    async def __call__(self, tenant: str, inbox: str, posting: Posting, key: str | None) -> Posted:
        """Post the notification, but only once per idempotency key.

        A request that is repeated with the same key within a day gets the answer of the first.

        Raises:
            InboxNotFound: There is no such inbox.
            Invalid, TooLarge, SchemaVersionConflict: The inbox does not accept the posting.
            RequestConflict: The idempotency key was used for another request.
            StoreUnavailable, QueueUnavailable, InboxBusy: The outcome is unknown.
        """
        config = await self.configs.get(tenant, inbox)
        text = check_posting(posting, config)
        await self.schemas.check(posting.message, config.message_schema)
        users = None if posting.users is None else await distinct_users(posting.users)
        kept_ms, late_joiners = await self.settings.terms(tenant, config)
        request = _Request(
            tenant=tenant,
            inbox=inbox,
            category=posting.category,
            text=text,
            kept_ms=kept_ms,
            expires_at=self._expires_at(posting),
            late_joiners=late_joiners,
            collapse=self._collapse_digest(tenant, inbox, posting.options.collapse_key),
            key=None if key is None else self._key_digest(tenant, inbox, key),
            digest=self._digest(posting, users),
            email_after_minutes=posting.options.email_after_minutes,
        )
        if (deliver_at := posting.options.deliver_at) is not None:
            return await self._schedule(request, users, deliver_at)
        if users is None:
            return await self._post_broadcast(request)
        return await self._post_to_users(request, users)

    # --- To listed users ------------------------------------------------------------------

    async def _post_to_users(self, request: _Request, users: list[str]) -> Posted:
        own_id = new_ulid(self.clock, self.chance)
        claim = await self._claim(request, own_id, 0)
        assert claim.notification_id is not None, (
            "the digest depends on the audience, so the first request listed users, too"
        )
        is_replay = claim.notification_id != own_id
        notification = await self._find(request, claim.notification_id) if is_replay else None
        if notification is None:
            notification = await self._store(request, claim, claim.notification_id, users)
        if not notification.is_retracted:
            await self._queue(notification, users, is_replay)
        return Posted(
            notification_id=notification.notification_id,
            recipients=len(users),
            estimated=False,
            status="queued",
            is_replay=is_replay,
        )

    async def _find(self, request: _Request, notification_id: str) -> Notification | None:
        found = await self.notifications.get(request.tenant, request.inbox, [notification_id])
        return found[0] if found else None

    async def _store(
        self, request: _Request, claim: PostKey, notification_id: str, users: list[str]
    ) -> Notification:
        sealed = await self.texts.seal(request.tenant, request.inbox, notification_id, request.text)
        notification = Notification(
            tenant=request.tenant,
            inbox=request.inbox,
            notification_id=notification_id,
            category=request.category,
            posted_at=claim.claimed_at,
            expires_at=request.expiry(claim.claimed_at),
            recipients=len(users),
            box=sealed.box,
            box_key=sealed.box_key,
            collapse=request.collapse,
        )
        await self._plan_emails(request, jobs_for(notification, users))
        await self.notifications.put(notification)
        return notification

    async def _plan_emails(self, request: _Request, jobs: list[Job]) -> None:
        """Store who gets an e-mail later, if the post asks for it."""
        if request.email_after_minutes is not None:
            portions = escalations_for(jobs, request.email_after_minutes)
            await self.escalations.put(portions, self.clock.now())

    # --- Later ----------------------------------------------------------------------------

    async def _schedule(
        self, request: _Request, users: list[str] | None, deliver_at: int
    ) -> Posted:
        """Store the notification, and everything that is needed at the time of delivery."""
        now = self.clock.now()
        is_late = deliver_at <= now
        if request.key is None or not is_late:
            # After that time, a repeat may still ask for the answer of the first request.
            check_delivery(deliver_at, now)
        own_id = ulid(deliver_at, self.chance.token(10))
        # A first request that comes too late is refused, and leaves its key to another one.
        claim = await self._claim(
            request, own_id, 0, valid_ms=0 if is_late else limits.REQUEST_KEY_MS
        )
        assert claim.notification_id is not None, "the digest depends on the time of delivery"
        is_replay = claim.notification_id != own_id
        notification = await self._find(request, claim.notification_id) if is_replay else None
        if notification is None:
            check_delivery(deliver_at, now)
            notification = await self._late(request, claim.notification_id, users, deliver_at)
            await self._store_late(request, notification, users or [])
        return Posted(
            notification_id=notification.notification_id,
            recipients=notification.recipients,
            estimated=users is None,
            status="scheduled",
            is_replay=is_replay,
        )

    async def _late(
        self, request: _Request, name: str, users: list[str] | None, deliver_at: int
    ) -> Notification:
        sealed = await self.texts.seal(request.tenant, request.inbox, name, request.text)
        everyone = users is None
        about = await self.users.about_how_many(request.tenant) if everyone else 0
        return Notification(
            tenant=request.tenant,
            inbox=request.inbox,
            notification_id=name,
            category=request.category,
            posted_at=deliver_at,
            expires_at=request.expiry(deliver_at),
            recipients=about if users is None else len(users),
            box=sealed.box,
            box_key=sealed.box_key,
            everyone=everyone,
            collapse=request.collapse,
        )

    async def _store_late(
        self, request: _Request, notification: Notification, users: list[str]
    ) -> None:
        """Store the notification last: once it is stored, nothing is missing."""
        now = self.clock.now()
        await self.due.put(due_of_notification(notification, now), now)
        jobs = jobs_for(notification, users)
        await self.scheduled.hold(jobs)
        await self._plan_emails(request, jobs)
        if self.clock.now() > now + SETTLE_MS // 2:
            # The timer removes jobs without a notification when this time is over.
            raise StoreUnavailable("the store is too slow to schedule a notification")
        await self.notifications.put(notification)

    async def _queue(self, notification: Notification, users: list[str], is_replay: bool) -> None:
        finished: set[int] = set()
        if is_replay:
            finished = await self.notifications.finished_jobs(
                notification.tenant, notification.inbox, notification.notification_id
            )
        jobs = [job for job in jobs_for(notification, users) if job.number not in finished]
        try:
            if jobs:
                await self.jobs.put(jobs)
        except JobsUnavailable:
            raise QueueUnavailable from None

    # --- As a broadcast -------------------------------------------------------------------

    async def _post_broadcast(self, request: _Request) -> Posted:
        view = await self.views.get(request.tenant, request.inbox)
        claim = await self._claim(request, None, view.head + 1)
        draft = await self._draft(request)
        if request.key is None:
            broadcast, is_replay = await self.append_broadcast(draft)
        else:
            broadcast, is_replay = await self.append_broadcast(
                draft, after=claim.hint - 1, is_same=lambda entry: entry.key == request.key
            )
        # The first request may have failed before devices heard of the broadcast.
        if not is_replay or self.clock.now() - broadcast.posted_at <= FRAME_REPEATED_MS:
            self.bus.publish(BroadcastPosted(broadcast.tenant, broadcast.inbox, broadcast.sequence))
        return Posted(
            notification_id=broadcast.notification_id,
            recipients=broadcast.recipients,
            estimated=True,
            status="done",
            is_replay=is_replay,
        )

    async def _draft(self, request: _Request) -> Broadcast:
        mark = self.chance.token(8).hex()
        sealed = await self.texts.seal(request.tenant, request.inbox, mark, request.text)
        now = self.clock.now()
        return Broadcast(
            tenant=request.tenant,
            inbox=request.inbox,
            sequence=0,
            kind="broadcast",
            posted_at=now,
            mark=mark,
            expires_at=request.expiry(now),
            category=request.category,
            late_joiners=request.late_joiners,
            recipients=await self.users.about_how_many(request.tenant),
            key=request.key,
            box=sealed.box,
            box_key=sealed.box_key,
            collapse=request.collapse,
        )

    def _expires_at(self, posting: Posting) -> int | None:
        expires_at, deliver_at = posting.options.expires_at, posting.options.deliver_at
        if expires_at is not None and expires_at <= max(self.clock.now(), deliver_at or 0):
            raise Invalid("expires_at: must be in the future, after deliver_at", "/expires_at")
        return expires_at

    def _collapse_digest(self, tenant: str, inbox: str, key: str | None) -> str | None:
        # The key itself may say what the notification is about, so it is stored encrypted only.
        if key is None:
            return None
        return self.vault.digest("collapse", tenant, inbox, key)[:COLLAPSE_BYTES].hex()

    # --- Idempotency ----------------------------------------------------------------------

    async def _claim(
        self,
        request: _Request,
        notification_id: str | None,
        hint: int,
        *,
        valid_ms: int = limits.REQUEST_KEY_MS,
    ) -> PostKey:
        now = self.clock.now()
        claim = PostKey(
            digest=request.digest,
            notification_id=notification_id,
            hint=hint,
            claimed_at=now,
            expires_at=now + valid_ms,
        )
        if request.key is None:
            return claim
        first = await self.notifications.claim_key(
            request.tenant, request.inbox, request.key, claim
        )
        if first.digest != request.digest:
            raise RequestConflict
        return first

    def _key_digest(self, tenant: str, inbox: str, key: str) -> str:
        if not 0 < len(key) <= limits.REQUEST_KEY_CHARS_MAX or not key.isprintable():
            raise Invalid(
                f"Idempotency-Key must have 1 to {limits.REQUEST_KEY_CHARS_MAX} characters"
            )
        return self.vault.digest("notification", tenant, inbox, key).hex()

    def _digest(self, posting: Posting, users: list[str] | None) -> bytes:
        # The users are digested in the given order, which decides the job of each user.
        rest = msgspec.to_builtins(msgspec.structs.replace(posting, users=None))
        if not rest["options"]:
            # Earlier versions had no options, and a repeat of their requests has the same digest.
            del rest["options"]
        encoded = msgspec.json.encode(rest, order="sorted").decode()
        return self.vault.digest_of_lines(encoded, ["everyone"] if users is None else users)


def check_delivery(deliver_at: int, now: int) -> None:
    """Refuse a time of delivery that is not in the future, or too far ahead."""
    if not now < deliver_at <= schedule_end(now):
        raise Invalid("deliver_at: must be in the future, at most one year ahead", "/deliver_at")


def jobs_for(notification: Notification, users: list[str]) -> list[Job]:
    """Split the users into delivery jobs."""
    return [
        Job(
            tenant=notification.tenant,
            inbox=notification.inbox,
            notification_id=notification.notification_id,
            number=number,
            users=tuple(users[start : start + limits.JOB_USERS_MAX]),
            category=notification.category,
            posted_at=notification.posted_at,
            expires_at=notification.expires_at,
            collapse=notification.collapse,
        )
        for number, start in enumerate(range(0, len(users), limits.JOB_USERS_MAX))
    ]

# SPDX-License-Identifier: Apache-2.0
"""Posting a notification: to listed users through a queue, or to everyone with one write."""

import asyncio
from dataclasses import dataclass
from typing import Final, Literal

import msgspec

from tidings.actions.content.vault import Vault
from tidings.actions.inbox.announcing import BroadcastAppender
from tidings.actions.inbox.log_views import LogViews
from tidings.actions.inbox.message_schemas import MessageSchemas
from tidings.actions.inbox.settings import InboxConfigs, Settings
from tidings.actions.inbox.showing import NotificationTexts
from tidings.model import limits
from tidings.model.ids import USER
from tidings.model.notifications import Broadcast, Notification
from tidings.model.postings import Posting, Text, check_posting
from tidings.model.refusals import Invalid, QueueUnavailable, RequestConflict, TooLarge
from tidings.ports.bus import BroadcastPosted, Bus
from tidings.ports.inboxes import Notifications, PostKey
from tidings.ports.jobs import Job, Jobs, JobsUnavailable
from tidings.ports.people import UserStore
from tidings.ports.world import Chance, Clock, new_ulid

SLICE_USERS: Final = 2_000
"""So many ids are looked at before the loop turns: about a millisecond."""


class Posted(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a request to post."""

    notification_id: str
    recipients: int
    estimated: bool
    status: Literal["queued", "done"]
    is_replay: bool


class _Request(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be posted, checked, and the key it was claimed under."""

    tenant: str
    inbox: str
    category: str | None
    text: Text
    kept_ms: int
    late_joiners: bool
    key: str | None
    digest: bytes


@dataclass(frozen=True, slots=True)
class PostNotification:
    """Tell users something. Every step may be taken again, so a repeat completes what broke off."""

    configs: InboxConfigs
    settings: Settings
    schemas: MessageSchemas
    notifications: Notifications
    jobs: Jobs
    users: UserStore
    texts: NotificationTexts
    views: LogViews
    announce: BroadcastAppender
    vault: Vault
    bus: Bus
    clock: Clock
    chance: Chance

    async def __call__(self, tenant: str, inbox: str, posting: Posting, key: str | None) -> Posted:
        """Post once for each key: within a day the same request gets the answer of the first.

        Raises:
            InboxNotFound: There is no such inbox.
            Invalid, TooLarge, SchemaVersionConflict: It cannot be posted here.
            RequestConflict: The key was used for another request.
            StoreUnavailable, QueueUnavailable, InboxBusy: Unknown outcome.
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
            late_joiners=late_joiners,
            key=None if key is None else self._key_digest(tenant, inbox, key),
            digest=self._digest(posting, users),
        )
        if users is None:
            return await self._to_everyone(request)
        return await self._to_users(request, users)

    # --- To listed users ------------------------------------------------------------------

    async def _to_users(self, request: _Request, users: list[str]) -> Posted:
        own_id = new_ulid(self.clock, self.chance)
        claim = await self._claim(request, own_id, 0)
        assert claim.notification_id is not None, "the digest tells whom a request is for"
        is_replay = claim.notification_id != own_id
        kept = await self._kept(request, claim.notification_id) if is_replay else None
        if kept is None:
            kept = await self._keep(request, claim, claim.notification_id, len(users))
        if not kept.is_redacted:
            await self._queue(kept, users, is_replay)
        return Posted(
            notification_id=kept.notification_id,
            recipients=len(users),
            estimated=False,
            status="queued",
            is_replay=is_replay,
        )

    async def _kept(self, request: _Request, notification_id: str) -> Notification | None:
        found = await self.notifications.get(request.tenant, request.inbox, [notification_id])
        return found[0] if found else None

    async def _keep(
        self, request: _Request, claim: PostKey, notification_id: str, recipients: int
    ) -> Notification:
        sealed = await self.texts.seal(request.tenant, request.inbox, notification_id, request.text)
        notification = Notification(
            tenant=request.tenant,
            inbox=request.inbox,
            notification_id=notification_id,
            category=request.category,
            posted_at=claim.claimed_at,
            expires_at=claim.claimed_at + request.kept_ms,
            recipients=recipients,
            box=sealed.box,
            box_key=sealed.box_key,
        )
        await self.notifications.put(notification)
        return notification

    async def _queue(self, kept: Notification, users: list[str], is_replay: bool) -> None:
        finished: set[int] = set()
        if is_replay:
            finished = await self.notifications.finished_jobs(
                kept.tenant, kept.inbox, kept.notification_id
            )
        jobs = [job for job in jobs_for(kept, users) if job.number not in finished]
        try:
            if jobs:
                await self.jobs.put(jobs)
        except JobsUnavailable:
            raise QueueUnavailable from None

    # --- To everyone ----------------------------------------------------------------------

    async def _to_everyone(self, request: _Request) -> Posted:
        view = await self.views.get(request.tenant, request.inbox)
        claim = await self._claim(request, None, view.head + 1)
        draft = await self._draft(request)
        if request.key is None:
            told, is_replay = await self.announce(draft)
        else:
            told, is_replay = await self.announce(
                draft, after=claim.hint - 1, is_same=lambda entry: entry.key == request.key
            )
        if not is_replay:
            self.bus.publish(BroadcastPosted(told.tenant, told.inbox, told.sequence))
        return Posted(
            notification_id=told.notification_id,
            recipients=told.recipients,
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
            expires_at=now + request.kept_ms,
            category=request.category,
            late_joiners=request.late_joiners,
            recipients=await self.users.about_how_many(request.tenant),
            key=request.key,
            box=sealed.box,
            box_key=sealed.box_key,
        )

    # --- Idempotency ----------------------------------------------------------------------

    async def _claim(self, request: _Request, notification_id: str | None, hint: int) -> PostKey:
        now = self.clock.now()
        claim = PostKey(
            digest=request.digest,
            notification_id=notification_id,
            hint=hint,
            claimed_at=now,
            expires_at=now + limits.REQUEST_KEY_MS,
        )
        if request.key is None:
            return claim
        counts = await self.notifications.claim_key(
            request.tenant, request.inbox, request.key, claim
        )
        if counts.digest != request.digest:
            raise RequestConflict
        return counts

    def _key_digest(self, tenant: str, inbox: str, key: str) -> str:
        if not 0 < len(key) <= limits.REQUEST_KEY_CHARS_MAX or not key.isprintable():
            raise Invalid(f"Idempotency-Key: 1 to {limits.REQUEST_KEY_CHARS_MAX} characters")
        return self.vault.digest("notification", tenant, inbox, key).hex()

    def _digest(self, posting: Posting, users: list[str] | None) -> bytes:
        # In the order they were given: it decides which job each of them is in.
        rest = msgspec.structs.replace(posting, users=None)
        told = msgspec.json.encode(rest, order="sorted").decode()
        return self.vault.digest_of_lines(told, ["everyone"] if users is None else users)


async def distinct_users(uids: list[str]) -> list[str]:
    """Each user once, in the order given, and only then counted; the loop turns meanwhile."""
    if not uids:
        raise Invalid("uids: at least one", "/audience/uids")
    distinct: dict[str, None] = {}
    for start in range(0, len(uids), SLICE_USERS):
        for index, uid in enumerate(uids[start : start + SLICE_USERS], start):
            if USER.fullmatch(uid) is None:
                raise Invalid(
                    "uid: 1 to 64 of A-Z a-z 0-9 . _ @ + -, not . or ..", f"/audience/uids/{index}"
                )
            distinct[uid] = None
        if len(distinct) > limits.AUDIENCE_USERS_MAX:
            raise TooLarge(f"uids: at most {limits.AUDIENCE_USERS_MAX}")
        await asyncio.sleep(0)
    return list(distinct)


def jobs_for(notification: Notification, users: list[str]) -> list[Job]:
    """The portions in which the users get their copies."""
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
        )
        for number, start in enumerate(range(0, len(users), limits.JOB_USERS_MAX))
    ]

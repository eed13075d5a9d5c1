# SPDX-License-Identifier: Apache-2.0
"""Deletes a user in steps: first marks the user as deleted, at the end signs a receipt.

The parts of the work remove sessions, content, invitations, chats and copies of notifications. Each
part first finds at most 25 items of the user. One step stores these items and their number in the
job, and the next step removes them.

A request that began before the user was marked may still add an item. When no part finds an item,
the job therefore waits until all such requests have ended, and then runs every part once more.
"""

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol

import msgspec

from tidings.actions.attachments.sweeping import SweepAttachments
from tidings.actions.chat.changes import Removing
from tidings.actions.chat.members import removal
from tidings.actions.content.vault import Vault
from tidings.actions.jobs.receipts import ErasureReceipts
from tidings.model import limits
from tidings.model.chats import ChatState
from tidings.model.entries import Entry
from tidings.model.ids import SCHEDULED, ChatId, UserKey, tenant_itself, tenant_of, user_key
from tidings.model.notifications import NOTHING_READ
from tidings.model.refusals import ChatNotFound
from tidings.ports.attachments import Uploads
from tidings.ports.chats import Chats
from tidings.ports.due import ScheduledMessages
from tidings.ports.erasing import PersonalData
from tidings.ports.inboxes import Copies, InboxSettings
from tidings.ports.moderation import Blocks
from tidings.ports.push import PushStore
from tidings.ports.secrets import DataKeys
from tidings.ports.tenant_jobs import PENDING_MAX, NotYet, TenantJob, TenantJobs
from tidings.ports.world import Clock

SETTLING: Final = "settling"
INBOXES_AT_ONCE: Final = 100
JOBS_SEARCHED: Final = 100
"""Maximum number of unfinished jobs of the tenant that a job searches for related deletions."""
ERASE_SECONDS: Final = 0.2
"""How long a step waits for the destruction of a data key, so that other jobs do not wait long."""


_PUSH: Final = "push "
"""Prefix of the names of devices; session ids contain no space."""


class Found(msgspec.Struct, frozen=True):
    """Items of a user that one step removes, and their number by kind."""

    names: Sequence[str]
    counts: dict[str, int]


NOTHING: Final = Found((), {})


class Part(Protocol):
    """Finds and removes one kind of a user's data."""

    @property
    def phase(self) -> str:
        """Phase that the job enters when this part finds no more items.

        After the last part, the job enters the phase `settling` instead.
        """
        ...

    async def find(self, user: UserKey) -> Found:
        """Return some of the user's items that this part still has to remove."""
        ...

    async def remove(self, user: UserKey, names: Sequence[str]) -> None:
        """Remove these items; skip those that do not exist any more."""
        ...


class SessionPart(msgspec.Struct, frozen=True):
    """Removes the user's sessions, with their device names and refresh tokens, and the devices
    that are registered for push."""

    personal_data: PersonalData
    push: PushStore
    clock: Clock
    phase: str = "sessions_removed"

    async def find(self, user: UserKey) -> Found:
        devices = [f"{_PUSH}{one.device}" for one in await self.push.of(user)]
        if devices:
            return Found(devices, {"push_devices": len(devices)})
        names = await self.personal_data.sessions(user, PENDING_MAX)
        return Found(names, {"sessions": len(names)})

    async def remove(self, user: UserKey, names: Sequence[str]) -> None:
        for name in names:
            if name.startswith(_PUSH):
                await self.push.remove(user, name.removeprefix(_PUSH), self.clock.now())
        await self.personal_data.forget_sessions([n for n in names if not n.startswith(_PUSH)])


MARKED: Final = "marked"
"""The phase after the user was marked as deleted."""


class ContentPart(msgspec.Struct, frozen=True):
    """Destroys the user's data key, without which nobody can read the user's content."""

    data_keys: DataKeys
    vault: Vault
    clock: Clock
    phase: str = "content_erased"

    async def find(self, user: UserKey) -> Found:
        has_key = await self.data_keys.current(user) is not None
        return Found(["key"], {"keys": 1}) if has_key else NOTHING

    async def remove(self, user: UserKey, names: Sequence[str]) -> None:
        try:
            async with asyncio.timeout(ERASE_SECONDS):
                await self.vault.erase(user)
        except TimeoutError:
            # The erasure continues in the background; with several processes it takes some seconds.
            raise NotYet(self.clock.now() + limits.SECOND_MS) from None


BACKUP_WAIT_MS: Final = 10 * limits.SECOND_MS
"""Time after which a job tries again to delete files, if a backup is being made."""


class FilePart(msgspec.Struct, frozen=True):
    """Removes the user's files, with their bytes."""

    uploads: Uploads
    sweep: SweepAttachments
    clock: Clock
    phase: str = "files_removed"

    async def find(self, user: UserKey) -> Found:
        names = await self.uploads.of_owner(user, PENDING_MAX)
        return Found(names, {"files": len(names)})

    async def remove(self, user: UserKey, names: Sequence[str]) -> None:
        if not await self.sweep.delete(user, names):
            raise NotYet(self.clock.now() + BACKUP_WAIT_MS)


class InvitePart(msgspec.Struct, frozen=True):
    """Removes the user's invitations, the list of messages that mention the user, the user's
    scheduled messages, and the idempotency keys with which the user created chats."""

    personal_data: PersonalData
    scheduled: ScheduledMessages
    phase: str = "invites_removed"

    async def find(self, user: UserKey) -> Found:
        chats = await self.personal_data.invites(user, PENDING_MAX)
        if chats:
            return Found([f"invite {chat}" for chat in chats], {"invitations": len(chats)})
        places = await self.personal_data.mentions(user, PENDING_MAX)
        if places:
            return Found([f"mention {place}" for place in places], {"mentions": len(places)})
        messages = await self.scheduled.names(user, PENDING_MAX)
        if messages:
            number = sum(SCHEDULED.fullmatch(name) is not None for name in messages)
            return Found([f"scheduled {name}" for name in messages], {"scheduled": number})
        keys = await self.personal_data.requests(user, PENDING_MAX)
        return Found([f"request {key}" for key in keys], {"request_keys": len(keys)})

    async def remove(self, user: UserKey, names: Sequence[str]) -> None:
        split = [name.partition(" ")[::2] for name in names]
        chats = [ChatId(rest) for kind, rest in split if kind == "invite"]
        await self.personal_data.forget_invites(user, chats)
        places = [rest for kind, rest in split if kind == "mention"]
        await self.personal_data.forget_mentions(user, places)
        if messages := [rest for kind, rest in split if kind == "scheduled"]:
            await self.scheduled.forget(user, messages)
        keys = [rest for kind, rest in split if kind == "request"]
        await self.personal_data.forget_requests(user, keys)


class BlockPart(msgspec.Struct, frozen=True):
    """Removes the user's blocks, and those by others."""

    blocks: Blocks
    clock: Clock
    phase: str = "blocks_removed"

    async def find(self, user: UserKey) -> Found:
        found = await self.blocks.of(user)
        names = [f"blocks {other}" for other in found.blocked]
        names += [f"by {other}" for other in found.blocked_by]
        return Found(names[:PENDING_MAX], {"blocks": len(names[:PENDING_MAX])})

    async def remove(self, user: UserKey, names: Sequence[str]) -> None:
        now = self.clock.now()
        for name in names:
            kind, _, other = name.partition(" ")
            pair = (user, UserKey(other)) if kind == "blocks" else (UserKey(other), user)
            await self.blocks.remove(*pair, now)


class ChatPart(msgspec.Struct, frozen=True):
    """Removes the user from chats. In a direct chat the other user stays, but can send nothing."""

    chats: Chats
    removing: Removing
    phase: str = "chats_left"

    async def find(self, user: UserKey) -> Found:
        page = await self.chats.of_user(user, below=None, limit=PENDING_MAX)
        while not page.rows and page.end is not None:
            # All chats of this page are deleted already, and only their rows remain.
            page = await self.chats.of_user(user, below=page.end, limit=PENDING_MAX)
        groups = sum(chat.type == "group" for chat in page.rows)
        counts = {"groups_left": groups, "direct_chats_left": len(page.rows) - groups}
        return Found([chat.chat_id for chat in page.rows], counts)

    async def remove(self, user: UserKey, names: Sequence[str]) -> None:
        for chat in names:
            try:
                await self.removing(ChatId(chat), user, lambda state, _: _leave(state, user))
            except ChatNotFound:
                continue  # the chat was deleted meanwhile


def _leave(state: ChatState, user: UserKey) -> list[Entry]:
    member = state.members.get(user)
    if member is None:
        return []
    return removal(state, tenant_itself(state.tenant), user, member)


class InboxPart(msgspec.Struct, frozen=True):
    """Removes the user's copies of notifications, and the user's read marks."""

    settings: InboxSettings
    copies: Copies
    personal_data: PersonalData
    jobs: TenantJobs
    phase: str = "inbox_removed"

    async def find(self, user: UserKey) -> Found:
        after: str | None = None
        while True:
            page = await self.settings.configs(tenant_of(user), after=after, limit=INBOXES_AT_ONCE)
            for inbox, _ in page.rows:
                found = await self._in_inbox(user, inbox)
                if found.names:
                    return found
            if page.end is None:
                return await self._in_inboxes_without_settings(user)
            after = page.end

    async def _in_inboxes_without_settings(self, user: UserKey) -> Found:
        """Find the user's items in inboxes that are being deleted. The jobs that delete these
        inboxes do not find these items, because they do not list deleted users."""
        for job in await self.jobs.running(tenant_of(user), JOBS_SEARCHED):
            if job.kind == "inbox.delete":
                found = await self._in_inbox(user, job.subject)
                if found.names:
                    return found
        return NOTHING

    async def _in_inbox(self, user: UserKey, inbox: str) -> Found:
        copies = await self.copies.newest(user, inbox, before=None, limit=PENDING_MAX)
        if copies:
            names = [f"{inbox}/{copy.notification_id}" for copy in copies]
            return Found(names, {"notifications": len(names)})
        marks = await self.copies.read_state(user, inbox)
        if marks != NOTHING_READ:
            return Found([f"{inbox}/"], {"inboxes": 1})
        return NOTHING

    async def remove(self, user: UserKey, names: Sequence[str]) -> None:
        by_inbox: dict[str, list[str]] = {}
        for name in names:
            inbox, _, notification_id = name.partition("/")
            by_inbox.setdefault(inbox, []).append(notification_id)
        for inbox, copies in by_inbox.items():
            if copies == [""]:
                await self.personal_data.forget_marks(user, inbox)
            else:
                await self.personal_data.forget_copies(user, inbox, copies)


class UserDeletion(msgspec.Struct, frozen=True):
    """Performs the steps of a job that deletes a user."""

    personal_data: PersonalData
    parts: tuple[Part, ...]
    receipts: ErasureReceipts
    clock: Clock
    settle_ms: int
    """How long requests that began before the user was marked as deleted may still add items."""

    async def step(self, job: TenantJob) -> TenantJob:
        """Do the next step of the job, and return the job with its new progress."""
        user = user_key(job.tenant, job.subject)
        if job.phase == "started":
            return await self._mark(job, user)
        if job.pending:
            return await self._remove(job, user)
        if job.phase == SETTLING:
            return await self._look_again(job, user)
        part, following = self._part_after(job.phase)
        found = await part.find(user)
        return pending_of(job, part, found) if found.names else job.at(following)

    async def _mark(self, job: TenantJob, user: UserKey) -> TenantJob:
        mark = await self.personal_data.mark_deleted(user, self.clock.now())
        if job.cursor is not None:
            await self.personal_data.forget_code(job.tenant, job.cursor)
        assert mark.deleted_at is not None
        return job.at(MARKED)

    def _part_after(self, phase: str) -> tuple[Part, str]:
        """Return the part that follows a phase, and the phase after that part."""
        phases = [MARKED, *(part.phase for part in self.parts)]
        index = phases.index(phase)
        is_last = index == len(self.parts) - 1
        return self.parts[index], SETTLING if is_last else self.parts[index].phase

    async def _remove(self, job: TenantJob, user: UserKey) -> TenantJob:
        name, _, _ = job.pending[0].partition(":")
        part = next(part for part in self.parts if part.phase == name)
        await part.remove(user, [each.partition(":")[2] for each in job.pending])
        return msgspec.structs.replace(job, pending=())

    async def _look_again(self, job: TenantJob, user: UserKey) -> TenantJob:
        mark = await self.personal_data.mark_deleted(user, self.clock.now())
        assert mark.deleted_at is not None
        if self.clock.now() < mark.deleted_at + self.settle_ms:
            raise NotYet(mark.deleted_at + self.settle_ms)
        for part in self.parts:
            found = await part.find(user)
            if found.names:
                return pending_of(job, part, found)
        receipt = await self.receipts.of_user(user, job, mark.deleted_at)
        return msgspec.structs.replace(job.at("done"), state="done", result=receipt)


def pending_of(job: TenantJob, part: Part, found: Found) -> TenantJob:
    """Return the job with what a part has found: it is counted, and the next step removes it."""
    counted = job.counting(**{name: number for name, number in found.counts.items() if number})
    return msgspec.structs.replace(
        counted, pending=tuple(f"{part.phase}:{name}" for name in found.names)
    )

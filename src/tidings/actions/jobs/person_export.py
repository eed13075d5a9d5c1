# SPDX-License-Identifier: Apache-2.0
"""Gathers the stored data of one person in a job, and stores it in encrypted parts.

The job reads the person's chats page by page, and copies only what the person wrote. The parts are
encrypted with the person's own data key. If the person's content is erased, nobody can read the
export either.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from tidings.actions.content.vault import Vault
from tidings.actions.inbox.reading import ListNotifications
from tidings.actions.jobs.export_records import (
    Record,
    act_records,
    block_record,
    inbox_notification_record,
    membership_record,
    message_record,
    numbers_of,
    parts_of,
    preferences_record,
    profile_record,
    push_record,
    scheduled_record,
    session_record,
)
from tidings.model import limits
from tidings.model.entries import Entry
from tidings.model.ids import ChatId, UserKey, tenant_of, user_id, user_key
from tidings.model.refusals import InboxNotFound
from tidings.ports.store import Store, on_behalf_of, user_requester
from tidings.ports.tenant_jobs import ExportPart, JobSteps, TenantJob
from tidings.ports.world import Clock

PURPOSE: Final = "export"


class ExportPlace(msgspec.Struct, omit_defaults=True):
    """The position at which the job continues, and the number of parts that it has written."""

    parts: int = 0
    chat: str = ""
    """The chat that is being read, or the last chat that was read."""
    after: int = 0
    inbox: str | None = None
    page: str | None = None
    """Place within the inbox; None if the inbox was read to its end."""
    at: int | None = None
    """Position in the audit trail, together with `entry_id`."""
    entry_id: str = ""


class ExportResult(msgspec.Struct, frozen=True):
    """The result of a finished job."""

    parts: int
    expires_at: int


@dataclass
class Gathered:
    """The records of one step, and the phase that this step completed, if any."""

    place: ExportPlace
    records: list[Record] = field(default_factory=list)
    reached: str | None = None


class ExportPerson:
    """Performs the steps of a job that exports a user's data."""

    def __init__(
        self, store: Store, vault: Vault, listing: ListNotifications, clock: Clock
    ) -> None:
        self._store = store
        self._vault = vault
        self._listing = listing
        self._clock = clock
        self._gathering: Mapping[str, Callable[[UserKey, ExportPlace], Awaitable[Gathered]]] = {
            "started": self._profile,
            "profile": self._messages,
            "messages": self._notifications,
            "notifications": self._acts,
        }

    async def step(self, job: TenantJob) -> TenantJob:
        """Gather the next records and store them. A repeated step writes the same parts again."""
        user = user_key(job.tenant, job.subject)
        with on_behalf_of(user_requester(user)):
            found = await self._store.users.get(user)
            if found is None or found.deleted_at is not None:
                # The user's key is destroyed. Encrypting another part would create a new key.
                return msgspec.structs.replace(job.at("done"), state="done")
            place = msgspec.json.decode(job.cursor or "{}", type=ExportPlace)
            gathered = await self._gathering[job.phase](user, place)
            await self._write(job, user, gathered)
        counted = job.counting(**numbers_of(gathered.records))
        if gathered.reached == "done":
            result = ExportResult(gathered.place.parts, expires_at(job))
            text = msgspec.json.encode(result).decode()
            return msgspec.structs.replace(counted.at("done"), state="done", result=text)
        cursor = msgspec.json.encode(gathered.place).decode()
        return msgspec.structs.replace(counted, phase=gathered.reached or job.phase, cursor=cursor)

    async def _write(self, job: TenantJob, user: UserKey, gathered: Gathered) -> None:
        for text in parts_of(gathered.records):
            number = gathered.place.parts
            sealed = await self._vault.seal_text(user, bound_to(job, number), text)
            part = ExportPart(
                tenant=job.tenant,
                job_id=job.job_id,
                started_at=job.created_at,
                number=number,
                box=sealed.box,
                box_key=sealed.box_key,
                expires_at=expires_at(job),
            )
            await self._store.export_parts.put(part)
            gathered.place.parts += 1

    async def _profile(self, user: UserKey, place: ExportPlace) -> Gathered:
        profile = await self._store.users.get(user)
        assert profile is not None, "the step has found the user"
        sessions = await self._store.sessions.of(user)
        blocks = (await self._store.blocks.of(user)).blocked.values()
        lines = [
            profile_record(profile),
            *(session_record(session) for session in sessions),
            *(block_record(block) for block in blocks),
            *(push_record(device) for device in await self._store.push.of(user)),
        ]
        return Gathered(place, [*lines, *await self._scheduled(user)], "profile")

    async def _scheduled(self, user: UserKey) -> list[Record]:
        after, records, now = None, list[Record](), self._clock.now()
        while True:
            page = await self._store.scheduled.page(
                user, after=after, limit=limits.PAGE_MAX, now=now
            )
            for message in page.rows:
                opened = message.as_entry()
                await self._vault.open([opened], now, for_good=True)
                records.append(scheduled_record(message, opened.content))
            after = page.end
            if after is None:
                return records

    async def _messages(self, user: UserKey, place: ExportPlace) -> Gathered:
        gathered = Gathered(place)
        chats = sorted(chat for chat in await self._store.chats.ids(user) if chat >= place.chat)
        if chats and chats[0] == place.chat and not place.after:
            del chats[0]  # this chat was read to its end
        for chat in chats[: limits.EXPORT_STEP_CHATS]:
            await self._read_chat(user, chat, gathered)
            if place.after or _is_enough(gathered.records):
                return gathered
        if len(chats) <= limits.EXPORT_STEP_CHATS:
            gathered.reached = "messages"
        return gathered

    async def _read_chat(self, user: UserKey, chat: ChatId, gathered: Gathered) -> None:
        """Read some pages of a chat's log. Afterwards, `place.after` is the position of the next
        page, or 0 if there is none."""
        place = gathered.place
        if chat != place.chat:
            place.chat, place.after = chat, 0
            row = await self._store.chats.row(user, chat, self._clock.now())
            gathered.records += [membership_record(row)] if row is not None else []
        for _ in range(limits.EXPORT_STEP_PAGES):
            page = await self._store.log.page(
                chat, user, after=place.after, limit=limits.PAGE_MAX, only_messages=True
            )
            place.after = 0
            if page is None:
                return  # the person has left meanwhile
            gathered.records += await self._records_of(user, page.entries)
            place.after = page.next or 0
            if not place.after or _is_enough(gathered.records):
                return

    async def _records_of(self, user: UserKey, entries: Sequence[Entry]) -> list[Record]:
        own = [entry for entry in entries if entry.sender == user]
        await self._vault.open(own, self._clock.now(), for_good=True)
        reactions = (
            {"kind": "reaction", "chat": entry.chat_id, "target": entry.sequence, "emoji": emoji}
            for entry in entries
            for emoji in entry.mine
        )
        return [*map(message_record, own), *reactions]

    async def _notifications(self, user: UserKey, place: ExportPlace) -> Gathered:
        gathered = Gathered(place)
        if place.page is None and not await self._next_inbox(user, place):
            gathered.reached = "notifications"
            return gathered
        inbox = place.inbox
        assert inbox is not None, "the next inbox was found"
        if place.page is None:
            gathered.records += await self._preferences(user, inbox)
        try:
            page, place.page = await self._listing.everything(user, inbox, place.page)
        except InboxNotFound:
            page, place.page = [], None
        gathered.records += (
            inbox_notification_record(inbox, one.received, one.shown.text) for one in page
        )
        return gathered

    async def _preferences(self, user: UserKey, inbox: str) -> list[Record]:
        chosen = (await self._store.copies.read_state(user, inbox)).preferences
        return [] if chosen is None else [preferences_record(inbox, chosen)]

    async def _next_inbox(self, user: UserKey, place: ExportPlace) -> bool:
        tenant = tenant_of(user)
        found = await self._store.inbox_settings.configs(tenant, after=place.inbox, limit=1)
        if found.rows:
            place.inbox = found.rows[0][0]
        return bool(found.rows)

    async def _acts(self, user: UserKey, place: ExportPlace) -> Gathered:
        gathered, now = Gathered(place), self._clock.now()
        for _ in range(limits.EXPORT_STEP_PAGES):
            before = (now + limits.DAY_MS, "") if place.at is None else (place.at, place.entry_id)
            entries = await self._store.audit.page(
                tenant_of(user),
                since=now - limits.AUDIT_MS,
                before=before,
                limit=limits.PAGE_MAX,
            )
            gathered.records += act_records(entries, user_id(user))
            if len(entries) < limits.PAGE_MAX:
                gathered.reached = "done"
                break
            place.at, place.entry_id = entries[-1].position
        return gathered


def result_of(job: TenantJob) -> ExportResult | None:
    """Return the result of an export job; None if there is nothing to download."""
    return None if job.result is None else msgspec.json.decode(job.result, type=ExportResult)


def expires_at(job: TenantJob) -> int:
    """Return when the parts of an export are removed."""
    return job.created_at + limits.EXPORT_KEPT_MS


def bound_to(job: TenantJob, number: int) -> str:
    """Return the text to which the encryption of a part is bound."""
    return f"{PURPOSE}\0{job.job_id}\0{job.created_at}\0{number}"


def _is_enough(records: Sequence[Record]) -> bool:
    return len(records) >= limits.PAGE_MAX


_conforms: type[JobSteps] = ExportPerson

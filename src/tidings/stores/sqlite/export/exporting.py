# SPDX-License-Identifier: Apache-2.0
"""Exports all facts of the embedded store, row by row, from one snapshot."""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, closing
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final, TypeVar

import apsw
import msgspec

from tidings.data_folder import only_process
from tidings.model import limits
from tidings.model.entries import Entry, emptied
from tidings.model.ids import ChatId, UserKey
from tidings.model.limits import AUDIT_MS
from tidings.model.notifications import Broadcast, Copy, Notification
from tidings.model.setup_error import SetupError
from tidings.ports.bus import Job
from tidings.ports.export_engines import Source
from tidings.ports.export_facts import (
    AuditFact,
    BlockFact,
    ChatFact,
    DataKeyFact,
    Fact,
    InviteFact,
    IssuerFact,
    MemberFact,
    ReactionFact,
    ReportFact,
    RequestKeyFact,
    RevocationFact,
    SecretFact,
    SendKeyFact,
    SessionFact,
    SigningKeyFact,
    TenantFact,
    TenantKeyFact,
    UserFact,
    entry_fact,
)
from tidings.ports.export_feature_facts import (
    ErasureFact,
    PushDeviceFact,
    PushSettingsFact,
    TenantJobFact,
    UploadFact,
    WebhookFact,
)
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
from tidings.stores.sqlite.chat.scheduled import ALL_SCHEDULED, from_scheduled_row
from tidings.stores.sqlite.chat.uploads import all_uploads
from tidings.stores.sqlite.engine.connections import DATABASE, connect
from tidings.stores.sqlite.engine.rows import COLUMNS, columns, from_row, to_entry
from tidings.stores.sqlite.engine.schema import migrate
from tidings.stores.sqlite.export.importing import refuse_unfinished
from tidings.stores.sqlite.identity.audit import ENTRIES, entry_from_row
from tidings.stores.sqlite.identity.erasing import (
    LEDGER,
    known_erasures,
    read_lines,
    unknown_erasures,
)
from tidings.stores.sqlite.identity.push import ALL_PUSH_SETTINGS, to_push_settings
from tidings.stores.sqlite.identity.secrets import ensure_epoch
from tidings.stores.sqlite.identity.tenant_jobs import JOBS, from_job_row
from tidings.stores.sqlite.identity.webhooks import all_endpoints
from tidings.stores.sqlite.inbox.escalations import ALL_ESCALATIONS, to_escalation
from tidings.stores.sqlite.inbox.jobs import ASIDE, dead_letter_from_row, job_from_row
from tidings.stores.sqlite.inbox.notifications import (
    broadcast_from_row,
    config_from_row,
    notification_from_row,
)
from tidings.stores.sqlite.inbox.scheduled_notifications import HELD_JOBS
from tidings.stores.sqlite.inbox.states import read_state

# Each SELECT returns its rows in the order of the key, so that SQLite merges them as it reads.
_INBOXES: Final = """
SELECT tenant, inbox FROM inboxes UNION SELECT tenant, inbox FROM notifications
UNION SELECT tenant, inbox FROM announcements UNION SELECT tenant, inbox FROM post_keys
ORDER BY tenant, inbox
"""
_USERS: Final = """
SELECT user_id, inbox FROM copies UNION SELECT user_id, inbox FROM read_states
UNION SELECT user_id, inbox FROM broadcast_states
UNION SELECT user_id, inbox FROM read_announcements ORDER BY user_id, inbox
"""
_HERE: Final = "tenant = ? AND inbox = ?"
_BY_PORTION: Final = "ORDER BY notification_id, number"
_NOTIFICATIONS: Final = f"""
SELECT {columns(Notification)} FROM notifications
WHERE {_HERE} AND expires_at > ? ORDER BY notification_id
"""
_FINISHED: Final = f"""
SELECT number FROM finished_jobs WHERE {_HERE} AND notification_id = ? ORDER BY number
"""
_LAST: Final = f"SELECT max(sequence) FROM announcements WHERE {_HERE}"
_LOG: Final = f"""
SELECT {columns(Broadcast)} FROM announcements
WHERE {_HERE} AND (expires_at > ? OR sequence = ?) ORDER BY sequence
"""
_POST_KEYS: Final = f"""
SELECT key, {columns(PostKey)} FROM post_keys WHERE {_HERE} AND expires_at > ? ORDER BY key
"""
_COPIES: Final = f"""
SELECT {columns(Copy)} FROM copies WHERE user_id = ? AND inbox = ? AND expires_at > ?
ORDER BY notification_id DESC LIMIT {limits.USER_COPIES_MAX}
"""
# The jobs are in the order of posting, so that the target engine does the oldest first.
_JOBS: Final = f"""
SELECT {columns(Job)} FROM jobs WHERE expires_at > ?
ORDER BY notification_id, number, tenant, inbox
"""
_SCHEDULED: Final = f"""
{ALL_SCHEDULED} WHERE expires_at IS NULL OR expires_at > ? ORDER BY user_id, scheduled_id
"""

_settings = msgspec.json.Decoder(dict[str, Any])

FACTS_AT_ONCE: Final = 1_000

_F = TypeVar("_F", bound=msgspec.Struct)

# Each kind is sorted by its key, byte by byte, as in every engine.
_OF_DEPLOYMENT: Final[tuple[tuple[type[Any], str], ...]] = (
    (SecretFact, "sealed_secrets ORDER BY name"),
    (TenantFact, "tenants ORDER BY tenant"),
    (TenantKeyFact, "tenant_keys ORDER BY key_id"),
    (SigningKeyFact, "signing_keys ORDER BY tenant, key_id"),
    (IssuerFact, "token_issuers ORDER BY tenant"),
    (RevocationFact, "revocations ORDER BY place"),
)
# Only the last generation of each key is exported, because all earlier ones were destroyed.
_DATA_KEYS: Final = """
keys AS k WHERE generation = (SELECT max(generation) FROM keys WHERE author = k.author)
ORDER BY author
"""
_MEMBER_FLAGS: Final = ("is_own", "except_mentions")
_MEMBERS: Final = """
chat_memberships JOIN delivery_state USING (user_id, chat_id) WHERE chat_id = ? ORDER BY user_id
"""


def inbox_facts(db: apsw.Connection, now: int) -> Iterator[InboxFacts]:
    """Yield the inbox facts that have not expired at `now`, in the order of an export."""
    for tenant, text in db.execute("SELECT tenant, settings FROM tenant_settings ORDER BY tenant"):
        yield TenantSettingsFact(tenant=tenant, settings=_settings.decode(text))
    for tenant, inbox in db.execute(_INBOXES):
        yield from _of_inbox(db, tenant, inbox, now)
    for user, inbox in db.execute(_USERS):
        yield from _of_user(db, user, inbox, now)
    for row in db.execute(_JOBS, (now,)):
        yield converted(JobFact, job_from_row(row))
    for row in db.execute(f"{ASIDE} ORDER BY aside_id"):
        dead_letter = dead_letter_from_row(row)
        yield converted(DeadLetterFact, dead_letter, job=converted(JobFact, dead_letter.job))
    for row in db.execute(_SCHEDULED, (now,)):
        yield converted(ScheduledFact, from_scheduled_row(row))


def _of_inbox(db: apsw.Connection, tenant: str, inbox: str, now: int) -> Iterator[OfInbox]:
    here = (tenant, inbox)
    for row in db.execute(f"SELECT config, has_preferences FROM inboxes WHERE {_HERE}", here):
        yield converted(InboxFact, config_from_row(row), tenant=tenant, inbox=inbox)
    for row in db.execute(_NOTIFICATIONS, (*here, now)):
        notification = notification_from_row(row)
        finished = db.execute(_FINISHED, (*here, notification.notification_id))
        numbers = tuple(number for (number,) in finished)
        yield converted(NotificationFact, notification, finished_jobs=numbers)
    for row in db.execute(f"{HELD_JOBS} WHERE {_HERE} {_BY_PORTION}", here):
        yield converted(HeldJobFact, job_from_row(row))
    for row in db.execute(f"{ALL_ESCALATIONS} WHERE {_HERE} {_BY_PORTION}", here):
        yield converted(EscalationFact, to_escalation(row))
    last = db.execute(_LAST, here).get
    for row in db.execute(_LOG, (*here, now, last)):
        entry = broadcast_from_row(row)
        yield broadcast_fact(entry, now, is_last=entry.sequence == last)
    for key, *row in db.execute(_POST_KEYS, (*here, now)):
        claim = from_row(PostKey, tuple(row))
        yield converted(PostKeyFact, claim, tenant=tenant, inbox=inbox, key=key)


def _of_user(db: apsw.Connection, user: UserKey, inbox: str, now: int) -> Iterator[OfUser]:
    for row in reversed(db.execute(_COPIES, (user, inbox, now)).fetchall()):
        yield converted(CopyFact, from_row(Copy, row), user_id=user, inbox=inbox)
    yield from read_state_facts(user, inbox, read_state(db, user, inbox), now)


class SqliteSource:
    """Reads all facts from a snapshot of the store, taken when the store was opened."""

    def __init__(self, db: apsw.Connection, epoch: str) -> None:
        self._db = db
        self._epoch = epoch

    @property
    def epoch(self) -> str:
        return self._epoch

    async def facts(self, now: int, after: ChatId | None = None) -> AsyncIterator[Sequence[Fact]]:
        # This blocks the event loop, on which nothing else runs: this is a command, not a server.
        inbox = inbox_facts(self._db, now)
        facts = chain(
            self._of_deployment(now), self._of_chats(now, after or ""), inbox, self._audit(now)
        )
        while some := list(islice(facts, FACTS_AT_ONCE)):
            yield some

    async def changed(self) -> list[str]:
        return []  # the facts come from one snapshot, and no other process uses the folder

    def _of_deployment(self, now: int) -> Iterator[Fact]:
        for kind, rows in _OF_DEPLOYMENT:
            yield from self._select(kind, rows)
        for row in self._db.execute(JOBS):
            yield converted(TenantJobFact, from_job_row(row))
        for erasure in known_erasures(self._db):
            yield converted(ErasureFact, erasure)
        for endpoint in all_endpoints(self._db):
            yield converted(WebhookFact, endpoint)
        yield from self._select(UserFact, "users ORDER BY user_id")
        valid = "sessions WHERE revoked_at IS NULL AND expires_at > ? ORDER BY session_id"
        yield from self._select(SessionFact, valid, now)
        yield from self._select(DataKeyFact, _DATA_KEYS)
        unexpired = "request_keys WHERE expires_at > ? ORDER BY user_id, key"
        yield from self._select(RequestKeyFact, unexpired, now, but=("is_finished",))
        pending = "invites WHERE expires_at > ? ORDER BY user_id, chat_id"
        yield from self._select(InviteFact, pending, now)
        yield from self._select(BlockFact, "blocks ORDER BY user_id, blocked")
        yield from self._select(PushDeviceFact, "push_devices ORDER BY user_id, device")
        for row in self._db.execute(f"{ALL_PUSH_SETTINGS} ORDER BY tenant"):
            yield converted(PushSettingsFact, to_push_settings(row))
        unexpired = "reports WHERE expires_at > ? ORDER BY tenant, report_id"
        yield from self._select(ReportFact, unexpired, now)
        for upload in all_uploads(self._db):
            yield converted(UploadFact, upload)

    def _of_chats(self, now: int, after: str) -> Iterator[Fact]:
        for chat in self._select(ChatFact, "chats WHERE chat_id > ? ORDER BY chat_id", after):
            if self._is_deleted(chat.chat_id):
                yield msgspec.structs.replace(chat, name=None, frozen=bool(chat.frozen))
                yield from self._places(chat.chat_id, now)
                continue
            yield msgspec.structs.replace(chat, frozen=bool(chat.frozen))
            for member in self._select(MemberFact, _MEMBERS, chat.chat_id):
                flags = {name: bool(getattr(member, name)) for name in _MEMBER_FLAGS}
                yield msgspec.structs.replace(member, **flags)
            yield from self._log(chat.chat_id, now)
            yield from self._select(
                SendKeyFact,
                "idempotency_keys WHERE chat_id = ? AND expires_at > ?"
                " ORDER BY sender, client_message_id",
                chat.chat_id,
                now,
            )

    def _is_deleted(self, chat: ChatId) -> bool:
        at = self._db.execute("SELECT deleted_at FROM chats WHERE chat_id = ?", (chat,)).get
        return at is not None

    def _places(self, chat: ChatId, now: int) -> Iterator[Fact]:
        """Yield the entries of a deleted chat without content, even if the deletion still runs."""
        for entry in self._entries(chat):
            yield entry_fact(emptied(entry), now)

    def _entries(self, chat: ChatId) -> Iterator[Entry]:
        rows = f"SELECT {COLUMNS} FROM messages WHERE chat_id = ? ORDER BY sequence"
        return map(to_entry, self._db.execute(rows, (chat,)))

    def _log(self, chat: ChatId, now: int) -> Iterator[Fact]:
        for found in self._entries(chat):
            entry = entry_fact(found, now)
            yield entry
            if entry.reactions:
                yield from self._select(
                    ReactionFact,
                    "reactions WHERE chat_id = ? AND sequence = ? ORDER BY emoji, user_id",
                    chat,
                    entry.sequence,
                )

    def _audit(self, now: int) -> Iterator[Fact]:
        for row in self._db.execute(
            f"{ENTRIES} WHERE at > ? ORDER BY at, entry_id", (now - AUDIT_MS,)
        ):
            yield converted(AuditFact, entry_from_row(row))

    def _select(
        self, kind: type[_F], rows: str, *values: str | int, but: tuple[str, ...] = ()
    ) -> Iterator[_F]:
        """Yield rows as facts of this kind; `but` names the fields that are not columns."""
        names = [name for name in kind.__struct_fields__ if name not in but]
        for row in self._db.execute(f"SELECT {', '.join(names)} FROM {rows}", values):
            yield kind(**dict(zip(names, row, strict=True)))


@asynccontextmanager
async def open_source(folder: Path) -> AsyncIterator[SqliteSource]:
    """Open the store in this folder for an export. Meanwhile no server can open it.

    Raises:
        SetupError: There is no store, another process has opened it, an import into it is not
            finished, or it was restored and erasures were not carried out again yet.
    """
    path = folder / DATABASE
    if not path.exists():
        raise SetupError(f"there is no store in {folder}")
    with only_process(folder), closing(connect(path)) as db:
        migrate(db)
        refuse_unfinished(db)
        epoch = ensure_epoch(db)
        db.execute("BEGIN")
        if unknown := unknown_erasures(db, read_lines(folder / LEDGER)):
            # An export would bring back what they erased, and nothing would know of them.
            raise SetupError(
                f"{len(unknown)} erasures are not carried out in this store, which was restored "
                "from a backup: start the server on it once, then export"
            )
        yield SqliteSource(db, epoch)


_conforms: type[Source] = SqliteSource

# SPDX-License-Identifier: Apache-2.0
"""Imports all facts of a deployment into an empty embedded store.

Each transaction stores facts together with the progress of the import. Therefore the stored
progress always matches the stored facts, even if the process is killed.
"""

from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any, Final

import apsw
import msgspec

from tidings.data_folder import only_process
from tidings.model.attachments import LATE_BYTES_MS, Upload
from tidings.model.chats import DIRECT_MEMBERS
from tidings.model.push import PushSettings
from tidings.model.refusals import StoreUnavailable
from tidings.model.setup_error import SetupError
from tidings.model.webhooks import WebhookEndpoint
from tidings.ports.audit import AuditEntry
from tidings.ports.export_engines import ExportProgress, Target
from tidings.ports.export_facts import (
    AuditFact,
    BlockFact,
    ChatFact,
    DataKeyFact,
    EntryFact,
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
    UserCount,
    UserFact,
    WholeChat,
    Written,
    to_entry,
)
from tidings.ports.export_feature_facts import (
    BytesFact,
    ErasureFact,
    PushDeviceFact,
    PushSettingsFact,
    TenantJobFact,
    UploadFact,
    WebhookFact,
)
from tidings.ports.export_inbox_facts import (
    InboxFacts,
    converted,
)
from tidings.ports.tenant_jobs import TenantJob
from tidings.stores.sqlite.chat.uploads import KEEP_UPLOAD, upload_row
from tidings.stores.sqlite.engine.connections import DATABASE, DISK_TROUBLE, connect
from tidings.stores.sqlite.engine.rows import (
    INSERT_ENTRY,
    KEEP_MENTION,
    mention_rows,
    to_row,
)
from tidings.stores.sqlite.engine.schema import OLDEST_READER, migrate
from tidings.stores.sqlite.export.importing_inbox import INBOX_TABLES, inbox_statements
from tidings.stores.sqlite.identity.audit import KEEP, entry_to_row
from tidings.stores.sqlite.identity.erasing import (
    LEDGER,
    NOTE_ERASURE,
    append_lines,
    known_erasures,
)
from tidings.stores.sqlite.identity.push import PUT_PUSH_SETTINGS, push_settings_row
from tidings.stores.sqlite.identity.tenant_jobs import KEEP_JOB, to_job_row
from tidings.stores.sqlite.identity.webhooks import PUT_ENDPOINT, endpoint_row

_Statement = tuple[str, tuple[Any, ...]]
_IMPORT: Final = "import"
_LOG_PAGES_MAX: Final = 10_000
_EPOCH_ROW: Final = f"deployment WHERE name NOT IN ('epoch', '{OLDEST_READER}')"
_TABLES: Final = (
    "messages", "idempotency_keys", "chats", "direct_chats", "chat_memberships", "reactions",
    "delivery_state", "request_keys", "tenants", "tenant_keys", "signing_keys", "users", "keys",
    "sealed_secrets", "revocations", "token_issuers", "sessions",
    "login_codes", "budgets", "invites", "blocks", "reports", "audit", "chat_deletions",
    "push_devices", "push_settings",
    "tenant_jobs", "known_erasures", "mentions", "uploads", "webhooks",
    *INBOX_TABLES, _EPOCH_ROW,
)  # fmt: skip
_PLAIN: Final[dict[type[Any], str]] = {
    SecretFact: "sealed_secrets",
    TenantFact: "tenants",
    TenantKeyFact: "tenant_keys",
    SigningKeyFact: "signing_keys",
    IssuerFact: "token_issuers",
    RevocationFact: "revocations",
    SessionFact: "sessions",
    DataKeyFact: "keys",
    ReactionFact: "reactions",
    SendKeyFact: "idempotency_keys",
    InviteFact: "invites",
    ReportFact: "reports",
    BlockFact: "blocks",
    PushDeviceFact: "push_devices",
}
"""Facts whose fields are the columns of one table."""
_MEMBERSHIP: Final = (
    "chat_id", "user_id", "role", "joined_at", "joined", "muted_until", "except_mentions",
)  # fmt: skip
_RECEIPT: Final = (
    "user_id", "chat_id", "delivered", "read", "read_number", "is_own", "unread_from",
    "unread_number", "hidden_number", "delivered_times", "read_times",
)  # fmt: skip
_REQUEST: Final = ("user_id", "key", "digest", "chat_id", "expires_at")
_CHAT: Final = ChatFact.__struct_fields__
# An existing user is not changed. A phone number that another user already has is left out.
_INSERT_USER: Final = """
INSERT INTO users (user_id, display_name, phone_number, created_at, updated_at, last_seen_at,
    deactivated_at, revoked_at, avatar_url, metadata, email, phone_verified_at, hidden_at,
    deleted_at, banned_until)
SELECT ?1, ?2, iif(EXISTS (
    SELECT 1 FROM users WHERE substr(user_id, 1, instr(user_id, ':') - 1)
            = substr(?1, 1, instr(?1, ':') - 1)
        AND phone_number = ?3
), NULL, ?3), ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15
WHERE true ON CONFLICT (user_id) DO NOTHING
"""
_INSERT_ENTRY: Final = INSERT_ENTRY.replace("INSERT", "INSERT OR REPLACE", 1)


_decode = msgspec.json.Decoder(ExportProgress).decode


class SqliteTarget:
    """Writes facts into an empty store."""

    def __init__(self, db: apsw.Connection, folder: Path) -> None:
        self._db = db
        self._folder = folder

    async def begin(self) -> ExportProgress:
        found = _progress(self._db)
        if found is not None:
            return found
        for table in _TABLES:
            if self._db.execute(f"SELECT 1 FROM {table} LIMIT 1").get:
                raise SetupError(
                    "the store is not empty: an import needs a folder of its own, choose another "
                    "folder with --data"
                )
        begun = ExportProgress()
        await self.write([], begun)
        return begun

    async def write(self, facts: Sequence[Written], progress: ExportProgress) -> None:
        rows: defaultdict[str, list[tuple[Any, ...]]] = defaultdict(list)
        for fact in facts:
            for statement, row in _statements(fact):
                rows[statement].append(row)
        try:
            with self._db:
                for statement, some in rows.items():
                    self._db.executemany(statement, some)
                self._keep(_IMPORT, msgspec.json.encode(progress).decode())
        except DISK_TROUBLE as error:
            raise StoreUnavailable(f"the store cannot be written: {error}") from error

    async def finish(self, epoch: str) -> None:
        erasures = known_erasures(self._db)
        if erasures:
            append_lines(self._folder / LEDGER, erasures)
        with self._db:
            self._keep("epoch", epoch)
            self._db.execute("DELETE FROM deployment WHERE name = ?", (_IMPORT,))
        self._db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)

    def _keep(self, name: str, value: str) -> None:
        self._db.execute("INSERT OR REPLACE INTO deployment VALUES (?, ?)", (name, value))


def refuse_unfinished(db: apsw.Connection) -> None:
    """Refuse to open a store into which an import is not finished.

    Raises:
        SetupError: An import into the store is not finished.
    """
    if _progress(db) is not None:
        raise SetupError(
            "an import into this store is not finished: run `tidings import` with the same file "
            "again, which continues where it stopped, or start over in another folder"
        )


def _progress(db: apsw.Connection) -> ExportProgress | None:
    text = db.execute("SELECT value FROM deployment WHERE name = ?", (_IMPORT,)).get
    return _decode(text) if text else None


def _statements(fact: Written) -> Iterable[tuple[str, tuple[Any, ...]]]:
    match fact:
        case EntryFact():
            entry = to_entry(fact)
            mentions = [(KEEP_MENTION, row) for row in mention_rows(entry)]
            return [(_INSERT_ENTRY, to_row(entry)), *mentions]
        case UserFact():
            return [(_INSERT_USER, msgspec.structs.astuple(fact))]
        case MemberFact():
            return [
                _insert("chat_memberships", _MEMBERSHIP, fact),
                _insert("delivery_state", _RECEIPT, fact),
            ]
        case RequestKeyFact():
            # An unfinished request is left out: only an engine that creates large chats in several
            # transactions could finish it. Its client got no answer, and creates a new chat when
            # it tries again.
            return [_insert("request_keys", _REQUEST, fact)] if fact.is_finished else []
        case UploadFact():
            # The sweeper looks at the message, and comes again when the message expires.
            visit_at = fact.expires_at + LATE_BYTES_MS
            return [(KEEP_UPLOAD, upload_row(converted(Upload, fact), visit_at))]
        case ErasureFact():
            return [(NOTE_ERASURE, msgspec.structs.astuple(fact))]
        case PushSettingsFact():
            return [(PUT_PUSH_SETTINGS, push_settings_row(converted(PushSettings, fact)))]
        case WebhookFact():
            return [(PUT_ENDPOINT, endpoint_row(converted(WebhookEndpoint, fact)))]
        case TenantJobFact():
            return [(KEEP_JOB, to_job_row(converted(TenantJob, fact)))]
        case ChatFact() | UserCount() | BytesFact():
            return []
        case AuditFact():
            return [(KEEP, entry_to_row(converted(AuditEntry, fact)))]
        case WholeChat():
            return _chat(fact)
        case _ if isinstance(fact, InboxFacts):
            return inbox_statements(fact)
        case _:
            return [_insert(_PLAIN[type(fact)], fact.__struct_fields__, fact)]


def _chat(whole: WholeChat) -> list[tuple[str, tuple[Any, ...]]]:
    statement, row = _insert("chats", (*_CHAT, "member_count"), whole.chat, len(whole.members))
    if (job := whole.deletion) is not None:
        mark = "UPDATE chats SET deleted_at = ? WHERE chat_id = ?"
        return [
            (statement, row),
            (mark, (job.created_at, job.chat_id)),
            _insert("chat_deletions", job.__struct_fields__, job),
        ]
    if whole.chat.type != "direct" or len(whole.members) < DIRECT_MEMBERS:
        return [(statement, row)]
    pair = ("#".join(sorted(whole.members)), whole.chat.chat_id)
    return [(statement, row), ("INSERT OR REPLACE INTO direct_chats VALUES (?, ?)", pair)]


def _insert(
    table: str, columns: tuple[str, ...], fact: object, *more: int
) -> tuple[str, tuple[Any, ...]]:
    """Return an INSERT statement and its row.

    The row consists of the fact's fields that have the names of the columns, and then of `more`,
    the values of the last columns.
    """
    marks = ", ".join("?" * len(columns))
    row = [getattr(fact, name) for name in columns[: len(columns) - len(more)]]
    statement = f"INSERT OR REPLACE INTO {table} ({', '.join(columns)}) VALUES ({marks})"
    return statement, (*row, *more)


@asynccontextmanager
async def open_target(folder: Path) -> AsyncIterator[SqliteTarget]:
    """Open the store in this folder for an import, or create it if there is none.

    Raises:
        SetupError: Another process has opened the store, a newer version wrote it, or the file is
            not a store.
    """
    with only_process(folder), closing(connect(folder / DATABASE)) as db:
        migrate(db)
        db.pragma("wal_autocheckpoint", _LOG_PAGES_MAX)
        yield SqliteTarget(db, folder)


_conforms: type[Target] = SqliteTarget

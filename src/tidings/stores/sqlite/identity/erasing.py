# SPDX-License-Identifier: Apache-2.0
"""The deletion of users and tenants on SQLite: their data, and the ledger of erasures.

The ledger is a file beside the embedded store, and restored stores get the newest one. The table
`known_erasures` is part of the store. If the store is replaced by an older one, the table lacks the
later erasures, and the file still has them.
"""

import asyncio
import errno
import logging
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import apsw
import msgspec

from tidings.data_folder import sync_folder
from tidings.model.entries import place_of_mention
from tidings.model.ids import ChatId, UserKey, revoked_up_to, tenant_of
from tidings.model.refusals import StoreUnavailable
from tidings.ports.erasing import ErasureKind, Ledger, LedgerEntry, PersonalData, TenantData
from tidings.ports.people import Tenant, User
from tidings.ports.sessions import Revocation
from tidings.stores.sqlite.engine.connections import Readers
from tidings.stores.sqlite.engine.writer import Writer
from tidings.stores.sqlite.identity.sessions import revoked
from tidings.stores.sqlite.identity.tenants import find_tenant
from tidings.stores.sqlite.identity.users import find_user
from tidings.stores.sqlite.identity.webhooks import OF_PLACE

log = logging.getLogger("tidings.jobs")

LEDGER: Final = "erasures.jsonl"

_KNOWN: Final = "SELECT kind, subject, at FROM known_erasures ORDER BY kind, subject"
# The tenant is named as in the index of erased authors.
_ERASED_AT: Final = """
SELECT max(at) FROM revocations
WHERE kind = 'author' AND substr(subject, 1, instr(subject, ':') - 1) = ?2 AND subject = ?1
"""
NOTE_ERASURE: Final = """
INSERT INTO known_erasures (kind, subject, at) VALUES (?, ?, ?)
ON CONFLICT DO UPDATE SET at = max(at, excluded.at)
"""

# The names are positions, as `mention_position` makes them.
_MENTIONS: Final = """
SELECT format('%013d#%s#%016d', created_at, chat_id, sequence) FROM mentions WHERE user_id = ?
"""

_line = msgspec.json.Decoder(LedgerEntry)


class SqliteLedger:
    """Records erasures in a file in the data folder, and in a table of the store."""

    def __init__(self, folder: Path, writer: Writer, readers: Readers) -> None:
        self._path = folder / LEDGER
        self._writer = writer
        self._readers = readers
        self._turn = asyncio.Lock()

    async def append(self, erasure: LedgerEntry) -> None:
        async with self._turn:
            try:
                await asyncio.to_thread(append_lines, self._path, [erasure])
            except OSError as error:
                extra = {"action": "ledger_unwritable"}
                log.error("the ledger cannot be written: %s", error, extra=extra)
                raise StoreUnavailable from error

    async def finish(self, erasure: LedgerEntry) -> None:
        await self.note(erasure)

    async def note(self, erasure: LedgerEntry) -> None:
        def write(db: apsw.Connection) -> None:
            db.execute(NOTE_ERASURE, (erasure.kind, erasure.subject, erasure.at))

        await self._writer.write(write)

    async def unknown(self) -> list[LedgerEntry]:
        recorded = await asyncio.to_thread(read_lines, self._path)
        return await self._readers.read(lambda db: unknown_erasures(db, recorded))


def known_erasures(db: apsw.Connection) -> list[LedgerEntry]:
    """Return the erasures that the store knows, by kind and subject."""
    return [LedgerEntry(kind, subject, at) for kind, subject, at in db.execute(_KNOWN)]


def unknown_erasures(db: apsw.Connection, recorded: list[LedgerEntry]) -> list[LedgerEntry]:
    """Return those of the recorded erasures that the store does not know, oldest first."""
    times = {(each.kind, each.subject): each.at for each in known_erasures(db)}
    missing = [e for e in recorded if times.get((e.kind, e.subject), -1) < e.at]
    return sorted((e for e in missing if not _has_erased(db, e)), key=lambda erasure: erasure.at)


def _has_erased(db: apsw.Connection, erasure: LedgerEntry) -> bool:
    """Return True if content was erased, but the process died before it recorded that. To erase it
    again would also erase what the author has written since."""
    if erasure.kind != "content":
        return False
    erased_at: int | None = db.execute(
        _ERASED_AT, (erasure.subject, tenant_of(UserKey(erasure.subject)))
    ).get
    return erased_at is not None and erased_at >= erasure.at


def append_lines(path: Path, erasures: list[LedgerEntry]) -> None:
    """Add lines to the file, durably. A line that a crash cut off remains in the file."""
    lines = b"".join(b"\n" + msgspec.json.encode(erasure) for erasure in erasures)
    is_new = not path.exists()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    try:
        if os.write(descriptor, lines) < len(lines):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    if is_new:
        sync_folder(path.parent)


def read_lines(path: Path) -> list[LedgerEntry]:
    """Return the last erasure of each subject, without lines that were cut off."""
    return parse_lines(path.read_bytes()) if path.exists() else []


def parse_lines(ledger: bytes) -> list[LedgerEntry]:
    """Return the last erasure of each subject in the text of a ledger."""
    last: dict[tuple[ErasureKind, str], LedgerEntry] = {}
    for line in ledger.split(b"\n"):
        try:
            erasure = _line.decode(line)
        except msgspec.DecodeError:
            continue
        last[erasure.kind, erasure.subject] = erasure
    return list(last.values())


_MARK_USER: Final = """
INSERT INTO users (user_id, created_at, updated_at, deactivated_at, revoked_at, deleted_at)
VALUES (?, ?, ?, ?, ?, ?)
"""


class SqlitePersonalData:
    """Finds and removes the rows of a user in all tables."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def mark_deleted(self, user: UserKey, now: int) -> User:
        def write(db: apsw.Connection) -> User:
            mark = _mark_deleted(db, user, now)
            # The write-ahead log must not keep the profile.
            self._writer.empty_log_after_commit()
            return mark

        return await self._writer.write(write)

    async def sessions(self, user: UserKey, limit: int) -> list[str]:
        return await self._names("SELECT session_id FROM sessions WHERE user_id = ?", user, limit)

    async def forget_sessions(self, session_ids: Sequence[str]) -> None:
        await self._forget(
            "DELETE FROM sessions WHERE session_id = ?", [(name,) for name in session_ids]
        )

    async def forget_code(self, tenant: str, phone_number: str) -> None:
        await self._forget(
            "DELETE FROM login_codes WHERE tenant = ? AND phone_number = ?",
            [(tenant, phone_number)],
        )

    async def invites(self, user: UserKey, limit: int) -> list[ChatId]:
        found = await self._names("SELECT chat_id FROM invites WHERE user_id = ?", user, limit)
        return [ChatId(chat) for chat in found]

    async def forget_invites(self, user: UserKey, chats: Sequence[ChatId]) -> None:
        await self._forget(
            "DELETE FROM invites WHERE user_id = ? AND chat_id = ?",
            [(user, chat) for chat in chats],
        )

    async def mentions(self, user: UserKey, limit: int) -> list[str]:
        return await self._names(_MENTIONS, user, limit)

    async def forget_mentions(self, user: UserKey, positions: Sequence[str]) -> None:
        places = [place_of_mention(position) for position in positions]
        await self._forget(
            "DELETE FROM mentions WHERE user_id = ? AND chat_id = ? AND sequence = ?",
            [(user, chat, sequence) for _, chat, sequence in places],
        )

    async def requests(self, user: UserKey, limit: int) -> list[str]:
        return await self._names("SELECT key FROM request_keys WHERE user_id = ?", user, limit)

    async def forget_requests(self, user: UserKey, keys: Sequence[str]) -> None:
        await self._forget(
            "DELETE FROM request_keys WHERE user_id = ? AND key = ?", [(user, key) for key in keys]
        )

    async def forget_copies(
        self, user: UserKey, inbox: str, notification_ids: Sequence[str]
    ) -> None:
        await self._forget(
            "DELETE FROM copies WHERE user_id = ? AND inbox = ? AND notification_id = ?",
            [(user, inbox, name) for name in notification_ids],
        )

    async def forget_marks(self, user: UserKey, inbox: str) -> None:
        for table in ("read_states", "read_announcements", "broadcast_states"):
            await self._forget(
                f"DELETE FROM {table} WHERE user_id = ? AND inbox = ?", [(user, inbox)]
            )

    async def _names(self, statement: str, user: UserKey, limit: int) -> list[str]:
        return await self._readers.read(
            lambda db: [name for (name,) in db.execute(f"{statement} LIMIT ?", (user, limit))]
        )

    async def _forget(self, statement: str, rows: Iterable[tuple[Any, ...]]) -> None:
        def write(db: apsw.Connection) -> None:
            db.executemany(statement, rows)

        await self._writer.write(write, rows=25)


def _mark_deleted(db: apsw.Connection, user: UserKey, now: int) -> User:
    before = find_user(db, user)
    if before is not None and before.deleted_at is not None:
        return before
    revoked_at = revoked_up_to(now, before.revoked_at if before else None)
    created_at = before.created_at if before else now
    # A new row has none of the columns of the profile, whichever there are.
    db.execute("DELETE FROM users WHERE user_id = ?", (user,))
    db.execute(_MARK_USER, (user, created_at, now, now, revoked_at, now))
    revoked(db, Revocation(kind="user", subject=user, at=revoked_at))
    mark = find_user(db, user)
    assert mark is not None, "the mark was stored"
    return mark


_MARK_TENANT: Final = """
INSERT INTO tenants (tenant, created_at, suspended_at, deleted_at) VALUES (?1, ?2, ?2, ?2)
ON CONFLICT DO UPDATE SET suspended_at = coalesce(suspended_at, ?2), deleted_at = ?2
"""
_OF_TENANT: Final = (
    "tenant_keys",
    "signing_keys",
    "token_issuers",
    "tenant_settings",
    "tenant_events",
    "webhooks",
    "push_settings",
)


class SqliteTenantData:
    """Removes the rows of a tenant from all tables."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer

    async def mark_deleted(self, tenant: str, now: int) -> Tenant:
        def write(db: apsw.Connection) -> Tenant:
            mark = find_tenant(db, tenant)
            if mark is None or mark.deleted_at is None:
                db.execute(_MARK_TENANT, (tenant, now))
                revoked(db, Revocation(kind="tenant", subject=tenant, at=now))
                mark = find_tenant(db, tenant)
            assert mark is not None, "the mark was stored"
            return mark

        return await self._writer.write(write)

    async def forget_inbox(self, tenant: str, inbox: str) -> None:
        def write(db: apsw.Connection) -> None:
            db.execute("DELETE FROM inboxes WHERE tenant = ? AND inbox = ?", (tenant, inbox))

        await self._writer.write(write)

    async def forget(self, tenant: str) -> None:
        def write(db: apsw.Connection) -> None:
            for table in OF_PLACE:
                db.execute(
                    f"DELETE FROM {table} WHERE place IN"
                    " (SELECT place FROM webhooks WHERE tenant = ?)",
                    (tenant,),
                )
            for table in _OF_TENANT:
                db.execute(f"DELETE FROM {table} WHERE tenant = ?", (tenant,))
            db.execute(
                "REPLACE INTO tenants (tenant, created_at, suspended_at, deleted_at)"
                " SELECT tenant, created_at, suspended_at, deleted_at FROM tenants"
                " WHERE tenant = ?",
                (tenant,),
            )
            self._writer.empty_log_after_commit()

        await self._writer.write(write)


_conforms: tuple[type[Ledger], type[PersonalData], type[TenantData]] = (
    SqliteLedger,
    SqlitePersonalData,
    SqliteTenantData,
)

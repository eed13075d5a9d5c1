# SPDX-License-Identifier: Apache-2.0
"""Deletion of chats on SQLite, in steps.

Each step is a short transaction that also stores the progress of the deletion.
"""

from typing import Final

import apsw
import msgspec

from tidings.model.entries import Deletion, Entry, deletion_of
from tidings.model.ids import ChatId, tenant_itself
from tidings.model.limits import DELETE_STEP_ROWS
from tidings.ports.chats import Deletions
from tidings.stores.sqlite.chat.search import forget_index
from tidings.stores.sqlite.chat.uploads import visit_files_of
from tidings.stores.sqlite.engine.connections import Readers
from tidings.stores.sqlite.engine.rows import columns, from_row, insert
from tidings.stores.sqlite.engine.writer import Writer

_JOB: Final = f"SELECT {columns(Deletion)} FROM chat_deletions WHERE chat_id = ?"
_UNFINISHED: Final = """
SELECT chat_id FROM chat_deletions WHERE phase <> 'done' AND created_at <= ?
ORDER BY phase <> 'started', updated_at LIMIT ?
"""
_PROGRESS: Final = """
UPDATE chat_deletions SET phase = ?, emptied = ?, updated_at = ? WHERE chat_id = ?
"""
_MEMBERS: Final = "SELECT user_id, chat_id FROM chat_memberships WHERE chat_id = ? LIMIT ?"
_FORGET_KEYS: Final = """
DELETE FROM idempotency_keys WHERE chat_id = ?1 AND (sender, client_message_id) IN (
    SELECT sender, client_message_id FROM idempotency_keys WHERE chat_id = ?1 LIMIT ?2)
"""
_FORGET_REACTIONS: Final = """
DELETE FROM reactions WHERE chat_id = ?1 AND (sequence, emoji, user_id) IN (
    SELECT sequence, emoji, user_id FROM reactions
    WHERE chat_id = ?1 AND sequence > ?2 AND sequence <= ?3 LIMIT ?4)
"""
_FORGET_MENTIONS: Final = """
DELETE FROM mentions WHERE chat_id = ? AND sequence > ? AND sequence <= ?
"""
_EMPTY: Final = """
UPDATE messages SET sender = ?, redacted = 1, client_message_id = NULL, content_type = NULL,
    box = NULL, box_key = 0, expires_at = NULL, edited_at = NULL, reactions = NULL, target = NULL,
    emoji = NULL, people = NULL, name = NULL, reply_to = NULL, reply_count = 0,
    mentions = NULL, pinned = 0, silent = 0, posted_by = NULL, files = NULL
WHERE chat_id = ? AND sequence > ? AND sequence <= ? AND kind <> 'deleted'
"""


class SqliteDeletions:
    """Stores and performs deletion jobs.

    A lease is always granted, since only one process uses the store.
    """

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def get(self, chat: ChatId) -> Deletion | None:
        return await self._readers.read(lambda db: _job(db, chat))

    async def unfinished(self, *, before: int, limit: int) -> list[ChatId]:
        def read(db: apsw.Connection) -> list[ChatId]:
            return [chat for (chat,) in db.execute(_UNFINISHED, (before, limit))]

        return await self._readers.read(read)

    async def lease(self, chat: ChatId, holder: str, now: int) -> Deletion | None:
        return await self.get(chat)

    async def step(self, deletion: Deletion, holder: str, now: int) -> Deletion | None:
        def write(db: apsw.Connection) -> Deletion:
            before = _job(db, deletion.chat_id)
            assert before is not None, "a job that was begun is never removed"
            after = msgspec.structs.replace(_step(db, before), updated_at=now)
            db.execute(_PROGRESS, (after.phase, after.emptied, now, after.chat_id))
            return after

        return await self._writer.write(write, rows=2 * DELETE_STEP_ROWS)


def begin_deletion(db: apsw.Connection, entry: Entry) -> None:
    """Mark the chat as deleted, and store the job that removes its content.

    If the chat is direct, its two users can create a new one from now on.
    """
    db.execute(
        "UPDATE chats SET deleted_at = ? WHERE chat_id = ?", (entry.created_at, entry.chat_id)
    )
    users = [user for user, _ in db.execute(_MEMBERS, (entry.chat_id, 2))]
    db.execute(
        "DELETE FROM direct_chats WHERE pair = ? AND chat_id = ?",
        ("#".join(sorted(users)), entry.chat_id),
    )
    insert(db, "chat_deletions", deletion_of(entry))


def _job(db: apsw.Connection, chat: ChatId) -> Deletion | None:
    row = db.execute(_JOB, (chat,)).fetchone()
    return from_row(Deletion, row) if row else None


def _step(db: apsw.Connection, job: Deletion) -> Deletion:
    match job.phase:
        case "started":
            return _remove_members(db, job)
        case "members_removed":
            db.execute(_FORGET_KEYS, (job.chat_id, DELETE_STEP_ROWS))
            is_over = db.changes() < DELETE_STEP_ROWS
            return msgspec.structs.replace(job, phase="keys_removed") if is_over else job
        case "keys_removed":
            return _empty_entries(db, job)
        case "done":
            return job


def _remove_members(db: apsw.Connection, job: Deletion) -> Deletion:
    rows = db.execute(_MEMBERS, (job.chat_id, DELETE_STEP_ROWS)).fetchall()
    db.executemany("DELETE FROM delivery_state WHERE user_id = ? AND chat_id = ?", rows)
    db.executemany("DELETE FROM chat_memberships WHERE user_id = ? AND chat_id = ?", rows)
    if len(rows) == DELETE_STEP_ROWS:
        return job
    db.execute("UPDATE chats SET name = NULL, member_count = 0 WHERE chat_id = ?", (job.chat_id,))
    return msgspec.structs.replace(job, phase="members_removed")


def _empty_entries(db: apsw.Connection, job: Deletion) -> Deletion:
    last = min(job.emptied + DELETE_STEP_ROWS, job.entries)
    db.execute(_FORGET_REACTIONS, (job.chat_id, job.emptied, last, DELETE_STEP_ROWS))
    if db.changes() == DELETE_STEP_ROWS:
        return job
    db.execute(_FORGET_MENTIONS, (job.chat_id, job.emptied, last))
    span = (job.chat_id, job.emptied, last)
    where = "chat_id = ? AND sequence > ? AND sequence <= ?"
    visit_files_of(db, where, span, job.created_at)
    db.execute(_EMPTY, (tenant_itself(job.tenant), job.chat_id, job.emptied, last))
    if last < job.entries:
        return msgspec.structs.replace(job, emptied=last)
    forget_index(db, job.chat_id)  # earlier, it could be built again from what was not empty yet
    return msgspec.structs.replace(job, phase="done", emptied=last)


_conforms: type[Deletions] = SqliteDeletions

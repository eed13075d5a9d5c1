# SPDX-License-Identifier: Apache-2.0
"""Opens the embedded store to verify it, and compares the data that it derives from facts."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import apsw

from tidings.model.attachments import Upload
from tidings.model.ids import UserKey
from tidings.model.limits import REPLY_COUNT_MAX
from tidings.model.setup_error import SetupError
from tidings.ports.export_engines import Inspection, Violation
from tidings.stores.sqlite.chat.uploads import find_uploads
from tidings.stores.sqlite.engine.connections import DATABASE, open_to_read
from tidings.stores.sqlite.engine.schema import VERSION, refuse_newer
from tidings.stores.sqlite.export.exporting import SqliteSource
from tidings.stores.sqlite.export.importing import refuse_unfinished

_DAMAGE_MAX: Final = 20

_RULES: Final = {
    "a member without a receipt": """
        SELECT chat_id || ' ' || user_id FROM chat_memberships AS m WHERE NOT EXISTS (
            SELECT 1 FROM delivery_state AS d WHERE d.user_id = m.user_id AND d.chat_id = m.chat_id)
    """,
    "a receipt without a member": """
        SELECT chat_id || ' ' || user_id FROM delivery_state AS d WHERE NOT EXISTS (
            SELECT 1 FROM chat_memberships AS m
            WHERE m.user_id = d.user_id AND m.chat_id = d.chat_id)
    """,
    "the member count differs": """
        SELECT chat_id FROM chats AS c WHERE deleted_at IS NULL AND member_count <> (
            SELECT count(*) FROM chat_memberships AS m WHERE m.chat_id = c.chat_id)
    """,
    "the count of users differs": """
        SELECT coalesce(c.tenant, f.tenant) FROM user_counts AS c FULL JOIN (
            SELECT substr(user_id, 1, instr(user_id, ':') - 1) AS tenant, count(*) AS users
            FROM users WHERE deleted_at IS NULL GROUP BY 1) AS f ON f.tenant = c.tenant
        WHERE coalesce(c.users, 0) <> coalesce(f.users, 0)
    """,
    "the count of chats differs": """
        SELECT coalesce(c.user_id, f.user_id) FROM chat_counts AS c FULL JOIN (
            SELECT user_id, count(*) AS chats FROM delivery_state GROUP BY 1) AS f
            ON f.user_id = c.user_id
        WHERE coalesce(c.chats, 0) <> coalesce(f.chats, 0)
    """,
    "a log without a chat": """
        SELECT DISTINCT chat_id FROM messages AS e WHERE sequence = 1 AND NOT EXISTS (
            SELECT 1 FROM chats AS c WHERE c.chat_id = e.chat_id)
    """,
    "two direct chats of one pair, or a pair without a chat": """
        SELECT pair FROM direct_chats AS d WHERE NOT EXISTS (
            SELECT 1 FROM chats AS c WHERE c.chat_id = d.chat_id AND c.type = 'direct')
    """,
    "a pending scheduled message is never due": """
        SELECT user_id || ' ' || scheduled_id FROM scheduled AS s
        WHERE state IN ('pending', 'firing') AND NOT EXISTS (
            SELECT 1 FROM due AS d
            WHERE d.kind = 'message' AND d.at = s.send_at AND d.item_id = s.scheduled_id)
    """,
    "a reaction to no message": """
        SELECT chat_id || ' ' || sequence FROM reactions AS r WHERE NOT EXISTS (
            SELECT 1 FROM messages AS e WHERE e.chat_id = r.chat_id AND e.sequence = r.sequence)
    """,
    "a message pinned by no entry": """
        SELECT t.chat_id || ' ' || t.sequence FROM messages AS t
        WHERE t.pinned > 0 AND NOT EXISTS (SELECT 1 FROM messages AS p
            WHERE p.chat_id = t.chat_id AND p.sequence = t.pinned AND p.kind = 'pinned'
                AND p.target = t.sequence)
    """,
    "a wrong count of replies": f"""
        SELECT t.chat_id || ' ' || t.sequence FROM messages AS t
        JOIN chats AS c ON c.chat_id = t.chat_id AND c.deleted_at IS NULL
        WHERE t.reply_count <> min({REPLY_COUNT_MAX}, (
            SELECT count(*) FROM messages AS r
            WHERE r.chat_id = t.chat_id AND r.reply_to = t.sequence))
    """,
}
"""Rules for derived data; each query returns the places that break one."""


class SqliteInspection(SqliteSource):
    """Reads all facts from a snapshot of a store that a server may be using."""

    def __init__(self, db: apsw.Connection, epoch: str, folder: Path) -> None:
        super().__init__(db, epoch)
        self._folder = folder

    async def disagreements(self) -> AsyncIterator[Violation]:
        """Yield where the file or the derived data disagrees with the facts."""
        for (text,) in self._db.execute(f"PRAGMA integrity_check({_DAMAGE_MAX})"):
            if text != "ok":
                yield Violation(DATABASE, str(text))
        for what, places in _RULES.items():
            for (where,) in self._db.execute(places):
                yield Violation(str(where), what)

    async def upload(self, owner: UserKey, attachment_id: str) -> Upload | None:
        """Return an upload as it is now, not as it is in the snapshot."""
        with open_to_read(self._folder) as db:
            found = find_uploads(db, owner, [attachment_id])
        return found[0] if found else None


@asynccontextmanager
async def open_inspection(folder: Path) -> AsyncIterator[SqliteInspection]:
    """Open the store in this folder to verify it, whether or not a server uses it.

    Raises:
        SetupError: There is no store, it has another schema, or an import into it is not finished.
    """
    with open_to_read(folder) as db:
        found = db.pragma("user_version")
        if not refuse_newer(db) and found != VERSION:
            raise SetupError(
                f"the store has schema {found}, this version of Tidings verifies {VERSION}: "
                "start the server of this version once"
            )
        refuse_unfinished(db)
        epoch = str(db.execute("SELECT value FROM deployment WHERE name = 'epoch'").get)
        yield SqliteInspection(db, epoch, folder)


_conforms: type[Inspection] = SqliteInspection

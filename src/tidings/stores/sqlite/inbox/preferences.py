# SPDX-License-Identifier: Apache-2.0
"""Users' preferences in inboxes, on SQLite. They are a column of the users' read marks."""

from collections.abc import Mapping, Sequence
from typing import Final

import apsw
import msgspec

from tidings.model.ids import UserKey
from tidings.model.preferences import Preferences
from tidings.ports.preferences import PreferenceStore
from tidings.stores.sqlite.engine.connections import Readers
from tidings.stores.sqlite.engine.writer import Writer

_PUT: Final = """
INSERT INTO read_states (user_id, inbox, before, announced, preferences) VALUES (?, ?, 0, 0, ?)
ON CONFLICT DO UPDATE SET preferences = excluded.preferences
"""
_PRESENT: Final = "SELECT preferences FROM read_states WHERE user_id = ? AND inbox = ?"
_BEGIN: Final = "UPDATE inboxes SET has_preferences = 1 WHERE tenant = ? AND inbox = ?"
_OF: Final = """
SELECT user_id, preferences FROM read_states WHERE preferences IS NOT NULL
    AND user_id IN (SELECT value FROM json_each(?)) AND inbox = ?
"""
_preferences = msgspec.json.Decoder(Preferences)


class SqlitePreferences:
    """Stores preferences as JSON."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def put(self, user: UserKey, inbox: str, preferences: Preferences) -> None:
        row = (user, inbox, preferences_to_column(preferences))

        def write(db: apsw.Connection) -> None:
            db.execute(_PUT, row)

        await self._writer.write(write, rows=1)

    async def replace(
        self, user: UserKey, inbox: str, before: Preferences | None, after: Preferences
    ) -> bool:
        row, stored = (user, inbox, preferences_to_column(after)), preferences_to_column(before)

        def write(db: apsw.Connection) -> bool:
            if db.execute(_PRESENT, row[:2]).get != stored:
                return False
            db.execute(_PUT, row)
            return True

        return await self._writer.write(write, rows=1)

    async def begin(self, tenant: str, inbox: str) -> bool:
        def write(db: apsw.Connection) -> bool:
            db.execute(_BEGIN, (tenant, inbox))
            return db.changes() > 0

        return await self._writer.write(write, rows=1)

    async def of(self, users: Sequence[UserKey], inbox: str) -> Mapping[UserKey, Preferences]:
        wanted = (msgspec.json.encode(list(users)).decode(), inbox)
        return await self._readers.read(
            lambda db: {
                UserKey(user): _preferences.decode(text) for user, text in db.execute(_OF, wanted)
            }
        )


def preferences_to_column(preferences: Preferences | None) -> str | None:
    """Convert preferences to the value of their column."""
    return None if preferences is None else msgspec.json.encode(preferences).decode()


def preferences_from_column(text: str | None) -> Preferences | None:
    """Convert the value of the column to preferences."""
    return None if text is None else _preferences.decode(text)


_conforms: type[PreferenceStore] = SqlitePreferences

# SPDX-License-Identifier: Apache-2.0
"""The search index on SQLite. All segments of a step are written in one transaction."""

from collections.abc import Sequence
from typing import Any, Final

import apsw
import msgspec

from tidings.model.ids import ChatId
from tidings.ports.search import AuthorWords, IndexState, SearchIndex, Segment
from tidings.stores.sqlite.engine.connections import Readers
from tidings.stores.sqlite.engine.writer import Writer

SEGMENT_COST: Final = 1
_STATE: Final = "SELECT until, mark, changed_at FROM search_states WHERE chat_id = ?"
_SEGMENTS: Final = """
SELECT number, until, began_at, version, unlisted, unlisted_until, parts FROM search_segments
WHERE chat_id = ? AND number BETWEEN ? AND ? ORDER BY number DESC
"""
_VERSION: Final = "SELECT version FROM search_segments WHERE chat_id = ? AND number = ?"
_PUT: Final = "INSERT OR REPLACE INTO search_segments VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_PUT_STATE: Final = "INSERT OR REPLACE INTO search_states VALUES (?, ?, ?, ?)"

_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(tuple[AuthorWords, ...]).decode


class SqliteSearchIndex:
    """Stores the index of each chat in two tables."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    @property
    def segment_cost(self) -> int:
        return SEGMENT_COST

    async def state(self, chat: ChatId) -> IndexState:
        return await self._readers.read(lambda db: _state(db, chat))

    async def segments(
        self, chat: ChatId, first: int, last: int, *, strong: bool = False
    ) -> list[Segment]:
        def read(db: apsw.Connection) -> list[Segment]:
            return [_segment(row) for row in db.execute(_SEGMENTS, (chat, first, last))]

        return await self._readers.read(read)

    async def put(
        self, chat: ChatId, segments: Sequence[Segment], before: IndexState, after: IndexState
    ) -> bool:
        rows = [(chat, *_row(segment)) for segment in segments]

        def write(db: apsw.Connection) -> bool:
            versions = [db.execute(_VERSION, (chat, each.number)).get or 0 for each in segments]
            if _state(db, chat).until != before.until:
                return False
            if versions != [each.version - 1 for each in segments]:
                return False
            db.executemany(_PUT, rows)
            db.execute(_PUT_STATE, (chat, after.until, after.mark, after.changed_at))
            return True

        return await self._writer.write(write, rows=len(rows) + 1)

    async def forget(self, chat: ChatId) -> None:
        await self._writer.write(lambda db: forget_index(db, chat))


def forget_index(db: apsw.Connection, chat: ChatId) -> None:
    """Remove the index of a chat."""
    db.execute("DELETE FROM search_states WHERE chat_id = ?", (chat,))
    db.execute("DELETE FROM search_segments WHERE chat_id = ?", (chat,))


def _state(db: apsw.Connection, chat: ChatId) -> IndexState:
    row = db.execute(_STATE, (chat,)).fetchone()
    return IndexState(until=row[0], mark=row[1], changed_at=row[2]) if row else IndexState()


def _row(segment: Segment) -> tuple[Any, ...]:
    return (
        segment.number,
        segment.until,
        segment.began_at,
        segment.version,
        segment.unlisted,
        segment.unlisted_until,
        _encode(segment.parts),
    )


def _segment(row: tuple[Any, ...]) -> Segment:
    number, until, began_at, version, unlisted, unlisted_until, parts = row
    return Segment(
        number=number,
        until=until,
        began_at=began_at,
        version=version,
        unlisted=unlisted,
        unlisted_until=unlisted_until,
        parts=_decode(parts),
    )


_conforms: type[SearchIndex] = SqliteSearchIndex

# SPDX-License-Identifier: Apache-2.0
"""Conversion between structs and rows: any struct by its fields, and log entries."""

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

import apsw
import msgspec

from tidings.model.chat_settings import ChatSettings
from tidings.model.chats import Receipt
from tidings.model.entries import EVERYONE, Entry, Person
from tidings.ports.people import Listed

_T = TypeVar("_T", bound=msgspec.Struct)
_R = TypeVar("_R")
_COLUMNS: Final = (
    "chat_id",
    "sequence",
    "kind",
    "sender",
    "created_at",
    "number",
    "last_message",
    "active_at",
    "mark",
    "client_message_id",
    "content_type",
    "box",
    "box_key",
    "expires_at",
    "edited_at",
    "redacted",
    "reactions",
    "target",
    "emoji",
    "people",
    "name",
    "reply_to",
    "reply_count",
    "mentions",
    "pinned",
    "silent",
    "posted_by",
    "settings",
    "files",
)
COLUMNS: Final = ", ".join(_COLUMNS)
_RECEIPT: Final = ("user_id", *Receipt.__struct_fields__[1:])
RECEIPT: Final = ", ".join(f"d.{column}" for column in _RECEIPT)
"""The columns of a receipt, in the order of its fields; `d` is the alias of the table."""
RETURNED_RECEIPT: Final = ", ".join(_RECEIPT)
"""The columns of a receipt without the alias of the table, which `RETURNING` does not accept."""
INSERT_ENTRY: Final = f"INSERT INTO messages ({COLUMNS}) VALUES ({', '.join('?' * len(_COLUMNS))})"
INSERT_MESSAGE: Final = (
    "INSERT INTO messages (chat_id, sequence, kind, sender, created_at, number, last_message,"
    " active_at, mark, client_message_id, content_type, box, box_key, expires_at)"
    " VALUES (?, ?, 'message', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)

KEEP_MENTION: Final = "INSERT OR REPLACE INTO mentions VALUES (?, ?, ?, ?)"


def columns(kind: type[msgspec.Struct]) -> str:
    """Return the column names of a struct, in the order of its fields."""
    return ", ".join(kind.__struct_fields__)


def insert_once(table: str, kind: type[msgspec.Struct]) -> str:
    """Return the statement that inserts a row unless its key exists."""
    marks = ", ".join("?" * len(kind.__struct_fields__))
    return f"INSERT OR IGNORE INTO {table} ({columns(kind)}) VALUES ({marks})"


def insert(db: apsw.Connection, table: str, noun: msgspec.Struct, *, replace: bool = False) -> None:
    """Insert a row within an open transaction.

    If `replace` is true, a row with the same key is replaced. If it is false, such a row makes the
    statement fail.
    """
    kind, verb = type(noun), "INSERT OR REPLACE" if replace else "INSERT"
    marks = ", ".join("?" * len(kind.__struct_fields__))
    db.execute(
        f"{verb} INTO {table} ({columns(kind)}) VALUES ({marks})", msgspec.structs.astuple(noun)
    )


def from_row(kind: type[_T], row: tuple[Any, ...]) -> _T:
    """Convert a row that was selected with `columns` to a struct."""
    return kind(**dict(zip(kind.__struct_fields__, row, strict=True)))


def listed(rows: list[_R], limit: int, position: Callable[[_R], str]) -> Listed[_R]:
    """Return the first `limit` rows as a page; a further row shows that the list continues."""
    page = rows[:limit]
    return Listed(page, position(page[-1]) if len(rows) > limit else None)


def place_below(position: str | None) -> tuple[int, str]:
    """Return the time and the name in a position; without a position, values that sort above all
    rows."""
    if position is None:
        return 2**63 - 1, ""
    created_at, _, name = position.partition("#")
    return int(created_at), name


def columns_of(table: str) -> str:
    """Return the columns of an entry, each prefixed with the alias of its table."""
    return ", ".join(f"{table}.{column}" for column in _COLUMNS)


_people = msgspec.json.Decoder(tuple[Person, ...])
_reactions = msgspec.json.Decoder(dict[str, int])
_mentions = msgspec.json.Decoder(tuple[str, ...])
_settings = msgspec.json.Decoder(ChatSettings)
_encode = msgspec.json.Encoder().encode


def to_message_rows(entries: Iterable[Entry]) -> list[tuple[Any, ...]]:
    """Convert new messages to rows for `INSERT_MESSAGE`.

    Messages without options are the most frequent entries, so only the columns that such a message
    can have are written.
    """
    return [
        (
            entry.chat_id,
            entry.sequence,
            entry.sender,
            entry.created_at,
            entry.number,
            entry.last_message,
            entry.active_at,
            entry.mark,
            entry.client_message_id,
            entry.content_type,
            entry.box,
            entry.box_key,
            entry.expires_at,
        )
        for entry in entries
    ]


def to_row(entry: Entry) -> tuple[Any, ...]:
    """Convert any entry to a row.

    The content of an edit is left out, because the edited message stores it.
    """
    keeps_box = entry.kind == "message"
    return (
        entry.chat_id,
        entry.sequence,
        entry.kind,
        entry.sender,
        entry.created_at,
        entry.number,
        entry.last_message,
        entry.active_at,
        entry.mark,
        entry.client_message_id,
        entry.content_type,
        entry.box if keeps_box else None,
        entry.box_key if keeps_box else 0,
        entry.expires_at,
        entry.edited_at,
        int(entry.redacted),
        _encode(entry.reactions).decode() if entry.reactions else None,
        entry.target,
        entry.emoji,
        _encode(entry.people).decode() if entry.people else None,
        entry.name,
        entry.reply_to,
        entry.reply_count,
        _encode(entry.mentions).decode() if entry.mentions else None,
        entry.pinned,
        int(entry.silent),
        entry.posted_by,
        _encode(entry.settings).decode() if entry.settings else None,
        entry.files if keeps_box else None,
    )


def mention_rows(entry: Entry) -> list[tuple[Any, ...]]:
    """Return a row for `KEEP_MENTION` for each user whom a message mentions."""
    users = EVERYONE if entry.mentions == EVERYONE else entry.mentioned
    return [(entry.chat_id, entry.sequence, user, entry.created_at) for user in users]


def to_entry(row: tuple[Any, ...]) -> Entry:
    """Convert a row that was selected with COLUMNS to an entry."""
    fields = dict(zip(_COLUMNS, row, strict=True))
    fields["redacted"] = bool(fields["redacted"])
    fields["silent"] = bool(fields["silent"])
    fields["reactions"] = _reactions.decode(fields["reactions"]) if fields["reactions"] else None
    fields["people"] = _people.decode(fields["people"]) if fields["people"] else ()
    fields["mentions"] = _mentions.decode(fields["mentions"]) if fields["mentions"] else ()
    fields["settings"] = _settings.decode(fields["settings"]) if fields["settings"] else None
    return Entry(**fields)

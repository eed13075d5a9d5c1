# SPDX-License-Identifier: Apache-2.0
"""The write job of a run of entries.

It claims the idempotency keys, inserts the entries, and changes the rows that the entries affect.
"""

from collections.abc import Callable
from typing import Any, Final

import apsw
import msgspec

from tidings.logs.requests import Requests
from tidings.model import limits
from tidings.model.entries import Entry, SendKey
from tidings.ports.log import Declined, Failed, Kept, KeyTaken, Outcome, Run, SlotTaken
from tidings.ports.world import Failpoints
from tidings.stores.sqlite.chat import members
from tidings.stores.sqlite.chat.deletions import begin_deletion
from tidings.stores.sqlite.chat.uploads import take_uploads, visit_files_of
from tidings.stores.sqlite.engine.rows import (
    INSERT_ENTRY,
    INSERT_MESSAGE,
    KEEP_MENTION,
    mention_rows,
    to_message_rows,
    to_row,
)
from tidings.stores.sqlite.engine.write_jobs import Bulk, JobWritten, UndoWrite, WriteJob
from tidings.stores.sqlite.identity.webhooks import OWE_ENTRIES, FollowedTenants

_CLAIM: Final = "INSERT INTO idempotency_keys VALUES (?, ?, ?, ?, ?, ?)"
_RECLAIM: Final = "INSERT OR REPLACE INTO idempotency_keys VALUES (?, ?, ?, ?, ?, ?)"
_PINNED: Final = "SELECT pinned FROM messages WHERE chat_id = ? AND sequence = ?"
_PIN_COUNT: Final = "SELECT count(*) FROM messages WHERE chat_id = ? AND pinned > 0"
_REDACTION: Final = """
box = NULL, box_key = 0, redacted = 1, reactions = NULL, mentions = NULL, files = NULL
"""
_KEPT: Final = Kept()

_reactions = msgspec.json.Decoder(dict[str, int])


class RunJob:
    """Write job for one run: either all of its entries are written or none."""

    def __init__(
        self,
        make_run: Callable[[], Run | None],
        failpoints: Failpoints,
        followed: FollowedTenants,
    ) -> None:
        self._make_run = make_run
        self._followed = followed
        self._run: Run | None = None
        self._failpoints = failpoints

    def prepare(self) -> int:
        self._run = self._make_run()
        return 2 * self.entry_count

    @property
    def entry_count(self) -> int:
        return len(self._run.entries) if self._run is not None else 0

    @property
    def requests(self) -> Requests:
        return self._run.requests() if self._run is not None else ()

    def bulk(self) -> Bulk | None:
        run = self._prepared
        if self._failpoints.armed("between_key_and_entry"):
            return None
        for entry in run.entries:
            if entry.kind != "message" or entry.has_options:
                return None
        owed = self._followed.owed(run.entries)
        return [
            (_CLAIM, _claim_rows(run)),
            (INSERT_MESSAGE, to_message_rows(run.entries)),
            *([(OWE_ENTRIES, [owed])] if owed else ()),
        ]

    @property
    def _prepared(self) -> Run:
        assert self._run is not None, "a run is made before it is written"
        return self._run

    def write(self, db: apsw.Connection) -> Outcome:
        run = self._prepared
        _claim_keys(db, run)
        keys_stay = self._failpoints.armed("between_key_and_entry")
        if keys_stay:
            # Imitate an engine without a common transaction, which may store keys without entries.
            db.execute("RELEASE job; COMMIT")
            self._failpoints.reach("between_key_and_entry")
            db.execute("BEGIN IMMEDIATE; SAVEPOINT job")
        if _exists(db, run.entries[0]):
            raise UndoWrite(SlotTaken(keys_are_claimed=keys_stay))
        for index, entry in enumerate(run.entries):
            db.execute(INSERT_ENTRY, to_row(entry))
            _apply(db, index, entry)
        if (owed := self._followed.owed(run.entries)) is not None:
            db.execute(OWE_ENTRIES, owed)
        return _KEPT

    def settle(self, outcome: Any) -> None:  # noqa: ANN401
        self._prepared.settle(_KEPT if outcome is JobWritten else outcome)

    def fail(self) -> None:
        run = self._run or self._make_run()
        if run is not None:
            run.settle(Failed())


def _claim_keys(db: apsw.Connection, run: Run) -> None:
    now = run.entries[0].created_at
    taken = tuple(
        index
        for index, key in enumerate(run.keys)
        if key is not None and _is_claimed(db, run.chat_id, key, now)
    )
    if taken:
        raise UndoWrite(KeyTaken(taken))
    db.executemany(_RECLAIM, _claim_rows(run))


def _claim_rows(run: Run) -> list[tuple[Any, ...]]:
    return [
        (
            run.chat_id,
            key.sender,
            key.client_message_id,
            entry.sequence,
            key.digest,
            key.expires_at,
        )
        for key, entry in zip(run.keys, run.entries, strict=True)
        if key is not None
    ]


def _is_claimed(db: apsw.Connection, chat: str, key: SendKey, now: int) -> bool:
    """Return True if another send has claimed the key, and the claim has not expired."""
    row = db.execute(
        "SELECT expires_at FROM idempotency_keys"
        " WHERE chat_id = ? AND sender = ? AND client_message_id = ?",
        (chat, key.sender, key.client_message_id),
    ).get
    return row is not None and row > now


def _exists(db: apsw.Connection, entry: Entry) -> bool:
    return bool(
        db.execute(
            "SELECT 1 FROM messages WHERE chat_id = ? AND sequence = ?",
            (entry.chat_id, entry.sequence),
        ).get
    )


def _apply(db: apsw.Connection, index: int, entry: Entry) -> None:
    match entry.kind:
        case "created" | "added":
            if not members.add(db, entry):
                raise UndoWrite(Declined(index, "too_many_chats"))
        case "removed":
            members.remove(db, entry)
        case "role":
            members.change_roles(db, entry)
        case "renamed":
            db.execute(
                "UPDATE chats SET name = ?, updated_at = ? WHERE chat_id = ?",
                (entry.name, entry.created_at, entry.chat_id),
            )
        case "settings":
            assert entry.settings is not None
            db.execute(
                "UPDATE chats SET frozen = ?, slow_mode_seconds = ?, updated_at = ?"
                " WHERE chat_id = ?",
                (*msgspec.structs.astuple(entry.settings), entry.created_at, entry.chat_id),
            )
        case "deleted":
            begin_deletion(db, entry)
        case "edited":
            _change_target(
                db, index, entry, "box = ?, box_key = ?, edited_at = ?",
                (entry.box, entry.box_key, entry.created_at),
            )  # fmt: skip
        case "redacted":
            where = (entry.chat_id, entry.target)
            visit_files_of(db, "chat_id = ? AND sequence = ?", where, entry.created_at)
            _change_target(db, index, entry, _REDACTION, ())
            for table in ("reactions", "mentions"):
                db.execute(
                    f"DELETE FROM {table} WHERE chat_id = ? AND sequence = ?",
                    where,
                )
        case "reacted" | "unreacted":
            _react(db, index, entry)
        case "pinned" | "unpinned":
            _pin(db, index, entry)
        case "message":
            if entry.reply_to is not None:
                _count_reply(db, index, entry)
            db.executemany(KEEP_MENTION, mention_rows(entry))
            take_uploads(db, index, entry)


def _pin(db: apsw.Connection, index: int, entry: Entry) -> None:
    """Pin or unpin the target. A pinned message whose content is gone can still be unpinned."""
    where = (entry.chat_id, entry.target)
    before = db.execute(_PINNED, where).get
    if bool(before) == (entry.kind == "pinned"):
        raise UndoWrite(Declined(index, "no_change"))
    if entry.kind == "unpinned":
        db.execute("UPDATE messages SET pinned = 0 WHERE chat_id = ? AND sequence = ?", where)
        return
    if db.execute(_PIN_COUNT, where[:1]).get >= limits.PINS_MAX:
        raise UndoWrite(Declined(index, "too_many_pins"))
    _change_target(db, index, entry, "pinned = ?", (entry.sequence,))


def _count_reply(db: apsw.Connection, index: int, entry: Entry) -> None:
    count = "reply_count = min(reply_count + 1, ?)"
    _change_target(db, index, entry, count, (limits.REPLY_COUNT_MAX,))


def _change_target(
    db: apsw.Connection, index: int, entry: Entry, change: str, values: tuple[Any, ...]
) -> None:
    """Change the message that the entry refers to; decline the entry if the message has no content
    any more."""
    target = entry.target if entry.reply_to is None else entry.reply_to
    now = entry.created_at + 1
    db.execute(
        f"UPDATE messages SET {change} WHERE chat_id = ? AND sequence = ? AND sequence < ?"
        " AND kind = 'message' AND redacted = 0 AND box IS NOT NULL"
        " AND coalesce(expires_at, ?) >= ?",
        (*values, entry.chat_id, target, entry.sequence, now, now),
    )
    if db.changes() == 0:
        raise UndoWrite(Declined(index, "target_gone"))


def _react(db: apsw.Connection, index: int, entry: Entry) -> None:
    assert entry.emoji is not None
    before = db.execute(
        "SELECT reactions FROM messages WHERE chat_id = ? AND sequence = ?",
        (entry.chat_id, entry.target),
    ).get
    counts = _reactions.decode(before) if before else {}
    key = (entry.chat_id, entry.target, entry.emoji, entry.sender)
    if entry.kind == "reacted":
        db.execute(
            "INSERT OR IGNORE INTO reactions VALUES (?, ?, ?, ?, ?)", (*key, entry.created_at)
        )
        counts[entry.emoji] = counts.get(entry.emoji, 0) + 1
    else:
        db.execute(
            "DELETE FROM reactions"
            " WHERE chat_id = ? AND sequence = ? AND emoji = ? AND user_id = ?",
            key,
        )
        counts[entry.emoji] = counts.get(entry.emoji, 0) - 1
    if db.changes() == 0:
        raise UndoWrite(Declined(index, "no_change"))
    if len(counts) > limits.REACTION_EMOJI_MAX:
        raise UndoWrite(Declined(index, "too_many_emoji"))
    left = {emoji: count for emoji, count in counts.items() if count > 0}
    text = msgspec.json.encode(left).decode() if left else None
    _change_target(db, index, entry, "reactions = ?", (text,))


_conforms: type[WriteJob] = RunJob

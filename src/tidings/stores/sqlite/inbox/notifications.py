# SPDX-License-Identifier: Apache-2.0
"""Notifications, broadcasts and the settings of inboxes, on SQLite."""

from collections.abc import Sequence
from typing import Any, Final

import apsw
import msgspec

from tidings.model.notifications import Broadcast, InboxConfig, Notification
from tidings.ports.inboxes import InboxSettings, Notifications, PostKey
from tidings.ports.people import Listed
from tidings.stores.sqlite.engine.connections import Readers
from tidings.stores.sqlite.engine.rows import columns, from_row, insert_once, listed
from tidings.stores.sqlite.engine.writer import Writer

PUT_NOTIFICATION: Final = insert_once("notifications", Notification)
_GET: Final = f"""
SELECT {columns(Notification)} FROM notifications
WHERE tenant = ? AND inbox = ? AND notification_id IN (SELECT value FROM json_each(?))
"""
_NEWEST: Final = f"""
SELECT {columns(Notification)} FROM notifications
WHERE tenant = ? AND inbox = ? AND notification_id < ? ORDER BY notification_id DESC LIMIT ?
"""
_EMPTY: Final = """
UPDATE notifications SET box = NULL, box_key = 0
WHERE tenant = ? AND inbox = ? AND notification_id = ?
"""
APPEND_BROADCAST: Final = insert_once("announcements", Broadcast)
_EMPTY_ANNOUNCEMENT: Final = """
UPDATE announcements SET box = NULL, box_key = 0
WHERE tenant = ? AND inbox = ? AND sequence = ?
"""
_LOG: Final = f"SELECT {columns(Broadcast)} FROM announcements WHERE tenant = ? AND inbox = ? AND"
_CLAIM: Final = columns(PostKey)
# Replaces an expired claim, but not a valid one.
_CLAIM_KEY: Final = f"""
INSERT INTO post_keys (tenant, inbox, key, {_CLAIM}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET ({_CLAIM}) =
    (excluded.{_CLAIM.replace(", ", ", excluded.")})
    WHERE expires_at <= excluded.claimed_at
"""
_CLAIMED: Final = f"SELECT {_CLAIM} FROM post_keys WHERE tenant = ? AND inbox = ? AND key = ?"
# Inserts nothing if the notification is gone: then nothing would ever remove the row.
_FINISH: Final = """
INSERT OR IGNORE INTO finished_jobs SELECT tenant, inbox, notification_id, ?4
FROM notifications WHERE tenant = ?1 AND inbox = ?2 AND notification_id = ?3
"""
_BEYOND: Final = 2**62
"""A number that is higher than every sequence."""


class SqliteNotifications:
    """Stores notifications, inbox logs, claimed idempotency keys and finished jobs."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    @property
    def broadcasts_age_ms(self) -> int:
        return 0

    async def claim_key(self, tenant: str, inbox: str, key: str, claim: PostKey) -> PostKey:
        row_key = (tenant, inbox, key)

        def write(db: apsw.Connection) -> PostKey:
            db.execute(_CLAIM_KEY, row_key + msgspec.structs.astuple(claim))
            (row,) = db.execute(_CLAIMED, row_key)
            return from_row(PostKey, row)

        return await self._writer.write(write, rows=1)

    async def put(self, notification: Notification) -> None:
        await self._write(PUT_NOTIFICATION, msgspec.structs.astuple(notification))

    async def get(
        self, tenant: str, inbox: str, notification_ids: Sequence[str]
    ) -> list[Notification]:
        wanted = (tenant, inbox, msgspec.json.encode(list(notification_ids)).decode())
        return await self._readers.read(
            lambda db: [notification_from_row(row) for row in db.execute(_GET, wanted)]
        )

    async def newest(
        self, tenant: str, inbox: str, *, before: str | None, limit: int
    ) -> list[Notification]:
        wanted = (tenant, inbox, before or "~", limit)
        return await self._readers.read(
            lambda db: [notification_from_row(row) for row in db.execute(_NEWEST, wanted)]
        )

    async def empty(self, tenant: str, inbox: str, notification_id: str) -> None:
        await self._write(_EMPTY, (tenant, inbox, notification_id))

    async def append_broadcast(self, broadcast: Broadcast) -> bool:
        return await self._writer.write(lambda db: _append_broadcast(db, broadcast), rows=1)

    async def retract_broadcast(self, tenant: str, inbox: str, sequence: int) -> None:
        await self._write(_EMPTY_ANNOUNCEMENT, (tenant, inbox, sequence))

    async def broadcasts(
        self, tenant: str, inbox: str, *, after: int, limit: int
    ) -> list[Broadcast]:
        return await self._log("sequence > ? ORDER BY sequence", tenant, inbox, after, limit)

    async def last_broadcasts(
        self, tenant: str, inbox: str, *, before: int | None, limit: int
    ) -> list[Broadcast]:
        if before is None:
            before = _BEYOND
        return await self._log("sequence < ? ORDER BY sequence DESC", tenant, inbox, before, limit)

    async def finish_job(self, tenant: str, inbox: str, notification_id: str, number: int) -> None:
        row = (tenant, inbox, notification_id, number)
        await self._writer.write_rows(self.finish_job, [(_FINISH, [row])])

    async def finished_jobs(self, tenant: str, inbox: str, notification_id: str) -> set[int]:
        def read(db: apsw.Connection) -> set[int]:
            rows = db.execute(
                "SELECT number FROM finished_jobs"
                " WHERE tenant = ? AND inbox = ? AND notification_id = ?",
                (tenant, inbox, notification_id),
            )
            return {number for (number,) in rows}

        return await self._readers.read(read)

    async def _write(self, statement: str, values: tuple[Any, ...]) -> None:
        def write(db: apsw.Connection) -> None:
            db.execute(statement, values)

        await self._writer.write(write, rows=1)

    async def _log(
        self, where: str, tenant: str, inbox: str, sequence: int, limit: int
    ) -> list[Broadcast]:
        values = (tenant, inbox, sequence, limit)
        return await self._readers.read(
            lambda db: [
                broadcast_from_row(row) for row in db.execute(f"{_LOG} {where} LIMIT ?", values)
            ]
        )


def _append_broadcast(db: apsw.Connection, broadcast: Broadcast) -> bool:
    db.execute(APPEND_BROADCAST, msgspec.structs.astuple(broadcast))
    if db.changes():
        return True
    mark = db.execute(
        "SELECT mark FROM announcements WHERE tenant = ? AND inbox = ? AND sequence = ?",
        (broadcast.tenant, broadcast.inbox, broadcast.sequence),
    ).get
    return bool(mark == broadcast.mark)


def notification_from_row(row: tuple[Any, ...]) -> Notification:
    """Convert a row that has the columns of `Notification` to a notification."""
    found = from_row(Notification, row)
    flags = ("everyone", "restored", "failed")
    return msgspec.structs.replace(found, **{flag: bool(getattr(found, flag)) for flag in flags})


def broadcast_from_row(row: tuple[Any, ...]) -> Broadcast:
    """Convert a row that has the columns of `Broadcast` to a broadcast."""
    entry = from_row(Broadcast, row)
    return msgspec.structs.replace(entry, late_joiners=bool(entry.late_joiners))


_conforms: type[Notifications] = SqliteNotifications


_settings = msgspec.json.Decoder(dict[str, Any])
_config = msgspec.json.Decoder(InboxConfig)


class SqliteInboxSettings:
    """Stores the settings of tenants and the configurations of inboxes, both as JSON."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def settings(self, tenant: str) -> dict[str, object] | None:
        def read(db: apsw.Connection) -> dict[str, object] | None:
            text = db.execute(
                "SELECT settings FROM tenant_settings WHERE tenant = ?", (tenant,)
            ).get
            return _settings.decode(text) if text else None

        return await self._readers.read(read)

    async def put_settings(self, tenant: str, settings: dict[str, object]) -> None:
        row = (tenant, msgspec.json.encode(settings).decode())

        def write(db: apsw.Connection) -> None:
            db.execute("INSERT OR REPLACE INTO tenant_settings VALUES (?, ?)", row)

        await self._writer.write(write, rows=1)

    async def config(self, tenant: str, inbox: str) -> InboxConfig | None:
        def read(db: apsw.Connection) -> InboxConfig | None:
            row = db.execute(
                "SELECT config, has_preferences FROM inboxes WHERE tenant = ? AND inbox = ?",
                (tenant, inbox),
            ).fetchone()
            return config_from_row(row) if row else None

        return await self._readers.read(read)

    async def configs(
        self, tenant: str, *, after: str | None, limit: int
    ) -> Listed[tuple[str, InboxConfig]]:
        def read(db: apsw.Connection) -> list[tuple[str, InboxConfig]]:
            rows = db.execute(
                "SELECT inbox, config, has_preferences FROM inboxes"
                " WHERE tenant = ? AND inbox > ? ORDER BY inbox LIMIT ?",
                (tenant, after or "", limit + 1),
            )
            return [(inbox, config_from_row(row)) for inbox, *row in rows]

        return listed(await self._readers.read(read), limit, lambda row: row[0])

    async def put_config(self, tenant: str, inbox: str, config: InboxConfig) -> bool:
        # Whether there are preferences is a column of its own, which a new configuration keeps.
        row = (tenant, inbox, config_to_column(config))

        def write(db: apsw.Connection) -> bool:
            db.execute(
                "INSERT OR IGNORE INTO inboxes (tenant, inbox, config) VALUES (?, ?, ?)", row
            )
            is_new = db.changes() > 0
            if not is_new:
                db.execute("UPDATE inboxes SET config = ?3 WHERE tenant = ?1 AND inbox = ?2", row)
            return is_new

        return await self._writer.write(write, rows=1)


def config_to_column(config: InboxConfig) -> str:
    """Convert the configuration of an inbox to the value of its column."""
    stored = msgspec.structs.replace(config, has_preferences=False)
    return msgspec.json.encode(stored).decode()


def config_from_row(row: Sequence[Any]) -> InboxConfig:
    """Convert the columns `config` and `has_preferences` to the configuration of an inbox."""
    text, has_preferences = row
    config = _config.decode(text)
    return msgspec.structs.replace(config, has_preferences=bool(has_preferences))


_settings_conform: type[InboxSettings] = SqliteInboxSettings

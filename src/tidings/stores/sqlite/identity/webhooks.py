# SPDX-License-Identifier: Apache-2.0
"""Webhook endpoints, what they are owed, and the event logs of tenants on SQLite.

The transaction that appends an entry also stores which endpoints are owed it. Therefore nothing is
lost if the process dies. Only tenants with endpoints pay for this: their names are in memory.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import apsw
import msgspec

from tidings.model.entries import Entry
from tidings.model.ids import tenant_of
from tidings.model.webhooks import (
    EVENT_LOG,
    EventRefusal,
    OwedStream,
    SetAside,
    TenantEvent,
    WebhookEndpoint,
)
from tidings.ports.people import Listed
from tidings.ports.sessions import Revocation
from tidings.ports.webhooks import TenantEventLog, WebhookQueue, Webhooks
from tidings.stores.sqlite.engine.connections import Readers
from tidings.stores.sqlite.engine.rows import columns, from_row, listed
from tidings.stores.sqlite.engine.writer import Writer
from tidings.stores.sqlite.identity.sessions import revoked

_GET: Final = "SELECT endpoint FROM webhooks WHERE tenant = ? AND webhook_id = ?"
_OF: Final = "SELECT endpoint FROM webhooks WHERE tenant = ? ORDER BY webhook_id"
PUT_ENDPOINT: Final = "INSERT OR REPLACE INTO webhooks VALUES (?, ?, ?, ?, ?)"
_REMOVE: Final = "DELETE FROM webhooks WHERE tenant = ? AND webhook_id = ?"
_FOLLOWED: Final = "SELECT DISTINCT tenant FROM webhooks WHERE follows_chats"
OWE_ENTRIES: Final = """
INSERT INTO webhook_owed (place, stream, sent, head)
SELECT place, ?2, ?3, ?4 FROM webhooks WHERE tenant = ?1 AND follows_chats
ON CONFLICT DO UPDATE SET head = max(head, excluded.head)
"""
"""Stores that the endpoints of a tenant are owed entries of a chat."""
_OWE: Final = """
INSERT INTO webhook_owed (place, stream, sent, head) VALUES (?, ?, ?, ?)
ON CONFLICT DO UPDATE SET head = max(head, excluded.head), sent = min(sent, excluded.sent)
"""
_OWED: Final = """
SELECT stream, sent, head, refusal FROM webhook_owed
WHERE place = ? AND stream > ? ORDER BY stream LIMIT ?
"""
_REACHED: Final = "WHERE place = ?1 AND stream = ?2 AND sent >= ?4"
_ADVANCE: Final = f"UPDATE webhook_owed SET sent = max(sent, ?3) {_REACHED}"
_FINISH: Final = f"DELETE FROM webhook_owed {_REACHED} AND head <= ?3"
_REFUSE: Final = "UPDATE webhook_owed SET refusal = ?3 WHERE place = ?1 AND stream = ?2"
_UNFINISHED: Final = """
SELECT tenant, webhook_id FROM webhooks WHERE place IN (SELECT DISTINCT place FROM webhook_owed)
"""
_SET_ASIDE: Final = "INSERT OR REPLACE INTO webhook_aside VALUES (?, ?, ?, ?, ?, ?, ?)"
_ASIDE: Final = f"""
SELECT {columns(SetAside)} FROM webhook_aside
WHERE place = ? AND (stream, sequence) > (?, ?) ORDER BY stream, sequence LIMIT ?
"""
_TAKE_BACK: Final = "DELETE FROM webhook_aside WHERE place = ? AND stream = ? AND sequence = ?"
_REMOVE_ROWS: Final = (
    """
DELETE FROM webhook_owed WHERE place = ?1
AND stream IN (SELECT stream FROM webhook_owed WHERE place = ?1 LIMIT ?2)
""",
    """
DELETE FROM webhook_aside WHERE place = ?1
AND (stream, sequence) IN (SELECT stream, sequence FROM webhook_aside WHERE place = ?1 LIMIT ?2)
""",
)
_LAST_EVENT: Final = "SELECT coalesce(max(sequence), 0) FROM tenant_events WHERE tenant = ?"
_REMOVE_EVENTS: Final = """
DELETE FROM tenant_events WHERE (tenant, sequence) IN
    (SELECT tenant, sequence FROM tenant_events WHERE tenant = ? LIMIT ?)
"""
_ADD_EVENT: Final = f"""
INSERT INTO tenant_events ({columns(TenantEvent)}, once) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (tenant, once) WHERE once IS NOT NULL DO NOTHING
"""
_EVENTS: Final = f"SELECT {columns(TenantEvent)} FROM tenant_events WHERE tenant = ?"
_EVENT: Final = f"{_EVENTS} AND sequence = ?"
_NEXT_EVENT: Final = f"{_EVENTS} AND sequence > ? ORDER BY sequence LIMIT 1"
OF_PLACE: Final = ("webhook_owed", "webhook_aside")
"""Tables with what an endpoint is owed, and what it refused."""

_decode_refusal = msgspec.json.Decoder(EventRefusal).decode
_decode = msgspec.json.Decoder(WebhookEndpoint).decode


class FollowedTenants:
    """Caches which tenants have webhook endpoints that are owed entries."""

    def __init__(self, db: apsw.Connection) -> None:
        self._tenants = {tenant for (tenant,) in db.execute(_FOLLOWED)}

    def refresh(self, db: apsw.Connection, tenant: str) -> None:
        """Read again whether a tenant has such endpoints, within the transaction of a change.

        If the transaction fails, the store stops, so that a wrong answer does no harm.
        """
        if db.execute("SELECT 1 FROM webhooks WHERE tenant = ? AND follows_chats", (tenant,)).get:
            self._tenants.add(tenant)
        else:
            self._tenants.discard(tenant)

    def owed(self, entries: Sequence[Entry]) -> tuple[Any, ...] | None:
        """Return the values of `OWE_ENTRIES` for new entries of a chat; None if nobody is owed
        them."""
        if not self._tenants:
            return None
        first, last = entries[0], entries[-1]
        tenant = tenant_of(first.sender)
        if tenant not in self._tenants:
            return None
        return tenant, first.chat_id, first.sequence - 1, last.sequence


class SqliteWebhooks:
    """Stores one row for each endpoint."""

    def __init__(self, writer: Writer, readers: Readers, followed: FollowedTenants) -> None:
        self._writer = writer
        self._readers = readers
        self._followed = followed

    async def add(self, endpoint: WebhookEndpoint) -> bool:
        return await self._put(None, endpoint)

    async def change(self, before: WebhookEndpoint, after: WebhookEndpoint) -> bool:
        return await self._put(before, after)

    async def _put(self, before: WebhookEndpoint | None, after: WebhookEndpoint) -> bool:
        def write(db: apsw.Connection) -> bool:
            found = db.execute(_GET, (after.tenant, after.webhook_id)).get
            if (None if found is None else _decode(found)) != before:
                return False
            db.execute(PUT_ENDPOINT, endpoint_row(after))
            self._told(db, after.tenant, after.updated_at)
            return True

        return await self._writer.write(write)

    async def of(self, tenant: str) -> list[WebhookEndpoint]:
        def read(db: apsw.Connection) -> list[WebhookEndpoint]:
            return [_decode(endpoint) for (endpoint,) in db.execute(_OF, (tenant,))]

        return await self._readers.read(read)

    async def remove(self, endpoint: WebhookEndpoint, now: int) -> None:
        def write(db: apsw.Connection) -> None:
            db.execute(_REMOVE, (endpoint.tenant, endpoint.webhook_id))
            self._told(db, endpoint.tenant, now)

        await self._writer.write(write)

    def _told(self, db: apsw.Connection, tenant: str, now: int) -> None:
        self._followed.refresh(db, tenant)
        revoked(db, Revocation(kind="webhook", subject=tenant, at=now))


class SqliteWebhookQueue:
    """Stores one row for each chat with events that an endpoint has not taken yet."""

    is_fed_by_log = True

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def owe(self, place: str, owed: OwedStream) -> None:
        await self._execute(_OWE, (place, owed.stream, owed.sent, owed.head))

    async def owed(self, place: str, after: str, limit: int) -> list[OwedStream]:
        def read(db: apsw.Connection) -> list[OwedStream]:
            return [_to_owed(row) for row in db.execute(_OWED, (place, after, limit))]

        return await self._readers.read(read)

    async def advance(self, place: str, reached: OwedStream, began: int = 0) -> None:
        rows: list[tuple[Any, ...]] = [(place, reached.stream, reached.sent, began)]
        # If there is more than this process knows, the first statement finishes nothing.
        finish = [(_FINISH, rows)] if reached.sent >= reached.head else []
        await self._writer.write_rows(self.advance, [*finish, (_ADVANCE, rows)])

    async def refuse(self, place: str, stream: str, refusal: EventRefusal) -> None:
        await self._execute(_REFUSE, (place, stream, msgspec.json.encode(refusal).decode()))

    async def unfinished(self) -> list[tuple[str, str]]:
        def read(db: apsw.Connection) -> list[tuple[str, str]]:
            return [(tenant, name) for tenant, name in db.execute(_UNFINISHED)]

        return await self._readers.read(read)

    async def set_aside(self, place: str, aside: SetAside) -> None:
        await self._execute(_SET_ASIDE, (place, *msgspec.structs.astuple(aside)))

    async def aside(self, place: str, after: str | None, limit: int) -> Listed[SetAside]:
        stream, _, sequence = (after or ".0").rpartition(".")
        values = (place, stream, int(sequence), limit + 1)

        def read(db: apsw.Connection) -> list[SetAside]:
            return [from_row(SetAside, row) for row in db.execute(_ASIDE, values)]

        found = await self._readers.read(read)
        return listed(found, limit, lambda aside: aside.delivery_id)

    async def remove(self, place: str, limit: int) -> int:
        def write(db: apsw.Connection) -> int:
            removed = 0
            for statement in _REMOVE_ROWS:
                db.execute(statement, (place, limit))
                removed += db.changes()
            return removed

        return await self._writer.write(write, rows=limit)

    async def take_back(self, place: str, delivery_id: str) -> None:
        stream, _, sequence = delivery_id.rpartition(".")
        await self._execute(_TAKE_BACK, (place, stream, int(sequence)))

    async def _execute(self, statement: str, values: tuple[Any, ...]) -> None:
        def write(db: apsw.Connection) -> None:
            db.execute(statement, values)

        await self._writer.write(write, rows=1)


class SqliteTenantEventLog:
    """Stores one row for each event. The sweeper removes old rows."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def append(
        self,
        tenant: str,
        kind: str,
        data: Mapping[str, object],
        now: int,
        places: Sequence[str],
        once: str | None = None,
    ) -> TenantEvent | None:
        def write(db: apsw.Connection) -> TenantEvent | None:
            sequence = max(db.execute(_LAST_EVENT, (tenant,)).get + 1, now)
            text = msgspec.json.encode(data).decode()
            db.execute(_ADD_EVENT, (tenant, sequence, kind, now, text, once))
            if not db.changes():
                return None
            for place in places:
                db.execute(_OWE, (place, EVENT_LOG, sequence - 1, sequence))
            return TenantEvent(tenant=tenant, sequence=sequence, type=kind, at=now, data=dict(data))

        return await self._writer.write(write)

    async def get(self, tenant: str, sequence: int) -> TenantEvent | None:
        return await self._find(_EVENT, tenant, sequence)

    async def after(self, tenant: str, sequence: int) -> TenantEvent | None:
        return await self._find(_NEXT_EVENT, tenant, sequence)

    async def remove(self, tenant: str, limit: int) -> int:
        def write(db: apsw.Connection) -> int:
            db.execute(_REMOVE_EVENTS, (tenant, limit))
            return db.changes()

        return await self._writer.write(write, rows=limit)

    async def _find(self, statement: str, tenant: str, sequence: int) -> TenantEvent | None:
        def read(db: apsw.Connection) -> TenantEvent | None:
            row = db.execute(statement, (tenant, sequence)).fetchone()
            if row is None:
                return None
            return from_row(TenantEvent, (*row[:-1], msgspec.json.decode(row[-1])))

        return await self._readers.read(read)


def _to_owed(row: tuple[Any, ...]) -> OwedStream:
    stream, sent, head, refusal = row
    return OwedStream(stream, sent, head, None if refusal is None else _decode_refusal(refusal))


def endpoint_row(endpoint: WebhookEndpoint) -> tuple[Any, ...]:
    """Return the values of `PUT_ENDPOINT`."""
    follows = int(endpoint.takes_entries)
    box = msgspec.json.encode(endpoint)
    return endpoint.tenant, endpoint.webhook_id, endpoint.place, follows, box


def all_endpoints(db: apsw.Connection) -> Iterator[WebhookEndpoint]:
    """Return all endpoints, for an export."""
    for (endpoint,) in db.execute("SELECT endpoint FROM webhooks ORDER BY tenant, webhook_id"):
        yield _decode(endpoint)


_conforms: tuple[type[Webhooks], type[WebhookQueue], type[TenantEventLog]] = (
    SqliteWebhooks,
    SqliteWebhookQueue,
    SqliteTenantEventLog,
)

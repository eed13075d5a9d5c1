# SPDX-License-Identifier: Apache-2.0
"""What tenants say about their inboxes, on SQLite."""

from typing import Any

import apsw
import msgspec

from tidings.model.notifications import InboxConfig
from tidings.ports.inboxes import InboxSettings
from tidings.stores.sqlite.readers import Readers
from tidings.stores.sqlite.writer import Writer

_settings = msgspec.json.Decoder(dict[str, Any])
_config = msgspec.json.Decoder(InboxConfig)


class SqliteInboxSettings:
    """Tenants' settings and their inboxes, each as the JSON it was said in."""

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
            text = db.execute(
                "SELECT config FROM inboxes WHERE tenant = ? AND inbox = ?", (tenant, inbox)
            ).get
            return _config.decode(text) if text else None

        return await self._readers.read(read)

    async def put_config(self, tenant: str, inbox: str, config: InboxConfig) -> bool:
        row = (tenant, inbox, msgspec.json.encode(config).decode())

        def write(db: apsw.Connection) -> bool:
            db.execute("INSERT OR IGNORE INTO inboxes VALUES (?, ?, ?)", row)
            is_new = db.changes() > 0
            if not is_new:
                db.execute("REPLACE INTO inboxes VALUES (?, ?, ?)", row)
            return is_new

        return await self._writer.write(write, rows=1)


_conforms: type[InboxSettings] = SqliteInboxSettings

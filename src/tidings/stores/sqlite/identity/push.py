# SPDX-License-Identifier: Apache-2.0
"""Registrations for push, and the push settings of tenants, on SQLite."""

from typing import Final

import apsw
import msgspec

from tidings.model.ids import UserKey
from tidings.model.push import DEVICES_MAX, PushRegistration, PushSettings
from tidings.model.refusals import LimitReached
from tidings.ports.people import Listed
from tidings.ports.push import PushStore
from tidings.ports.sessions import Revocation
from tidings.stores.sqlite.engine.connections import Readers
from tidings.stores.sqlite.engine.rows import columns, from_row, insert, listed
from tidings.stores.sqlite.engine.writer import Writer
from tidings.stores.sqlite.identity.sessions import revoked

_OF_USER: Final = f"SELECT {columns(PushRegistration)} FROM push_devices WHERE user_id = ?"
_OTHERS: Final = "SELECT count(*) FROM push_devices WHERE user_id = ? AND device <> ?"
_TAKE_OVER: Final = "DELETE FROM push_devices WHERE digest = ? RETURNING user_id"
_REMOVE: Final = """
DELETE FROM push_devices WHERE user_id = ?1 AND device = ?2 AND digest = coalesce(?3, digest)
"""
# The semicolon follows the colon, which separates the tenant from the user.
_OF_TENANT: Final = f"""
SELECT {columns(PushRegistration)} FROM push_devices
WHERE user_id >= ?1 || ':' AND user_id < ?1 || ';' AND (user_id, device) > (?2, ?3)
ORDER BY user_id, device LIMIT ?4
"""


class SqlitePushStore:
    """Stores one row for each registration, and one for the settings of each tenant."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def register(self, registration: PushRegistration) -> UserKey | None:
        def write(db: apsw.Connection) -> UserKey | None:
            user, now = registration.user_id, registration.created_at
            if db.execute(_OTHERS, (user, registration.device)).get >= DEVICES_MAX:
                raise LimitReached(f"a user can register at most {DEVICES_MAX} devices for push")
            before = {owner for (owner,) in db.execute(_TAKE_OVER, (registration.digest,))}
            insert(db, "push_devices", registration, replace=True)
            for one in sorted(before | {user}):
                revoked(db, Revocation(kind="push", subject=one, at=now))
            return next(iter(before - {user}), None)

        return await self._writer.write(write)

    async def of(self, user: UserKey) -> list[PushRegistration]:
        def read(db: apsw.Connection) -> list[PushRegistration]:
            rows = db.execute(f"{_OF_USER} ORDER BY device", (user,))
            return [from_row(PushRegistration, row) for row in rows]

        return await self._readers.read(read)

    async def remove(
        self, user: UserKey, device: str, now: int, *, digest: str | None = None
    ) -> bool:
        def write(db: apsw.Connection) -> bool:
            db.execute(_REMOVE, (user, device, digest))
            is_changed = db.changes() > 0
            if is_changed:
                revoked(db, Revocation(kind="push", subject=user, at=now))
            return is_changed

        return await self._writer.write(write)

    async def of_tenant(
        self, tenant: str, *, after: str | None, limit: int
    ) -> Listed[PushRegistration]:
        user, _, device = (after or "").partition("#")
        values = (tenant, f"{tenant}:{user}", device, limit + 1)

        def read(db: apsw.Connection) -> list[PushRegistration]:
            return [from_row(PushRegistration, row) for row in db.execute(_OF_TENANT, values)]

        return listed(await self._readers.read(read), limit, _position)

    async def put_settings(self, settings: PushSettings, before: PushSettings | None) -> bool:
        def write(db: apsw.Connection) -> bool:
            stored = db.execute(
                "SELECT box FROM push_settings WHERE tenant = ?", (settings.tenant,)
            )
            if stored.get != (None if before is None else before.box):
                return False
            db.execute(PUT_PUSH_SETTINGS, push_settings_row(settings))
            # Replaced credentials must not stay in the write-ahead log.
            self._writer.empty_log_after_commit()
            told = Revocation(kind="push", subject=settings.tenant, at=settings.updated_at)
            revoked(db, told)
            return True

        return await self._writer.write(write)

    async def settings(self, tenant: str) -> PushSettings | None:
        def read(db: apsw.Connection) -> PushSettings | None:
            rows = db.execute(f"{ALL_PUSH_SETTINGS} WHERE tenant = ?", (tenant,))
            return next((to_push_settings(row) for row in rows), None)

        return await self._readers.read(read)


ALL_PUSH_SETTINGS: Final = f"SELECT {columns(PushSettings)} FROM push_settings"


PUT_PUSH_SETTINGS: Final = f"""
REPLACE INTO push_settings ({columns(PushSettings)}) VALUES (?, ?, ?, ?, ?)
"""


def push_settings_row(settings: PushSettings) -> tuple[object, ...]:
    """Convert the settings of a tenant to a row."""
    row = msgspec.structs.asdict(settings)
    return tuple({**row, "providers": ",".join(settings.providers)}.values())


def to_push_settings(row: tuple[object, ...]) -> PushSettings:
    """Convert a row to the settings of a tenant."""
    settings = from_row(PushSettings, row)
    names = tuple(name for name in str(settings.providers).split(",") if name)
    return msgspec.structs.replace(settings, providers=names)


def _position(registration: PushRegistration) -> str:
    user = registration.user_id.partition(":")[2]
    return f"{user}#{registration.device}"


_conforms: type[PushStore] = SqlitePushStore

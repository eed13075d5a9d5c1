# SPDX-License-Identifier: Apache-2.0
"""Sessions on DynamoDB: one item for each session, with an index by user.

Login codes and budgets share the table. They have no user, so the index does not contain them, and
their keys have a `#`, which no session id has.
"""

from typing import Final

from tidings.model.ids import UserKey
from tidings.model.limits import DAY_MS
from tidings.ports.sessions import Revocation, Session, Sessions, StoredCredentials
from tidings.stores.dynamodb.client.dynamo import Dynamo
from tidings.stores.dynamodb.client.retrying import ConditionFailed, Item, gather_two
from tidings.stores.dynamodb.client.writes import Update
from tidings.stores.dynamodb.identity.identity_patterns import (
    CHECK_USER,
    LIST_SESSIONS,
    OPEN_SESSION,
    READ_SESSION,
    ROTATE_SESSION,
)
from tidings.stores.dynamodb.identity.revocations import DynamoRevocations
from tidings.stores.dynamodb.tables import TTL, ttl_seconds

REVOKED_KEPT_MS: Final = DAY_MS
"""How long a revoked session is stored, for inspection. A session without item is invalid too."""


class DynamoSessions:
    """Sessions of all tenants."""

    def __init__(self, dynamo: Dynamo, revocations: DynamoRevocations) -> None:
        self._dynamo = dynamo
        self._revocations = revocations

    async def open(self, session: Session) -> None:
        item = session_item(session)
        try:
            await self._dynamo.put(OPEN_SESSION, item, "attribute_not_exists(#session_id)")
        except ConditionFailed as failed:
            if failed.item != item:
                raise

    async def get(self, session_id: str) -> Session | None:
        item = await self._dynamo.get(READ_SESSION, {"session_id": session_id})
        return to_session(item) if item is not None and "user_id" in item else None

    async def rotate(self, before: Session, after: Session) -> bool:
        item = session_item(after)
        try:
            await self._dynamo.put(
                ROTATE_SESSION,
                item,
                "#refresh_digest = :before AND attribute_not_exists(#revoked_at)",
                {":before": before.refresh_digest},
            )
        except ConditionFailed as failed:
            return failed.is_repeat and failed.item == item
        return True

    async def of(self, user: UserKey) -> list[Session]:
        items = await self._dynamo.query(
            LIST_SESSIONS,
            "#user_id = :user",
            {":user": user},
            only="attribute_not_exists(#revoked_at)",
        )
        sessions = map(to_session, items)
        return sorted(
            sessions, key=lambda session: (session.created_at, session.session_id), reverse=True
        )

    async def revoke(self, user: UserKey, session_id: str, now: int) -> bool:
        change = Update(
            "sessions",
            {"session_id": session_id},
            "SET #revoked_at = :now, #ttl = :ttl",
            "#user_id = :user AND attribute_not_exists(#revoked_at)",
            {":now": now, ":ttl": ttl_seconds(now + REVOKED_KEPT_MS), ":user": user},
        )
        revocation = Revocation(kind="session", subject=session_id, at=now)
        return await self._revocations.append_with([revocation], [change])

    async def standing(self, user: UserKey, session_id: str | None) -> StoredCredentials:
        if session_id is None:
            return _to_credentials(await self._check(user), None)
        return _to_credentials(*await gather_two(self._check(user), self.get(session_id)))

    async def _check(self, user: UserKey) -> Item | None:
        return await self._dynamo.get(CHECK_USER, {"user_id": user})


def session_item(session: Session) -> Item:
    """Convert a session to its item. None is left out: only revoked sessions have `revoked_at`."""
    fields = {name: getattr(session, name) for name in session.__struct_fields__}
    item: Item = {name: value for name, value in fields.items() if value is not None}
    return {"user_id": item.pop("user"), **item, TTL: ttl_seconds(session.expires_at)}


def to_session(item: Item) -> Session:
    """Convert an item to its session."""
    fields = {name: value for name, value in item.items() if name not in ("user_id", TTL)}
    return Session(user=item["user_id"], **fields)


def _to_credentials(user: Item | None, session: Session | None) -> StoredCredentials:
    found = user or {}
    return StoredCredentials(
        is_known=user is not None,
        deactivated_at=found.get("deactivated_at"),
        revoked_at=found.get("revoked_at"),
        session=session,
    )


_conforms: type[Sessions] = DynamoSessions

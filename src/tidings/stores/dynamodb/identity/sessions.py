# SPDX-License-Identifier: Apache-2.0
"""Sessions and the revocation feed, on DynamoDB.

Login codes and budgets are stored in the table of sessions too. They have no user, so the index
does not contain them. Their keys contain a `#`, and no session id does.

Positions in the feed are numbers, not times. With times, a slow process could append a revocation
that is older than those which readers have already read, and they would never see it.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

from tidings.model import limits
from tidings.model.ids import UserKey, tenant_of
from tidings.model.limits import DAY_MS
from tidings.model.refusals import StoreUnavailable
from tidings.ports.sessions import (
    Erasure,
    Revocation,
    Revocations,
    RevokedKind,
    Session,
    Sessions,
    StoredCredentials,
)
from tidings.ports.store import current_requester
from tidings.stores.dynamodb import patterns
from tidings.stores.dynamodb.client.dynamo import Dynamo
from tidings.stores.dynamodb.client.retrying import (
    DEADLINE_SECONDS,
    Canceled,
    ConditionFailed,
    Item,
    gather_two,
)
from tidings.stores.dynamodb.client.writes import Put, Update, Write
from tidings.stores.dynamodb.identity.identity_patterns import (
    CHECK_USER,
    LIST_SESSIONS,
    OPEN_SESSION,
    READ_SESSION,
    ROTATE_SESSION,
)
from tidings.stores.dynamodb.tables import TTL, ttl_seconds
from tidings.stores.scheduler import Scheduler, in_turn

READ_MAX: Final = 1_000

REVOCATIONS: Final = "revocations"
ERASURES: Final = "erasures#"
_IS_FREE: Final = "attribute_not_exists(#pk)"
_CHANGES: Final[frozenset[RevokedKind]] = frozenset({"block", "push", "webhook"})
"""Kinds of entries in the revocation feed that revoke nothing."""
USER_CHANGES_WAITING_MAX: Final = 100
"""Blocks and registrations for push of one user that may wait for positions in the feed, and as
many revocations."""
CHANGES_WAITING_MAX: Final = 1_000


def _turns(name: str) -> Scheduler:
    return Scheduler(
        name,
        slots=1,
        user_slots=1,
        user_waiting_max=USER_CHANGES_WAITING_MAX,
        waiting_max=CHANGES_WAITING_MAX,
    )


REVOKED_KEPT_MS: Final = DAY_MS
"""How long a revoked session stays stored for inspection. It would be invalid even if it were not
stored."""


class DynamoRevocations:
    """Stores the revocation feed in a partition of the table of tenants."""

    def __init__(self, dynamo: Dynamo) -> None:
        self._dynamo = dynamo
        self._turn = asyncio.Lock()
        """Lock for appends by this process, because two at once would try to claim the same
        position."""
        self._changes = _turns("changes for the revocation feed")
        """Turns of entries that revoke nothing. Only one of them waits for the lock at a time, so
        that a revocation waits for at most one of them."""
        self._revokes = _turns("revocations for the revocation feed")
        """Turns of the other entries. Tenants take turns, so that the many revocations of one
        tenant do not hold up those of others, or of the operator."""

    async def append(self, revocation: Revocation) -> None:
        await self.append_with([revocation], [])

    async def append_with(
        self, revocations: Sequence[Revocation], changes: Sequence[Write]
    ) -> bool:
        """Append revocations to the revocation feed and carry out `changes`, in one transaction.

        Return True if everything was written. Return False, and write nothing, if the condition of
        one of the changes fails.

        Raises:
            StoreUnavailable: The outcome is unknown, or too many callers append at once.
            RateLimited: Too many such appends of the user wait.
        """
        revokes = any(one.kind not in _CHANGES for one in revocations)
        async with self._alone(revokes=revokes):
            return await self._append(revocations, changes)

    @asynccontextmanager
    async def _alone(self, *, revokes: bool) -> AsyncIterator[None]:
        """Wait until no other append of this process runs, and let none run in the context."""
        until = asyncio.get_running_loop().time() + DEADLINE_SECONDS
        async with AsyncExitStack() as stack:
            try:
                turns = self._revokes if revokes else self._changes
                turn = in_turn(turns, current_requester(), until)
                await stack.enter_async_context(turn)
                async with asyncio.timeout_at(until):
                    await self._turn.acquire()
            except TimeoutError:
                raise StoreUnavailable from None
            stack.callback(self._turn.release)
            yield

    async def _append(self, revocations: Sequence[Revocation], changes: Sequence[Write]) -> bool:
        async for _ in self._dynamo.retrying.attempts(limits.SLOT_ATTEMPTS_MAX):
            first = await self.head() + 1
            slots = [
                Put("tenants", item, _IS_FREE)
                for position, revocation in enumerate(revocations, first)
                for item in feed_items(position, revocation)
            ]
            try:
                await self._dynamo.transact(patterns.REVOKE, [*slots, *changes])
            except Canceled as canceled:
                if any(reason.is_condition for reason in canceled.reasons[len(slots) :]):
                    return False
            else:
                return True
        raise StoreUnavailable

    async def head(self) -> int:
        items = await self._dynamo.query(
            patterns.READ_REVOCATIONS, "#pk = :pk", {":pk": REVOCATIONS}, limit=1, backwards=True
        )
        return int(items[0]["sk"]) if items else 0

    async def after(self, position: int) -> list[Revocation]:
        items = await self._dynamo.query(
            patterns.READ_REVOCATIONS,
            "#pk = :pk AND #sk > :position",
            {":pk": REVOCATIONS, ":position": _sort_key(position)},
            limit=READ_MAX,
        )
        return [
            Revocation(kind=item["kind"], subject=item["subject"], at=item["at"]) for item in items
        ]

    async def erasures(self, tenant: str, after: int, limit: int) -> list[Erasure]:
        items = await self._dynamo.query(
            patterns.READ_ERASURES,
            "#pk = :pk AND #sk > :position",
            {":pk": ERASURES + tenant, ":position": _sort_key(after)},
            limit=limit,
            backwards=True,
        )
        return [Erasure(int(one["sk"]), UserKey(one["subject"]), one["at"]) for one in items][::-1]


def _sort_key(position: int) -> str:
    return f"{position:012d}"


def feed_items(position: int, revocation: Revocation) -> Iterator[Item]:
    """Yield the items of a revocation: its entry in the feed and, for an erasure, a second item.

    The second items of a tenant's erasures have a partition of their own. A device can therefore
    get the erasures since its last connection without a read of all revocations.
    """
    values: Item = {
        "kind": revocation.kind,
        "subject": revocation.subject,
        "at": revocation.at,
    }
    yield {"pk": REVOCATIONS, "sk": _sort_key(position), **values}
    if revocation.kind == "author":
        tenant = tenant_of(UserKey(revocation.subject))
        yield {"pk": ERASURES + tenant, "sk": _sort_key(position), **values}


_revocations_conform: type[Revocations] = DynamoRevocations


class DynamoSessions:
    """Stores the sessions of all tenants."""

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

    async def stored_credentials(self, user: UserKey, session_id: str | None) -> StoredCredentials:
        if session_id is None:
            return _to_credentials(await self._check(user), None)
        return _to_credentials(*await gather_two(self._check(user), self.get(session_id)))

    async def _check(self, user: UserKey) -> Item | None:
        return await self._dynamo.get(CHECK_USER, {"user_id": user})


def session_item(session: Session) -> Item:
    """Convert a session to its item, without the fields that are None."""
    fields = {name: getattr(session, name) for name in session.__struct_fields__}
    item: Item = {name: value for name, value in fields.items() if value is not None}
    return {"user_id": item.pop("user"), **item, TTL: ttl_seconds(session.expires_at)}


def to_session(item: Item) -> Session:
    """Convert a stored item to a `Session`."""
    fields = {name: value for name, value in item.items() if name not in ("user_id", TTL)}
    return Session(user=item["user_id"], **fields)


def _to_credentials(user: Item | None, session: Session | None) -> StoredCredentials:
    found = user or {}
    return StoredCredentials(
        is_known=user is not None,
        deactivated_at=found.get("deactivated_at"),
        revoked_at=found.get("revoked_at"),
        deleted_at=found.get("deleted_at"),
        banned_until=found.get("banned_until"),
        session=session,
    )


_conforms: type[Sessions] = DynamoSessions

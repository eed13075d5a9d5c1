# SPDX-License-Identifier: Apache-2.0
"""Record administrative acts, and list them.

The intent is recorded before the act, the outcome after it. An act whose intent cannot be recorded
is not done. If the outcome is not recorded, for example after a crash, the audit trail shows the
outcome `unknown`.
"""

import asyncio
import itertools
import logging
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

import msgspec

from tidings.actions.content.vault import Vault
from tidings.actions.identity.caller import Caller, Root, TenantCaller, require_root, require_tenant
from tidings.model import limits
from tidings.model.ids import UserKey
from tidings.model.refusals import Refusal, StoreUnavailable, TenantNotFound, TooMany, Unavailable
from tidings.ports.audit import Act, Actor, AuditEntry, AuditLog, Outcome
from tidings.ports.people import Tenants
from tidings.ports.world import Chance, Clock
from tidings.tasks import Tasks

_PURPOSE: Final = "audit"
_EVERYONE: Final = UserKey("*")

log = logging.getLogger("tidings.audit")

CHANCE_BYTES: Final = 6


class _AuditCursor(msgspec.Struct, frozen=True, array_like=True):
    """Position in a list of acts. The next page has the acts that are older than this one."""

    at: int
    entry_id: str
    act: int


class RecordedAct(msgspec.Struct, frozen=True):
    """An act, with the audit entry that contains it."""

    entry: AuditEntry
    act: Act
    number: int

    @property
    def act_id(self) -> str:
        """Return the unique id of the act."""
        return f"{self.entry.entry_id}-{self.number}"


class ReadAudit(msgspec.Struct, frozen=True):
    """Lists the audit trail, of one tenant or of the whole deployment."""

    entries: AuditLog
    tenants: Tenants
    vault: Vault
    clock: Clock

    async def of_tenant(
        self, caller: Caller, tenant: str, cursor: str | None, limit: int
    ) -> tuple[list[RecordedAct], str | None]:
        """Return a page of the acts that concern a tenant, and the cursor of the next page."""
        require_tenant(caller, tenant)
        if await self.tenants.get(tenant) is None:
            raise TenantNotFound
        return await self._page(tenant, UserKey(tenant), cursor, limit)

    async def of_all(
        self, caller: Caller, cursor: str | None, limit: int
    ) -> tuple[list[RecordedAct], str | None]:
        """Return a page of all acts, and the cursor of the next page."""
        require_root(caller)
        return await self._page(None, _EVERYONE, cursor, limit)

    async def _page(
        self, tenant: str | None, bound_to: UserKey, cursor: str | None, limit: int
    ) -> tuple[list[RecordedAct], str | None]:
        cursors, now = self.vault.cursors, self.clock.now()
        # Start a day ahead: the clock of another process may be ahead of ours.
        start = _AuditCursor(now + limits.DAY_MS, "", 0)
        if cursor is not None:
            start = msgspec.json.decode(cursors.open(_PURPOSE, bound_to, cursor), type=_AuditCursor)
        found = await self.entries.page(
            tenant,
            since=now - limits.AUDIT_MS,
            # Read two entries more than the page has: the entry in the cursor, which may contain
            # more acts, and one that shows whether there is a next page.
            before=(start.at, start.entry_id + " "),
            limit=limit + 2,
        )
        acts = [act for entry in found for act in _acts(entry) if _is_below(act, start)]
        page = acts[:limit]
        if len(acts) <= limit:
            return page, None
        last = page[-1]
        next_start = _AuditCursor(*last.entry.position, last.number)
        return page, cursors.seal(_PURPOSE, bound_to, msgspec.json.encode(next_start))


def _acts(entry: AuditEntry) -> list[RecordedAct]:
    acts = [RecordedAct(entry, act, number) for number, act in enumerate(entry.acts)]
    return acts[::-1]


def _is_below(recorded: RecordedAct, start: _AuditCursor) -> bool:
    return (*recorded.entry.position, recorded.number) < (start.at, start.entry_id, start.act)


class Intent(NamedTuple):
    """An act that is about to be done, and its actor."""

    actor: Actor
    actor_id: str | None
    action: str
    tenant: str
    fields: tuple[str, ...] = ()


class Recorded:
    """An act in progress. Code that creates an object sets `target` to the id of the object."""

    def __init__(self, target: str | None) -> None:
        self.target = target


_Kind = tuple[Intent, Outcome, str | None]
_Waiting = deque[tuple[Act, "asyncio.Future[None]"]]


class AuditTrail:
    """Records all administrative acts."""

    def __init__(self, entries: AuditLog, clock: Clock, chance: Chance) -> None:
        self._entries = entries
        self._clock = clock
        self._chance = chance
        self._numbers = itertools.count()
        self._waiting: dict[_Kind, _Waiting] = {}
        """Finished acts that wait to be recorded, at most one per open request."""
        self._tasks = Tasks("audit")

    @asynccontextmanager
    async def act(
        self, intent: Intent, target: str | None = None, request_id: str | None = None
    ) -> AsyncIterator[Recorded]:
        """Record the intent, run the body of the `with` statement, then record the outcome.

        Raises:
            StoreUnavailable: The intent could not be recorded; nothing is done.
        """
        act = Act(self._clock.now(), target, request_id)
        entry = self._entry(intent, (act,))
        await self._entries.append(entry)
        recorded = Recorded(target)
        try:
            yield recorded
        except Refusal as refusal:
            if is_certain(refusal):
                await self._complete(entry, recorded, "refused", refusal.code)
            raise
        except Exception:
            await self._complete(entry, recorded, "failed")
            raise
        await self._complete(entry, recorded, "done")

    async def add(
        self,
        intent: Intent,
        outcome: Outcome,
        code: str | None = None,
        *,
        target: str | None,
        request_id: str | None,
    ) -> None:
        """Record a finished act that changed nothing in the store; return when it is recorded.

        While an entry is being written, acts of the same kind gather for the next entry. Thousands
        of acts per second therefore cost a few writes, and a single act does not wait.

        Raises:
            StoreUnavailable: The act is not recorded, so the caller must not report it as done.
        """
        kind = (intent, outcome, code)
        waiting = self._waiting.get(kind)
        if waiting is None:
            waiting = self._waiting[kind] = deque()
            self._tasks.start(self._write(kind, waiting))
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting.append((Act(self._clock.now(), target, request_id), written))
        await written

    async def _write(self, kind: _Kind, waiting: _Waiting) -> None:
        intent, outcome, code = kind
        while waiting:
            batch = [waiting.popleft() for _ in range(min(len(waiting), limits.AUDIT_ACTS_MAX))]
            error: Exception | None = None
            try:
                acts = tuple(act for act, _ in batch)
                await self._entries.append(self._entry(intent, acts, outcome, code))
            except Refusal as refusal:
                error = refusal
            except Exception:
                log.exception("audit entry could not be written", extra={"action": "audit_failed"})
                error = StoreUnavailable()
            for _, written in batch:
                _settle(written, error)
        del self._waiting[kind]

    async def close(self) -> None:
        """Wait until all waiting acts are written."""
        await self._tasks.finish()

    def _entry(
        self,
        intent: Intent,
        acts: tuple[Act, ...],
        outcome: Outcome | None = None,
        code: str | None = None,
    ) -> AuditEntry:
        return AuditEntry(
            at=acts[0].at,
            # The counter keeps entries of one process in order, even within one millisecond.
            entry_id=f"{next(self._numbers):08x}{self._chance.token(CHANCE_BYTES).hex()}",
            acts=acts,
            outcome=outcome,
            code=code,
            **intent._asdict(),
        )

    async def _complete(
        self, entry: AuditEntry, recorded: Recorded, outcome: Outcome, code: str | None = None
    ) -> None:
        (act,) = entry.acts
        acts = (msgspec.structs.replace(act, target=recorded.target),)
        completed = msgspec.structs.replace(entry, acts=acts, outcome=outcome, code=code)
        try:
            await self._entries.complete(completed)
        except Refusal:
            # The caller gets the true outcome; the audit trail shows `unknown`.
            log.error(
                "outcome of an act could not be recorded",
                extra={
                    "action": "audit_incomplete",
                    "act": entry.action,
                    "tenant": entry.tenant,
                    "outcome": outcome,
                    "request": act.request_id,
                },
            )


def is_certain(refusal: Refusal) -> bool:
    """Return True if the refusal proves that nothing was done, False if the outcome is unknown."""
    return isinstance(refusal, TooMany) or not isinstance(refusal, Unavailable)


def actor_of(caller: Caller) -> tuple[Actor, str | None] | None:
    """Return the actor and its id; None for a user, whose acts are not administrative."""
    match caller:
        case Root():
            return "root", None
        case TenantCaller():
            return "tenant_key", caller.key_id
        case _:
            return None


def _settle(written: "asyncio.Future[None]", error: Exception | None) -> None:
    if written.done():
        return  # the waiting request was cancelled
    if error is None:
        written.set_result(None)
    else:
        written.set_exception(error)

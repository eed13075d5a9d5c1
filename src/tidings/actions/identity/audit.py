# SPDX-License-Identifier: Apache-2.0
"""Recording administrative acts: the intent before, the outcome after.

An act whose intent cannot be recorded is not done. One whose outcome cannot be recorded stays in
the trail as begun, and is shown as `unknown`: so it is after a crash in between.
"""

import asyncio
import itertools
import logging
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

import msgspec

from tidings.actions.identity.caller import Caller, Root, TenantCaller
from tidings.model import limits
from tidings.model.audit import Act, Actor, AuditEntry, Outcome
from tidings.model.refusals import Refusal, StoreUnavailable, TooMany, Unavailable
from tidings.ports.people import AuditLog
from tidings.ports.world import Chance, Clock
from tidings.tasks import Tasks

log = logging.getLogger("tidings.audit")

CHANCE_BYTES: Final = 6


class Intent(NamedTuple):
    """Who is about to do what."""

    actor: Actor
    actor_id: str | None
    action: str
    tenant: str
    fields: tuple[str, ...] = ()


class Recorded:
    """An act that is being done. Who makes something new says what it is called."""

    def __init__(self, target: str | None) -> None:
        self.target = target


_Kind = tuple[Intent, Outcome, str | None]
_Waiting = deque[tuple[Act, "asyncio.Future[None]"]]


class AuditTrail:
    """Where all administrative acts are recorded."""

    def __init__(self, entries: AuditLog, clock: Clock, chance: Chance) -> None:
        self._entries = entries
        self._clock = clock
        self._chance = chance
        self._numbers = itertools.count()
        self._waiting: dict[_Kind, _Waiting] = {}
        """Acts that are done and wait for their entry; no more than requests wait for answers."""
        self._tasks = Tasks("audit")

    @asynccontextmanager
    async def act(
        self, intent: Intent, target: str | None = None, request_id: str | None = None
    ) -> AsyncIterator[Recorded]:
        """Record an act around doing it.

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
        """Record an act that changes nothing in the store before its answer leaves.

        While an entry is being written, those of the same kind gather for the next one: acts that
        come thousands a second cost a few writes, and one that comes alone does not wait.

        Raises:
            StoreUnavailable: It is not recorded, so nobody may be told that it was done.
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
            some = [waiting.popleft() for _ in range(min(len(waiting), limits.AUDIT_ACTS_MAX))]
            trouble: Exception | None = None
            try:
                acts = tuple(act for act, _ in some)
                await self._entries.append(self._entry(intent, acts, outcome, code))
            except Refusal as refusal:
                trouble = refusal
            except Exception:
                log.exception("recording failed", extra={"action": "audit_failed"})
                trouble = StoreUnavailable()
            for _, written in some:
                _settle(written, trouble)
        del self._waiting[kind]

    async def close(self) -> None:
        """Finish what is being written."""
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
            # In order within a process, also where many come in one millisecond.
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
        whole = msgspec.structs.replace(entry, acts=acts, outcome=outcome, code=code)
        try:
            await self._entries.complete(whole)
        except Refusal:
            # It is done, or refused, and the caller is told so; the trail says `unknown`.
            log.error(
                "the outcome of an act is not recorded",
                extra={
                    "action": "audit_incomplete",
                    "act": entry.action,
                    "tenant": entry.tenant,
                    "outcome": outcome,
                    "request": act.request_id,
                },
            )


def is_certain(refusal: Refusal) -> bool:
    """Whether nothing was done."""
    return isinstance(refusal, TooMany) or not isinstance(refusal, Unavailable)


def actor_of(caller: Caller) -> tuple[Actor, str | None] | None:
    """Who acts; None for a user, whose acts are not administrative."""
    match caller:
        case Root():
            return "root", None
        case TenantCaller():
            return "tenant_key", caller.key_id
        case _:
            return None


def _settle(written: "asyncio.Future[None]", trouble: Exception | None) -> None:
    if written.done():
        return  # whoever waited has gone
    if trouble is None:
        written.set_result(None)
    else:
        written.set_exception(trouble)

# SPDX-License-Identifier: Apache-2.0
"""Trace the delivery to a user or in a chat, step by step, while it happens."""

from typing import Final

import msgspec

from tidings.actions.content.wrapping import Cursors
from tidings.actions.explain.refusals import RefusalJournal
from tidings.actions.identity.caller import Caller, require_tenant
from tidings.actions.identity.users import existing
from tidings.model import limits
from tidings.model.ids import CHAT, USER, ChatId, UserKey, user_key
from tidings.model.refusals import ChatNotFound, Invalid, TenantNotFound, UserNotFound
from tidings.ports.journals import Journals, TraceQuestion, TraceStep
from tidings.ports.log import Log
from tidings.ports.people import Tenants, UserStore
from tidings.ports.world import Clock

SETTLED_MS: Final = limits.SECOND_MS
"""Steps are shown when they are this old: another gateway may have a clock that is a little
behind."""
RECENT_MS: Final = 60 * limits.SECOND_MS
"""The first request of a trace returns the steps of this many milliseconds before it."""


class Traced(msgspec.Struct, frozen=True):
    """Some steps in order, and the cursor with which the trace goes on."""

    steps: list[TraceStep]
    cursor: str
    is_complete: bool


class Trace(msgspec.Struct, frozen=True):
    """Trace the delivery to a user or in a chat, for the tenant or root. No step has content."""

    tenants: Tenants
    users: UserStore
    log: Log
    journals: Journals
    refusals: RefusalJournal
    cursors: Cursors
    clock: Clock

    async def __call__(
        self, caller: Caller, tenant: str, user: str | None, chat: str | None, cursor: str | None
    ) -> Traced:
        """Return the steps since the cursor, or those of the last minute without a cursor.

        Raises:
            TenantNotFound: There is no such tenant, or the caller belongs to another one.
            Forbidden: The caller is a user.
            UserNotFound: The tenant has no such user.
            ChatNotFound: The tenant has no such chat.
            Invalid: Neither a user nor a chat is given, or both are.
            CursorInvalid: The cursor is of another trace.
        """
        require_tenant(caller, tenant)
        if (user is None) == (chat is None):
            raise Invalid("either user_id or chat_id must be given", "")
        # A user may have the id of a chat.
        purpose = "trace of a chat" if user is None else "trace of a user"
        owner = UserKey(f"{tenant}:{chat if user is None else user}")
        until = self.clock.now() - SETTLED_MS
        if cursor is None:
            await self._check(tenant, user, chat)
            after = until - RECENT_MS
        else:
            # The first request has checked that the tenant has this user or chat.
            after = int(self.cursors.open(purpose, owner, cursor))
        until = max(after, until)
        question = TraceQuestion(
            after=after,
            until=until,
            user=None if user is None else user_key(tenant, user),
            chat=None if chat is None else ChatId(chat),
        )
        found = await self.journals.trace(question) if after < until else []
        steps = [step for trace in found for step in trace.steps] + self.refusals.trace(question)
        return Traced(
            sorted(steps, key=lambda step: step.at),
            self.cursors.seal(purpose, owner, str(until).encode()),
            all(trace.is_complete for trace in found),
        )

    async def _check(self, tenant: str, user: str | None, chat: str | None) -> None:
        if await self.tenants.get(tenant) is None:
            raise TenantNotFound
        if user is not None:
            if USER.fullmatch(user) is None:
                raise UserNotFound
            await existing(self.users, user_key(tenant, user))
            return
        is_chat = chat is not None and CHAT.fullmatch(chat) is not None
        state = await self.log.state(ChatId(str(chat))) if is_chat else None
        if state is None or state.tenant != tenant or state.is_deleted:
            raise ChatNotFound

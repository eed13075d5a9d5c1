# SPDX-License-Identifier: Apache-2.0
"""Delete chats, and sweep expired content.

A deleted chat disappears at once; a job deletes its content later. Expired content is also
invisible at once, even before it is swept. Sweeping removes it from the store, and notifies the
devices whose unread count has changed.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress

import msgspec

from tidings.actions.chat.appender import Appender
from tidings.actions.chat.changes import Decide, change, membership_of
from tidings.actions.chat.members import check_group
from tidings.actions.identity.caller import Caller, require_tenant
from tidings.actions.jobs.ledger import Erasures
from tidings.model import limits, roles
from tidings.model.chats import ChatState
from tidings.model.entries import Deletion, Entry
from tidings.model.ids import ChatId, UserKey, tenant_itself
from tidings.model.refusals import ChatNotFound, Forbidden, StoreUnavailable
from tidings.ports.bus import Bus, Expired
from tidings.ports.chats import Deletions
from tidings.ports.store import Sweeping
from tidings.ports.world import Clock

log = logging.getLogger("tidings.sweeping")


class Sweeper:
    """Removes expired data in the background, once a second."""

    def __init__(self, sweeping: Sweeping, bus: Bus, clock: Clock) -> None:
        self._sweeping = sweeping
        self._bus = bus
        self._clock = clock

    async def sweep_when_due(self) -> None:
        """Sweep, then wait a second. If the store is unavailable, the next call tries again."""
        try:
            await self.sweep()
        except StoreUnavailable as refusal:
            log.warning("cannot sweep now: %s", refusal, extra={"action": "sweep_waits"})
        await asyncio.sleep(limits.SWEEP_TICK_MS / 1_000)

    async def sweep(self) -> int:
        """Remove all expired content, idempotency keys and notifications.

        Return the number of messages whose content was removed.
        """
        emptied = 0
        while True:
            now = self._clock.now()
            found = await self._sweeping.empty_expired(now, limits.SWEEP_BATCH_ROWS)
            emptied += len(found)
            self._publish(found)
            if len(found) < limits.SWEEP_BATCH_ROWS:
                break
        await self._forget_keys()
        await self._forget_notifications()
        return emptied

    async def _forget_keys(self) -> None:
        # Each step checks a batch of keys, which are not in order of time. Continue while more than
        # an eighth of a batch is stale, so that keys are removed as fast as sends add them.
        limit = limits.SWEEP_BATCH_ROWS
        while await self._sweeping.forget_keys(self._clock.now(), limit) > limit // 8:
            pass

    async def _forget_notifications(self) -> None:
        limit = limits.SWEEP_BATCH_ROWS
        while await self._sweeping.forget_notifications(self._clock.now(), limit) >= limit:
            pass

    def _publish(self, found: list[tuple[ChatId, int]]) -> None:
        by_chat: dict[ChatId, list[int]] = defaultdict(list)
        for chat, sequence in found:
            by_chat[chat].append(sequence)
        for chat, sequences in by_chat.items():
            self._bus.publish(Expired(chat, tuple(sequences)))


class DeleteChat(msgspec.Struct, frozen=True):
    """Delete a group as its owner, or any chat as the tenant. A repeat returns the same job."""

    appender: Appender
    deletions: Deletions
    erasures: Erasures

    async def as_owner(self, user: UserKey, chat: ChatId) -> Deletion:
        """Delete a group. Once this returns, nothing can be appended to the group's log.

        Raises:
            ChatNotFound: The user is not a member, or somebody else has deleted the chat.
            Forbidden: The user is not an owner.
            DirectChatFixed: The chat is direct, and only the tenant can delete it.
        """
        return await self._delete(
            chat, user, lambda state, _: _end(state, user), lambda job: job.deleted_by == user
        )

    async def as_tenant(self, caller: Caller, tenant: str, chat: ChatId) -> Deletion:
        """Delete any chat of the tenant. The entry names the tenant as its sender.

        Raises:
            ChatNotFound: The tenant has no such chat.
        """
        require_tenant(caller, tenant)
        return await self._delete(
            chat,
            tenant_itself(tenant),
            lambda state, _: _end_as(state, tenant),
            lambda job: job.tenant == tenant,
        )

    async def begin(self, tenant: str, chat: ChatId) -> None:
        """Delete a chat, because its tenant is deleted; do nothing if the chat is gone already."""
        with suppress(ChatNotFound):
            await change(self.appender, chat, lambda state, _: _end_as(state, tenant))

    async def again(self, chat: ChatId, by: UserKey) -> None:
        """Delete a chat again, because a restored backup has brought it back, or because the
        process died between recording the deletion and carrying it out.

        Nothing is checked, because it was before. `by` may be empty: then the tenant deletes it.
        """

        def decide(state: ChatState, _: int) -> list[Entry]:
            return [_ended(state, by or tenant_itself(state.tenant))]

        with suppress(ChatNotFound):
            await change(self.appender, chat, decide)

    async def _delete(
        self, chat: ChatId, by: UserKey, decide: Decide, is_theirs: Callable[[Deletion], bool]
    ) -> Deletion:
        def check(state: ChatState, now: int) -> list[Entry]:
            decide(state, now)
            return []

        try:
            # Check first, so that the ledger records only deletions that the caller may make.
            await change(self.appender, chat, check)
            async with self.erasures.recorded("chat", chat, by):
                await change(self.appender, chat, decide)
        except ChatNotFound:
            job = await self.deletions.get(chat)
            if job is None or not is_theirs(job):
                raise
            return job
        job = await self.deletions.get(chat)
        assert job is not None, "the entry starts the job"
        return job


def _end(state: ChatState, user: UserKey) -> list[Entry]:
    own = membership_of(state, user)
    check_group(state)
    if not roles.may_delete(own.role):
        raise Forbidden("only an owner may delete a group")
    return [_ended(state, user)]


def _end_as(state: ChatState, tenant: str) -> list[Entry]:
    if state.tenant != tenant:
        raise ChatNotFound
    return [_ended(state, tenant_itself(tenant))]


def _ended(state: ChatState, by: UserKey) -> Entry:
    return Entry(chat_id=state.chat_id, kind="deleted", sender=by)

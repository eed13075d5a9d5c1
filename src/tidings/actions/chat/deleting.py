# SPDX-License-Identifier: Apache-2.0
"""Deleting a chat: a last entry ends it at once, then a job removes members and content."""

from collections.abc import Callable
from dataclasses import dataclass

from tidings.actions.chat.appender import Appender
from tidings.actions.chat.changes import Decide, change, membership_of
from tidings.actions.chat.members import check_group
from tidings.actions.identity.caller import Caller, require_tenant
from tidings.model import roles
from tidings.model.chats import ChatState
from tidings.model.deletions import Deletion, chat_of
from tidings.model.entries import Entry
from tidings.model.ids import ChatId, UserKey, tenant_itself
from tidings.model.refusals import ChatNotFound, Forbidden, JobNotFound
from tidings.ports.chats import Deletions


@dataclass(frozen=True, slots=True)
class DeleteChat:
    """Delete a group as its owner, or any chat as the tenant. A repeat returns the same job."""

    appender: Appender
    deletions: Deletions

    async def as_owner(self, user: UserKey, chat: ChatId) -> Deletion:
        """Delete a group. Once this returns, nothing can be appended to it.

        Raises:
            ChatNotFound: The user is not a member, or somebody else has deleted the chat.
            Forbidden: The user is no owner.
            DirectChatFixed: It is a direct chat, which only the tenant can delete.
        """
        return await self._delete(
            chat, lambda state, _: _end(state, user), lambda job: job.deleted_by == user
        )

    async def as_tenant(self, caller: Caller, tenant: str, chat: ChatId) -> Deletion:
        """Delete any chat of the tenant. The entry names the tenant as its sender.

        Raises:
            ChatNotFound: The tenant has no such chat.
        """
        require_tenant(caller, tenant)
        return await self._delete(
            chat, lambda state, _: _end_as(state, tenant), lambda job: job.tenant == tenant
        )

    async def _delete(
        self, chat: ChatId, decide: Decide, is_theirs: Callable[[Deletion], bool]
    ) -> Deletion:
        try:
            await change(self.appender, chat, decide)
        except ChatNotFound:
            job = await self.deletions.get(chat)
            if job is None or not is_theirs(job):
                raise
            return job
        job = await self.deletions.get(chat)
        assert job is not None, "the entry starts the job"
        return job


@dataclass(frozen=True, slots=True)
class GetJob:
    """Return the progress of a tenant's deletion job."""

    deletions: Deletions

    async def __call__(self, caller: Caller, tenant: str, job_id: str) -> Deletion:
        """Raises:
        JobNotFound: The tenant has no such job.
        """
        require_tenant(caller, tenant)
        chat = chat_of(job_id)
        job = None if chat is None else await self.deletions.get(chat)
        if job is None or job.tenant != tenant:
            raise JobNotFound
        return job


def _end(state: ChatState, user: UserKey) -> list[Entry]:
    own = membership_of(state, user)
    check_group(state)
    if not roles.may_delete(own.role):
        raise Forbidden("only an owner may delete a group")
    return [Entry(chat_id=state.chat_id, kind="deleted", sender=user)]


def _end_as(state: ChatState, tenant: str) -> list[Entry]:
    if state.tenant != tenant:
        raise ChatNotFound
    return [Entry(chat_id=state.chat_id, kind="deleted", sender=tenant_itself(tenant))]

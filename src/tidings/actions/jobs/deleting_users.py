# SPDX-License-Identifier: Apache-2.0
"""Delete a user: record it in the ledger, start the job, and mark the user as deleted."""

from collections.abc import Callable

import msgspec

from tidings.actions.identity.caller import Caller, require_tenant
from tidings.actions.jobs.ledger import Erasures
from tidings.actions.jobs.starting import StartJob
from tidings.actions.jobs.user_deletion import MARKED, ContentPart, pending_of
from tidings.model.ids import USER, UserKey, user_key
from tidings.model.refusals import UserNotFound
from tidings.ports.erasing import PersonalData
from tidings.ports.people import UserStore
from tidings.ports.tenant_jobs import TenantJob, TenantJobs, job_id_of
from tidings.ports.world import Clock


class DeleteUser(msgspec.Struct, frozen=True):
    """Delete a user of the tenant, for good. A repeat returns the same job."""

    users: UserStore
    personal_data: PersonalData
    jobs: TenantJobs
    erasures: Erasures
    start: StartJob
    clock: Clock

    async def __call__(self, caller: Caller, tenant: str, user_id: str) -> TenantJob:
        """Mark the user as deleted and start the job. Once this returns, the id is refused.

        Raises:
            UserNotFound: The tenant has no such user.
        """
        require_tenant(caller, tenant)
        if USER.fullmatch(user_id) is None:
            raise UserNotFound
        user = user_key(tenant, user_id)
        found = await self.users.get(user)
        if found is None:
            raise UserNotFound
        job = await self.jobs.get(tenant, job_id_of("user.delete", user_id))
        if job is not None and found.deleted_at is not None:
            return job
        async with self.erasures.recorded("user", user):
            return await self.begin(user, found.phone_number)

    async def begin(
        self,
        user: UserKey,
        phone_number: str | None,
        prepare: Callable[[TenantJob], TenantJob] | None = None,
    ) -> TenantJob:
        """Store the job, then mark the user as deleted. If the process dies in between, the job
        marks the user."""
        tenant, _, user_id = user.partition(":")
        job = await self.start(tenant, "user.delete", user_id, cursor=phone_number, prepare=prepare)
        await self.personal_data.mark_deleted(user, self.clock.now())
        return job

    async def again(self, user: UserKey, content: ContentPart) -> TenantJob:
        """Begin the deletion that a ledger lists, and of which the store does not know.

        The caller destroys the user's data key at once. A new job therefore begins with the key, so
        that its receipt counts it.
        """
        found = await content.find(user)

        def prepare(job: TenantJob) -> TenantJob:
            return pending_of(job.at(MARKED), content, found) if found.names else job

        return await self.begin(user, None, prepare)

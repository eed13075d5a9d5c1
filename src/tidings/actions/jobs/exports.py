# SPDX-License-Identifier: Apache-2.0
"""Start the export of a person's data, and return its parts."""

from typing import Final

import msgspec

from tidings.actions.content.vault import Sealed, Vault
from tidings.actions.identity.caller import Caller, require_tenant
from tidings.actions.jobs.person_export import PURPOSE, bound_to, result_of
from tidings.actions.jobs.starting import StartJob, find_job
from tidings.model.ids import USER, UserKey, user_key
from tidings.model.refusals import (
    ExportGone,
    ExportUnfinished,
    JobNotFound,
    UserDeleted,
    UserNotFound,
)
from tidings.ports.store import Store
from tidings.ports.tenant_jobs import JobKind, TenantJob, job_id_of
from tidings.ports.world import Clock

EXPORT: Final[JobKind] = "user.export"


class PersonExports:
    """Start the export of a person's data, and return its parts."""

    def __init__(self, store: Store, vault: Vault, start: StartJob, clock: Clock) -> None:
        self._store = store
        self._vault = vault
        self._start = start
        self._clock = clock

    async def start(self, caller: Caller, tenant: str, user: str) -> TenantJob:
        """Start an export, which replaces a finished one; if one is running, return that one.

        Raises:
            UserNotFound: The tenant has no such user.
            UserDeleted: The user is deleted.
        """
        require_tenant(caller, tenant)
        found_user = None
        if USER.fullmatch(user) is not None:
            found_user = await self._store.users.get(user_key(tenant, user))
        if found_user is None:
            raise UserNotFound
        if found_user.deleted_at is not None:
            raise UserDeleted
        job_id = job_id_of(EXPORT, user)
        found = await self._store.tenant_jobs.get(tenant, job_id)
        if found is not None and found.state == "done":
            await self._store.tenant_jobs.remove(tenant, job_id)
        return await self._start(tenant, EXPORT, user)

    async def part(
        self, caller: Caller, tenant: str, job_id: str, cursor: str | None
    ) -> tuple[list[msgspec.Raw], str | None]:
        """Return the records of one part, and the cursor of the next part.

        Raises:
            JobNotFound: The tenant has no such export.
            ExportUnfinished: The job is still running.
            ExportGone: The export has expired, or the person's content was erased.
        """
        require_tenant(caller, tenant)
        job = await find_job(self._store.tenant_jobs, tenant, job_id)
        if job is None or job.kind != EXPORT:
            raise JobNotFound
        if job.state != "done":
            raise ExportUnfinished
        owner, cursors = UserKey(f"{tenant}:{job_id}"), self._vault.cursors
        number = int(cursors.position(PURPOSE, owner, cursor) or 0)
        result = result_of(job)
        if result is None or result.expires_at <= self._clock.now():
            raise ExportGone
        text = await self._text(job, number)
        if text is None:
            raise ExportGone
        following = str(number + 1) if number + 1 < result.parts else None
        records = [msgspec.Raw(record.encode()) for record in text.split("\n")]
        return records, cursors.after(PURPOSE, owner, following)

    async def _text(self, job: TenantJob, number: int) -> str | None:
        part = await self._store.export_parts.get(job, number)
        if part is None:
            return None
        user = user_key(job.tenant, job.subject)
        sealed = Sealed(part.box, part.box_key)
        return await self._vault.open_text(user, bound_to(job, number), sealed)

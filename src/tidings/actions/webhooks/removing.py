# SPDX-License-Identifier: Apache-2.0
"""The job that removes what a deleted webhook endpoint was owed and had refused."""

from typing import Final

import msgspec

from tidings.model.limits import SECOND_MS
from tidings.ports.tenant_jobs import NotYet, TenantJob
from tidings.ports.webhooks import WebhookQueue, Webhooks
from tidings.ports.world import Clock

SETTLE_MS: Final = 15 * SECOND_MS
"""Time after a deletion in which processes that do not know of it yet may still store rows of the
endpoint."""
ROWS_IN_STEP: Final = 100


class RemoveOwed(msgspec.Struct, frozen=True):
    """Removes the rows of a deleted endpoint; the cursor of the job is the endpoint's `place`.

    The job is stored before the endpoint is deleted, so that no row is forgotten if the process
    dies in between. If the endpoint is still there later, the job removes nothing.
    """

    store: Webhooks
    queue: WebhookQueue
    clock: Clock

    async def step(self, job: TenantJob) -> TenantJob:
        """Remove some rows; the job is done when none is left."""
        due = job.created_at + SETTLE_MS
        if self.clock.now() < due:
            raise NotYet(due)
        place = job.cursor or ""
        if any(one.place == place for one in await self.store.of(job.tenant)):
            return _done(job)
        removed = await self.queue.remove(place, ROWS_IN_STEP)
        job = job.counting(rows=removed)
        return _done(job) if removed == 0 else job


def _done(job: TenantJob) -> TenantJob:
    return msgspec.structs.replace(job.at("done"), state="done")

# SPDX-License-Identifier: Apache-2.0
"""A server that deletes users in small and slow steps under short leases: many kills meet the job,
and another process soon goes on.

Run in place of `python -m tidings`.
"""

import asyncio
import os
import random
import sys

from tidings.actions.jobs import user_deletion
from tidings.cli import main
from tidings.ports.tenant_jobs import TenantJob
from tidings.stores.dynamodb.identity import tenant_jobs

LEASE_MS = 1_000
STEP_ITEMS = 2
STEP_SECONDS = "STEP_SECONDS"
"""Name of the variable that says how much longer a step takes on average."""

honest_step = user_deletion.UserDeletion.step


async def slow_step(self: user_deletion.UserDeletion, job: TenantJob) -> TenantJob:
    await asyncio.sleep(random.uniform(0, 2 * float(os.environ[STEP_SECONDS])))
    return await honest_step(self, job)


if __name__ == "__main__":
    tenant_jobs.DELETION_LEASE_MS = LEASE_MS  # type: ignore[attr-defined]
    user_deletion.PENDING_MAX = STEP_ITEMS  # type: ignore[attr-defined]
    user_deletion.UserDeletion.step = slow_step  # type: ignore[method-assign]
    sys.exit(main())

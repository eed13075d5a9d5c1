# SPDX-License-Identifier: Apache-2.0
"""Complete a broadcast that is in the log of its inbox, before its post is answered."""

import msgspec

from tidings.actions.jobs.starting import StartJob
from tidings.actions.push.directory import PushDirectory
from tidings.actions.webhooks.raising import RaiseBroadcastDelivered
from tidings.model.notifications import Broadcast


class CompleteBroadcast(msgspec.Struct, frozen=True):
    """Starts the job that notifies everybody of a broadcast, and raises its event.

    A repeat does what an interrupted request has left undone. It starts no second job, and raises
    no second event.
    """

    push: PushDirectory
    start_job: StartJob
    raise_delivered: RaiseBroadcastDelivered

    async def __call__(self, entry: Broadcast) -> None:
        """Complete the broadcast, unless the entry is a retraction.

        Raises:
            Unavailable: The broadcast must be completed by a repeat.
        """
        if entry.kind != "broadcast":
            return
        if (await self.push.tenant(entry.tenant)).credentials:
            subject = f"{entry.inbox}:{entry.sequence}"
            await self.start_job(entry.tenant, "push.everyone", subject)
        await self.raise_delivered(entry)

# SPDX-License-Identifier: Apache-2.0
"""The use cases of scheduled messages whose cost is measured."""

from typing import TYPE_CHECKING

from scripts.cost_page import SMALL
from tests.contract.metering import text
from tests.contract.test_people import a_signing_key, a_tenant
from tidings.actions.chat.scheduling import ScheduledDraft
from tidings.model.scheduled import Scheduled
from tidings.ports.due import due_of

if TYPE_CHECKING:
    from tests.contract.cost_cases import Ground


async def scheduling(ground: "Ground") -> None:
    """A message is scheduled, and sent at its time."""
    chat, (ann, _) = await ground.chat(2)
    await ground.home.store.users.put(ann, display_name=None, phone_number=None, now=1)
    await ground.home.store.tenants.put(a_tenant(), a_signing_key("s1"))
    async with ground.process() as process:
        await process.warm_up(ann, chat)
        core = process.core
        at = core.clock.now() + 60_000

        async def schedule(name: str) -> Scheduled:
            draft = ScheduledDraft(client_message_id=name, content=text(SMALL))
            return await core.verbs.scheduling.add(ann, chat, draft, at)

        await schedule("first")
        await process.rest(ann)
        ground.start(process)
        message = await schedule("second")
        ground.keep("schedule a message", process.meter.reading(), process)
        ground.start(process)
        await core.due_work["message"].do(due_of(message))
        await core.store.due.drop(due_of(message))
        answer = process.meter.reading()
        # The sender's own mark follows within a second of the sending. On a slow machine it is
        # written before the message is noted as sent.
        answer.pop("move_receipt", None)
    ground.keep("send a scheduled message, 1:1, offline", answer, process)

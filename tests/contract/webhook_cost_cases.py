# SPDX-License-Identifier: Apache-2.0
"""The use cases of webhooks, and of what happens later, whose cost is measured."""

from typing import TYPE_CHECKING

import pytest

from tests.contract.builders import an_endpoint
from tests.contract.push_cost_cases import push_notices
from tests.contract.scheduled_cost_cases import scheduling
from tidings.actions.webhooks.attempts import AttemptResult
from tidings.delivery import webhook_couriers
from tidings.delivery.courier import Courier
from tidings.model.ids import tenant_of

if TYPE_CHECKING:
    from tests.contract.cost_cases import Ground


async def _taken(*_: object) -> AttemptResult:
    return AttemptResult("taken", 200)


async def webhooks(ground: "Ground") -> None:
    """An endpoint is owed an event, and takes it."""
    chat, (ann, _) = await ground.chat(2)
    tenant = tenant_of(ann)
    endpoint = an_endpoint(tenant=tenant, since=0, events=("chat.created",))
    async with ground.process() as process:
        await process.warm_up(ann, chat)
        core, courier = process.core, Courier((tenant, endpoint.webhook_id))
        delivery = core.webhook_delivery
        delivery.directory.cached = lambda _: [endpoint]  # type: ignore[method-assign, assignment]
        delivery.couriers._attempt = _taken  # type: ignore[assignment]
        delivery.couriers.run_only(lambda _: True)
        for is_measured in (False, True):
            if is_measured:
                core.clock.time += 10_000  # type: ignore[attr-defined]
                ground.start(process)
            await delivery.owe(tenant, chat, 1, 1)
            with pytest.MonkeyPatch.context() as patch:
                # A turn that takes long notes in between what was taken.
                patch.setattr(webhook_couriers, "STORED_SECONDS", 3_600.0)
                while await delivery.couriers.turn(courier) is not None:
                    pass
        answer = process.meter.reading()
    ground.keep("an event for a webhook endpoint", answer, process)


async def timed_cases(ground: "Ground") -> None:
    """What the timer has to do with, and push."""
    await scheduling(ground)
    await webhooks(ground)
    await push_notices(ground)

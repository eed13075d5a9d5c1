# SPDX-License-Identifier: Apache-2.0
"""The use case of push notices whose cost is measured."""

from typing import TYPE_CHECKING

import pytest

from scripts.cost_page import PUSH_NOTICE
from tests.contract.builders import a_push_device
from tidings.actions.inbox import settings
from tidings.actions.push.directory import TenantPush
from tidings.actions.push.noticing import WaitingMessages
from tidings.assembly.push_queue import make_notices
from tidings.model.push_rules import ArrivedMessage
from tidings.ports.push import PushNotice

if TYPE_CHECKING:
    from tests.contract.cost_cases import Ground


async def without_content(_: str) -> TenantPush:
    """The settings of a tenant whose notices show no content."""
    return TenantPush("none", {"fcm": {}}, 0)


async def push_notices(ground: "Ground") -> None:
    """A member is notified of a message on one device; what is cached was read for an earlier
    message."""
    chat, (ann, bob) = await ground.chat(2)
    phone = a_push_device(bob, "phone", "target of a notice")
    async with ground.process() as process:
        core, make = process.core, make_notices(process.core)
        core.push.directory.tenant = without_content  # type: ignore[method-assign, assignment]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(settings, "monotonic", lambda: 0.0)
            for is_measured in (False, True):
                sent = await process.warm_up(ann, chat)
                if is_measured:
                    ground.start(process)
                message = ArrivedMessage(sent.sequence, ann, is_mention=False)
                made = await make(WaitingMessages(bob, chat, [message], unless_delivered=False))
                assert isinstance(made, PushNotice)
                await core.push.send._is_valid(phone)
        answer = process.meter.reading()
    ground.keep(PUSH_NOTICE, answer, process)

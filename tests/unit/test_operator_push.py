# SPDX-License-Identifier: Apache-2.0
"""The push service of the operator: what is kept about users who have no registered device."""

from collections.abc import Sequence
from typing import Any, cast

import pytest

from tests.support.clock import ManualClock
from tests.support.users import BOB
from tests.unit.small_deployment import CHAT
from tidings.actions.push.journal import PushJournal
from tidings.actions.push.sending import SendPush
from tidings.delivery.operator_push import OperatorPush
from tidings.model.ids import UserKey
from tidings.ports.delivery import MessageNotice
from tidings.ports.journals import JournalQuestion
from tidings.ports.push import PushNotice

DATA = {"chat_id": CHAT, "sequence": "7", "sender_id": "ann"}
NOTICE = PushNotice(kind="message", data=DATA, collapse_key=CHAT)


class NobodyRegistered:
    """A SendPush for users without devices."""

    def __init__(self, journal: PushJournal) -> None:
        self.journal = journal

    async def __call__(self, user: UserKey, notice: PushNotice, **how: Any) -> list[object]:
        return []


class OperatorService:
    """A push service of the operator that takes everything."""

    def __init__(self, journal: PushJournal) -> None:
        self._journal = journal

    async def send(self, notices: Sequence[MessageNotice]) -> None:
        self._journal.by_operator(notices, "sent")


async def wanted(user: UserKey, notice: PushNotice) -> bool:
    return True


@pytest.mark.parametrize(
    ("has_service", "at_once", "at_the_end"),
    [(True, [], ["sent"]), (False, ["no_device"], ["no_device"])],
)
async def test_the_operator_needs_no_registered_device(
    has_service: bool, at_once: list[str], at_the_end: list[str]
) -> None:
    journal = PushJournal(ManualClock())

    def kept() -> list[str]:
        return [one.result for one in journal.look(JournalQuestion(BOB, CHAT, 7))]

    service = OperatorService(journal) if has_service else None
    push = OperatorPush(cast(SendPush, NobodyRegistered(journal)), service, wanted)
    await push.send(BOB, NOTICE)
    assert kept() == at_once
    await push.close()
    assert kept() == at_the_end

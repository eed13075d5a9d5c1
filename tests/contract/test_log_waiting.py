# SPDX-License-Identifier: Apache-2.0
"""How many proposals may wait for a chat: no more than its engine says, then come again."""

import pytest

from tests.contract.builders import a_chat
from tests.contract.engines import Store
from tidings.actions.chat.appender import Appender
from tidings.actions.chat.changes import AwaitedChange
from tidings.assembly.system import SystemChance, SystemClock, back_off
from tidings.buses.in_process import InProcessBus
from tidings.model.refusals import ChatBusy


@pytest.mark.attack("F02")
async def test_what_a_chat_cannot_take_soon_is_told_to_come_again(store: Store) -> None:
    chat = (await a_chat(store)).chat_id
    appender = Appender(store.log, InProcessBus(), SystemClock(), SystemChance(), back_off)
    changes = [AwaitedChange(lambda _state, _now: []) for _ in range(store.log.waiting_max + 2)]
    for change in changes:
        appender.propose(chat, change)
    refused = [
        change
        for change in changes
        if change.answer.done() and isinstance(change.answer.exception(), ChatBusy)
    ]
    assert refused == changes[store.log.waiting_max :]
    assert [await change.answer for change in changes[:3]] == [[], [], []]
    await appender.close()

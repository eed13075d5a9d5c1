# SPDX-License-Identifier: Apache-2.0
"""Offers of messages for push: whose devices are looked up."""

import pytest

from tests.support.clock import NOW, ManualClock
from tests.support.fake_gateways import FakePushQueue
from tests.support.users import BOB, CAT
from tests.unit.small_deployment import ALICE, CHAT
from tidings.actions.identity.blocks import NoBlocks
from tidings.actions.push.journal import PushJournal
from tidings.assembly.push_queue import NoDevices
from tidings.delivery.push_notices import Arrival, Everybody, PushOffers
from tidings.model.entries import Entry
from tidings.model.ids import UserKey
from tidings.model.roles import Member


class RecordedReach(Everybody):
    """Remembers whose devices were looked up."""

    def __init__(self) -> None:
        self.looked_up: list[UserKey] = []

    async def is_reachable(self, user: UserKey) -> bool:
        self.looked_up.append(user)
        return True


@pytest.mark.parametrize(("is_small", "looked_up"), [(True, [BOB, CAT]), (False, [CAT])])
async def test_in_a_large_chat_nothing_is_looked_up_for_those_who_got_the_message(
    is_small: bool, looked_up: list[UserKey]
) -> None:
    queue, reach = FakePushQueue(), RecordedReach()
    offers = PushOffers(queue, reach, NoBlocks(), NoDevices(), PushJournal(ManualClock()))
    entry = Entry(chat_id=CHAT, sequence=2, kind="message", sender=ALICE, created_at=NOW)
    members = {user: Member("member", NOW, 1) for user in (ALICE, BOB, CAT)}

    await offers.offer(Arrival(entry, members, is_small), reached={BOB})

    assert reach.looked_up == looked_up
    assert queue.of(BOB) == []
    assert queue.of(CAT) == [2]

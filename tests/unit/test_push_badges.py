# SPDX-License-Identifier: Apache-2.0
"""The badge of push notices: counted seldom, and without counting a message twice."""

from tests.support.clock import ManualClock
from tests.support.users import BOB
from tidings.actions.push.noticing import COUNTED_MS, Badges
from tidings.model.ids import UserKey
from tidings.model.unread_totals import UnreadTotal


async def test_messages_that_waited_when_the_total_was_counted_are_not_added() -> None:
    clock, counted = ManualClock(), list[UserKey]()

    async def count(user: UserKey) -> UnreadTotal:
        counted.append(user)
        return UnreadTotal(chats=2, messages=9, inboxes={}, exact=True)

    badges, start = Badges(count, clock), clock.time
    assert await badges.of(BOB, more=4, newest_at=start - 1) == 9
    clock.time += 2
    assert await badges.of(BOB, more=5, newest_at=start - 1) == 9, "another chat, from before"
    assert await badges.of(BOB, more=2, newest_at=start + 1) == 11
    assert await badges.of(BOB) == 12, "a notification"
    clock.time = start + COUNTED_MS
    assert await badges.of(BOB, newest_at=clock.time) == 9
    assert counted == [BOB, BOB]

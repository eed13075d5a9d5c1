# SPDX-License-Identifier: Apache-2.0
"""What users do with single notifications, and the marks for all of them."""

import asyncio

from msgspec.structs import replace

from tests.contract.engines import Engine, Store
from tests.contract.inbox_builders import EXPIRES, INBOX, a_broadcast, a_copy, new_id
from tests.support.clock import NOW
from tests.support.users import ANN, BOB
from tidings.model.notification_states import Acted, BroadcastStates, StateChange
from tidings.model.notifications import NOTHING_READ, Copy, ReadState

ALL_SET = StateChange(seen=True, read=True, archived=True, snoozed_until=NOW + 9)
ALL_OFF = StateChange(seen=False, read=False, archived=False, snoozed_until=None)
MARKED = ReadState(
    before=5, announced=6, seen_before=7, seen_announced=8, archived_before=9, archived_announced=10
)


async def a_stored_copy(store: Store) -> Copy:
    copy = a_copy(collapse="0123")
    await store.copies.deliver([ANN, BOB], INBOX, copy)
    return copy


async def copy_of(store: Store, copy: Copy) -> Copy:
    """Ann's copy as it is now; Bob's is as it was."""
    (ours,) = await store.copies.newest(ANN, INBOX, before=None, limit=1)
    assert await store.copies.newest(BOB, INBOX, before=None, limit=1) == [copy]
    return ours


async def change(
    store: Store, copy: Copy, wanted: StateChange, at: int = NOW, state: ReadState = NOTHING_READ
) -> None:
    ids = [copy.notification_id, new_id()]
    await store.inbox_states.change_copies(ANN, INBOX, ids, wanted, state, at)


async def test_a_copy_gets_its_states_and_loses_them(store: Store) -> None:
    copy = await a_stored_copy(store)
    await change(store, copy, ALL_SET)
    times = {"seen_at": NOW, "read_at": NOW, "archived_at": NOW, "snoozed_until": NOW + 9}
    assert await copy_of(store, copy) == replace(copy, **times)

    await change(store, copy, ALL_OFF, NOW + 1, MARKED)
    since = {"unread_since": 5, "unseen_since": 7, "unarchived_since": 9}
    assert await copy_of(store, copy) == replace(copy, **since)

    await change(store, copy, ALL_SET, NOW + 2)
    again = {"seen_at": NOW + 2, "read_at": NOW + 2, "archived_at": NOW + 2}
    assert await copy_of(store, copy) == replace(copy, **times | since | again)


async def test_a_state_keeps_its_first_time_and_the_last_snooze_wins(store: Store) -> None:
    copy = await a_stored_copy(store)
    await change(store, copy, ALL_SET)
    await change(store, copy, replace(ALL_SET, snoozed_until=NOW + 20), NOW + 1)
    now = await copy_of(store, copy)
    assert (now.seen_at, now.read_at, now.archived_at) == (NOW, NOW, NOW)
    assert now.snoozed_until == NOW + 20


async def test_what_is_unread_again_is_still_seen(store: Store) -> None:
    copy = await a_stored_copy(store)
    await change(store, copy, StateChange(read=True))
    await change(store, copy, StateChange(read=False), NOW + 1)
    assert await copy_of(store, copy) == replace(copy, seen_at=NOW + 1, unread_since=0)


async def test_no_copy_is_made_by_a_change(store: Store) -> None:
    await store.inbox_states.change_copies(ANN, INBOX, [new_id()], ALL_SET, NOTHING_READ, NOW)
    assert await store.inbox_states.act_on_copy(ANN, INBOX, new_id(), "yes", NOW) is None
    assert await store.copies.newest(ANN, INBOX, before=None, limit=9) == []
    assert await store.copies.read_state(ANN, INBOX) == NOTHING_READ


async def test_a_delivery_that_is_repeated_keeps_the_states(store: Store) -> None:
    copy = await a_stored_copy(store)
    await change(store, copy, ALL_SET)
    await store.copies.deliver([ANN], INBOX, copy)
    assert (await copy_of(store, copy)).archived_at == NOW


async def test_broadcasts_have_states_of_their_own(store: Store) -> None:
    four, two = a_broadcast(4), a_broadcast(2, expires_at=NOW + 50)
    states = store.inbox_states
    await states.change_broadcasts(ANN, INBOX, [four, two], ALL_SET, NOTHING_READ, NOW)
    await states.change_broadcasts(ANN, INBOX, [two], ALL_OFF, MARKED, NOW + 1)
    set_ = BroadcastStates(
        sequence=4, expires_at=EXPIRES, seen_at=NOW, read_at=NOW, archived_at=NOW,
        snoozed_until=NOW + 9,
    )  # fmt: skip
    off = BroadcastStates(
        sequence=2, expires_at=NOW + 50, unread_since=6, unseen_since=8, unarchived_since=10
    )
    found = await store.copies.read_state(ANN, INBOX)
    assert found == ReadState(broadcasts={2: off, 4: set_})
    assert await store.copies.read_state(BOB, INBOX) == NOTHING_READ

    elsewhere = replace(set_, sequence=9)
    changed = replace(off, snoozed_until=NOW + 8)
    await states.forget_broadcasts(ANN, INBOX, [set_, elsewhere, changed])
    found = await store.copies.read_state(ANN, INBOX)
    assert found.broadcasts == {2: off}, "what was changed meanwhile is kept"
    await states.forget_broadcasts(ANN, INBOX, [off])
    assert (await store.copies.read_state(ANN, INBOX)).broadcasts == {}


async def test_states_and_marks_are_read_together(store: Store) -> None:
    await store.inbox_states.change_broadcasts(
        ANN, INBOX, [a_broadcast(3)], StateChange(seen=True), NOTHING_READ, NOW
    )
    await store.copies.read_broadcasts(ANN, INBOX, [5], NOW)
    await store.inbox_states.mark_before(ANN, INBOX, "read", 5, 2)
    await store.inbox_states.mark_before(ANN, INBOX, "seen", 7, 8)
    await store.inbox_states.mark_before(ANN, INBOX, "archived", 9, 10)
    own = BroadcastStates(sequence=3, expires_at=EXPIRES, seen_at=NOW)
    wanted = replace(MARKED, announced=2, singly={5: NOW}, broadcasts={3: own})
    assert await store.copies.read_state(ANN, INBOX) == wanted


async def test_no_mark_moves_back_or_moves_another(store: Store) -> None:
    mark = store.inbox_states.mark_before
    await mark(ANN, INBOX, "seen", 10, 5)
    await mark(ANN, INBOX, "seen", 9, 7)
    await mark(ANN, INBOX, "seen", 11, 6)
    await mark(ANN, INBOX, "archived", 1, 1)
    state = await store.copies.read_state(ANN, INBOX)
    assert state == ReadState(
        seen_before=11, seen_announced=7, archived_before=1, archived_announced=1
    )


async def test_the_first_action_wins(store: Store) -> None:
    copy, sent = await a_stored_copy(store), a_broadcast(3)

    async def act(action: str, at: int) -> tuple[Acted | None, Acted | None]:
        return (
            await store.inbox_states.act_on_copy(ANN, INBOX, copy.notification_id, action, at),
            await store.inbox_states.act_on_broadcast(ANN, INBOX, sent, action, at),
        )

    both = await asyncio.gather(*(act(name, NOW + n) for n, name in enumerate(("yes", "no"))))
    assert both[0] == both[1]
    first = both[0][0]
    assert first in (Acted("yes", NOW), Acted("no", NOW + 1))
    assert await act("later", NOW + 5) == both[0]
    ours = await copy_of(store, copy)
    assert first is not None
    assert (ours.acted, ours.acted_at, ours.read_at) == (first.action, first.at, first.at)
    own = (await store.copies.read_state(ANN, INBOX)).broadcasts[3]
    assert Acted(str(own.acted), own.acted_at or 0) == both[0][1]
    assert (own.read_at, own.expires_at) == (own.acted_at, EXPIRES)


async def test_states_are_there_after_a_restart(engine: Engine) -> None:
    async with engine.open() as store:
        copy = await a_stored_copy(store)
        await change(store, copy, ALL_SET)
        sent = [a_broadcast(4)]
        await store.inbox_states.change_broadcasts(ANN, INBOX, sent, ALL_SET, NOTHING_READ, NOW)
        before = await copy_of(store, copy), await store.copies.read_state(ANN, INBOX)
    async with engine.open() as store:
        after = await copy_of(store, copy), await store.copies.read_state(ANN, INBOX)
        assert after == before

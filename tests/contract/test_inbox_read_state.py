# SPDX-License-Identifier: Apache-2.0
"""What users have read of an inbox, besides single copies. It only ever grows."""

import asyncio

from tests.contract.engines import Engine, Store
from tests.contract.inbox_builders import INBOX
from tests.support.clock import NOW
from tests.support.users import ANN, BOB
from tidings.model.ids import UserKey, user_key
from tidings.model.notifications import NOTHING_READ


async def marks(store: Store, user: UserKey = ANN, inbox: str = INBOX) -> tuple[int, int]:
    state = await store.copies.read_state(user, inbox)
    return state.before, state.announced


async def singly(store: Store, user: UserKey = ANN) -> dict[int, int]:
    """The single marks that say something: those covered may be there or not."""
    state = await store.copies.read_state(user, INBOX)
    return {number: at for number, at in state.singly.items() if number > state.announced}


async def test_nothing_is_read_at_first(store: Store) -> None:
    assert await store.copies.read_state(ANN, INBOX) == NOTHING_READ


async def test_neither_mark_moves_back(store: Store) -> None:
    await store.copies.read_before(ANN, INBOX, NOW, 5)
    assert await marks(store) == (NOW, 5)
    await store.copies.read_before(ANN, INBOX, NOW - 1, 7)
    assert await marks(store) == (NOW, 7)
    await store.copies.read_before(ANN, INBOX, NOW + 1, 6)
    assert await marks(store) == (NOW + 1, 7)
    await store.copies.read_before(ANN, INBOX, NOW - 9, 1)
    assert await marks(store) == (NOW + 1, 7)


async def test_the_highest_of_many_at_once_stays(store: Store) -> None:
    await asyncio.gather(
        *(store.copies.read_before(ANN, INBOX, NOW + n, 10 - n) for n in (3, 1, 5, 2, 4))
    )
    assert await marks(store) == (NOW + 5, 9)


async def test_an_announcement_is_marked_once(store: Store) -> None:
    await store.copies.read_broadcasts(ANN, INBOX, [4, 2], NOW)
    await store.copies.read_broadcasts(ANN, INBOX, [2, 3], NOW + 1)
    assert await singly(store) == {4: NOW, 2: NOW, 3: NOW + 1}
    assert await marks(store) == (0, 0)


async def test_single_marks_made_at_once_are_all_kept(store: Store) -> None:
    await asyncio.gather(
        *(store.copies.read_broadcasts(ANN, INBOX, [n, n + 100], NOW) for n in range(1, 9))
    )
    assert set(await singly(store)) == {*range(1, 9), *range(101, 109)}


async def test_marks_and_single_marks_stand_side_by_side(store: Store) -> None:
    await store.copies.read_broadcasts(ANN, INBOX, [3, 7, 9], NOW)
    await store.copies.read_before(ANN, INBOX, NOW + 1, 7)
    await store.copies.read_broadcasts(ANN, INBOX, [5, 8, 9], NOW + 2)

    assert await marks(store) == (NOW + 1, 7)
    assert await singly(store) == {8: NOW + 2, 9: NOW}


async def test_no_sequences_change_nothing(store: Store) -> None:
    await store.copies.read_broadcasts(ANN, INBOX, [], NOW)
    assert await store.copies.read_state(ANN, INBOX) == NOTHING_READ


async def test_the_thousand_highest_single_marks_are_kept(store: Store) -> None:
    for start in range(1, 1_101, 100):
        portion = list(range(start, start + 100))
        await store.copies.read_broadcasts(ANN, INBOX, portion, NOW + start)
    kept = await singly(store)
    wanted = {number: NOW + 1 + (number - 1) // 100 * 100 for number in range(101, 1_101)}
    assert {number: at for number, at in kept.items() if number > 100} == wanted


async def test_users_and_inboxes_have_marks_of_their_own(store: Store) -> None:
    other = user_key("acme-2", "ann")
    await store.copies.read_before(ANN, INBOX, NOW, 5)
    await store.copies.read_broadcasts(ANN, INBOX, [6], NOW)
    for user, inbox in ((BOB, INBOX), (other, INBOX), (ANN, "news.2")):
        assert await store.copies.read_state(user, inbox) == NOTHING_READ


async def test_marks_are_there_after_a_restart(engine: Engine) -> None:
    async with engine.open() as store:
        await store.copies.read_before(ANN, INBOX, NOW, 5)
        await store.copies.read_broadcasts(ANN, INBOX, [6], NOW + 1)
    async with engine.open() as store:
        assert await marks(store) == (NOW, 5)
        assert await singly(store) == {6: NOW + 1}

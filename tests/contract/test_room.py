# SPDX-License-Identifier: Apache-2.0
"""Room for one more chat: what others put a user into does not use up the user's own."""

import pytest

from tests.contract.builders import a_chat, added, append, append_many, message
from tests.contract.engines import Store
from tests.support.users import ANN, BOB, CAT, DAN, some_users
from tidings.model import limits
from tidings.model.chats import ChatState, OwnSends, OwnSpan
from tidings.model.ids import UserKey
from tidings.model.refusals import LimitReached
from tidings.ports.log import Declined, Kept


@pytest.fixture(autouse=True)
def _small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "USER_CHATS_MAX", 3)
    monkeypatch.setattr(limits, "OTHERS_CHATS_MAX", 3)
    monkeypatch.setattr(limits, "OTHERS_DIRECT_CHATS_MAX", 5)


async def fill(store: Store, victim: UserKey) -> list[ChatState]:
    """Put somebody into as many groups as one may be put into."""
    return [await a_chat(store, CAT, victim) for _ in range(limits.OTHERS_CHATS_MAX)]


async def write(store: Store, state: ChatState, user: UserKey) -> None:
    """Write in a chat, and have the store learn of it as after a send."""
    entry = message(user)
    assert await append(store, state, entry) == Kept()
    span = OwnSpan(entry.number - 1, entry.number, entry.sequence)
    await store.receipts.move([OwnSends(user, state.chat_id, (span,))])


@pytest.mark.attack("S07", "F03", "E17")
async def test_who_was_put_into_groups_makes_chats_and_is_written_to(store: Store) -> None:
    await fill(store, BOB)

    with pytest.raises(LimitReached):
        await a_chat(store, DAN, BOB)
    for _ in range(limits.USER_CHATS_MAX):
        await a_chat(store, BOB, ANN)
    await a_chat(store, DAN, BOB, kind="direct")

    assert len(await store.chats.ids(BOB)) == 7


@pytest.mark.attack("S07", "F03")
async def test_nobody_is_added_to_more_groups_than_fit(store: Store) -> None:
    await fill(store, BOB)
    state = await a_chat(store, ANN)

    assert await append(store, state, added(BOB)) == Declined(0, "too_many_chats")


@pytest.mark.attack("F03")
async def test_direct_chats_of_others_have_an_end_too(store: Store) -> None:
    await fill(store, BOB)
    *others, last = some_users(3)
    for other in others:
        await a_chat(store, other, BOB, kind="direct")

    with pytest.raises(LimitReached):
        await a_chat(store, last, BOB, kind="direct")

    await a_chat(store, BOB, last, kind="direct")


@pytest.mark.attack("F03")
async def test_a_chat_one_has_written_in_is_ones_own(store: Store) -> None:
    states = await fill(store, BOB)
    await write(store, states[0], BOB)

    await a_chat(store, DAN, BOB)

    for _ in range(limits.USER_CHATS_MAX - 1):
        await a_chat(store, BOB)
    with pytest.raises(LimitReached):
        await a_chat(store, BOB)


@pytest.mark.parametrize("spans", [1, 2])
async def test_it_is_also_if_others_messages_are_unread(store: Store, spans: int) -> None:
    states = await fill(store, BOB)
    await append_many(store, states[0], [message(CAT) for _ in range(3)])
    entry = message(BOB)
    await append(store, states[0], entry)
    own = OwnSpan(entry.number - 1, entry.number, entry.sequence)

    moved = await store.receipts.move([OwnSends(BOB, states[0].chat_id, (own,) * spans)])

    assert moved == []
    await a_chat(store, DAN, BOB)


async def test_who_writes_in_all_chats_of_others_comes_to_an_end(store: Store) -> None:
    for other in some_users(8):
        await write(store, await a_chat(store, other, BOB), BOB)

    for other in (DAN, ANN):
        with pytest.raises(LimitReached):
            await a_chat(store, other, BOB, kind="direct")


async def test_who_has_answered_is_acquainted(store: Store) -> None:
    unanswered = await a_chat(store, ANN, BOB, kind="direct")
    await a_chat(store, CAT, ANN, kind="direct")
    await a_chat(store, ANN, DAN)
    assert await store.chats.acquainted(ANN, [BOB, CAT, DAN]) == {CAT}

    await write(store, unanswered, BOB)

    assert await store.chats.acquainted(ANN, [BOB, CAT, DAN]) == {BOB, CAT}
    assert await store.chats.acquainted(CAT, [ANN, BOB]) == set()

# SPDX-License-Identifier: Apache-2.0
"""Sweeping takes nothing that counts, whoever does it: a sweeper of ours, or the engine itself.

What goes, and when, is each engine's own affair: nobody can see it, because reads judge expiry.
"""

from tests.contract.builders import a_chat, append, draft, key, message, page, redacted, request
from tests.contract.engines import Store
from tests.support.clock import NOW
from tests.support.users import ANN, BOB, CAT
from tidings.model.ids import ChatId
from tidings.model.limits import DAY_MS
from tidings.ports.log import Kept


async def sweep(store: Store, now: int) -> list[tuple[ChatId, int]]:
    """Sweep until nothing is left to do; returns what was emptied."""
    emptied = []
    while found := await store.sweeping.empty_expired(now, 3):
        emptied += found
    for _ in range(60):
        assert await store.sweeping.forget_keys(now, 3) <= 3
    return emptied


async def test_entries_stay_and_so_does_content_that_has_not_expired(store: Store) -> None:
    state = await a_chat(store)
    sent = [message(ANN, expires_at=NOW + 10), message(ANN), message(BOB, expires_at=NOW + 11)]
    for one in sent:
        await append(store, state, one)

    assert set(await sweep(store, NOW + 10)) <= {(state.chat_id, 2)}

    first, second, third = (await page(store, state, after=1)).entries
    assert (first.sender, first.expires_at, first.redacted) == (ANN, NOW + 10, False)
    assert (second.box, third.box) == (b"hi", b"hi")
    assert await append(store, state, message(ANN)) == Kept()


async def test_what_is_redacted_needs_no_sweeping(store: Store) -> None:
    state = await a_chat(store)
    await append(store, state, message(ANN, expires_at=NOW + 10))
    await append(store, state, redacted(2))

    assert await sweep(store, NOW + 10) == []


async def test_keys_that_count_stay(store: Store) -> None:
    state = await a_chat(store)
    sent = message(ANN)
    claim = key(sent, expires_at=NOW + 11)
    await append(store, state, sent, keys=[claim])

    await sweep(store, NOW + 10)

    found = await store.log.find_sent(state.chat_id, claim, NOW + 10)
    assert found is not None
    assert found.entry is not None
    assert found.entry.sequence == sent.sequence


async def test_a_key_that_expired_does_not_count_swept_or_not(store: Store) -> None:
    state = await a_chat(store)
    first = message(ANN, cmid="m-1")
    claim = key(first, expires_at=NOW + 10)
    await append(store, state, first, keys=[claim])
    assert await store.log.find_sent(state.chat_id, claim, NOW + 10) is None

    await sweep(store, NOW + 10)

    assert await store.log.find_sent(state.chat_id, claim, NOW + 10) is None
    again = message(ANN, cmid="m-1")
    renewed = key(again, expires_at=NOW + 100)
    assert await append(store, state, again, keys=[renewed], now=NOW + 10) == Kept()
    await sweep(store, NOW + 10)
    assert await store.log.find_sent(state.chat_id, renewed, NOW + 10) is not None


async def test_request_keys_that_count_stay(store: Store) -> None:
    first = await store.chats.create(*draft(ANN, CAT), request("early"), NOW)
    late = request("late", expires_at=NOW + 2 * DAY_MS)
    kept = await store.chats.create(*draft(ANN, CAT), late, NOW)

    await sweep(store, NOW + DAY_MS)

    again = await store.chats.create(*draft(ANN), late, NOW + DAY_MS)
    assert (again.chat_id, again.is_new) == (kept.chat_id, False)
    renewed = request("early", expires_at=NOW + 2 * DAY_MS)
    anew = await store.chats.create(*draft(ANN), renewed, NOW + DAY_MS)
    assert anew.is_new
    assert anew.chat_id != first.chat_id

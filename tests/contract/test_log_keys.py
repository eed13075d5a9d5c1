# SPDX-License-Identifier: Apache-2.0
"""Idempotency keys: claimed with or before their entries, judged by their age."""

from tests.contract.builders import a_chat, append, key, message, page, redacted
from tests.contract.engines import Engine, Store
from tests.support.clock import NOW
from tests.support.failpoints import DiesAt
from tests.support.users import ANN, BOB
from tidings.model.limits import SEND_KEY_MS
from tidings.ports.log import Failed, Kept, KeyTaken, SlotTaken


async def test_a_claimed_key_is_named_and_no_entry_is_written(store: Store) -> None:
    state = await a_chat(store)
    first = message(ANN, cmid="b")
    await append(store, state, first, keys=[key(first)])
    run = [message(ANN, cmid=cmid) for cmid in "abcb"]
    run[3].sender = BOB

    outcome = await append(store, state, *run, keys=[key(entry) for entry in run])

    assert isinstance(outcome, KeyTaken) and outcome.indexes == (1,)
    assert (await page(store, state)).head.sequence == first.sequence


async def test_a_key_that_was_claimed_beside_a_taken_one_need_not_be_claimed_again(
    store: Store,
) -> None:
    state = await a_chat(store)
    first = message(ANN, cmid="b")
    await append(store, state, first, keys=[key(first)])
    run = [message(ANN, cmid=cmid) for cmid in "abc"]
    keys = list(map(key, run))
    outcome = await append(store, state, *run, keys=keys)
    assert isinstance(outcome, KeyTaken)

    rest = [0, 2]
    left = [None if index in outcome.claimed else keys[index] for index in rest]
    assert await append(store, state, *(run[index] for index in rest), keys=left) == Kept()

    for index in rest:
        found = await store.log.find_sent(state.chat_id, keys[index], NOW)
        assert found is not None and found.entry is not None
        assert found.entry.client_message_id == keys[index].client_message_id


async def test_a_key_of_one_chat_or_sender_says_nothing_about_another(store: Store) -> None:
    here, there = await a_chat(store), await a_chat(store)
    for state, sender in ((here, ANN), (here, BOB), (there, ANN)):
        entry = message(sender, cmid="same")
        assert await append(store, state, entry, keys=[key(entry)]) == Kept()


async def test_a_send_is_found_by_its_key_as_it_is_now(store: Store) -> None:
    state = await a_chat(store)
    sent = message(ANN, "hello", cmid="m-1")
    await append(store, state, message(BOB), sent, keys=[None, key(sent, b"first")])
    await append(store, state, redacted(sent.sequence))

    found = await store.log.find_sent(state.chat_id, key(sent, b"other"), NOW)

    assert found is not None
    assert found.digest == b"first"
    assert found.entry is not None
    assert (found.entry.sequence, found.entry.redacted, found.entry.box) == (3, True, None)


async def test_an_unclaimed_key_finds_nothing(store: Store) -> None:
    state = await a_chat(store)
    unkeyed = message(ANN, cmid="m-1")
    await append(store, state, unkeyed)

    assert await store.log.find_sent(state.chat_id, key(unkeyed), NOW) is None


async def test_a_key_counts_for_seven_days_and_not_a_moment_longer(store: Store) -> None:
    state = await a_chat(store)
    sent = message(ANN, cmid="m-1")
    await append(store, state, sent, keys=[key(sent)])
    again = message(ANN, "again", cmid="m-1")
    expiry = NOW + SEND_KEY_MS

    last = await append(store, state, again, keys=[key(again)], now=expiry - 1)
    assert last == KeyTaken((0,))
    assert await store.log.find_sent(state.chat_id, key(sent), expiry - 1) is not None
    assert await store.log.find_sent(state.chat_id, key(sent), expiry) is None

    renewed = key(again, b"new", expires_at=expiry + SEND_KEY_MS)
    assert await append(store, state, again, keys=[renewed], now=expiry) == Kept()
    found = await store.log.find_sent(state.chat_id, renewed, expiry)
    assert found is not None
    assert (found.digest, found.entry) == (b"new", again)


async def test_a_lost_slot_leaves_at_most_a_key_without_an_entry(store: Store) -> None:
    state = await a_chat(store)
    stale = state.copy()
    await append(store, state, message(BOB))
    late = message(ANN, cmid="late")

    outcome = await append(store, stale, late, keys=[key(late)])

    assert isinstance(outcome, SlotTaken)
    found = await store.log.find_sent(state.chat_id, key(late), NOW)
    assert (found is not None) == outcome.keys_are_claimed
    assert found is None or found.entry is None


async def test_a_death_between_key_and_entry_leaves_the_key_alone(engine: Engine) -> None:
    async with engine.open() as store:
        state = await a_chat(store)
    sent = message(ANN, "once", cmid="m-1")
    async with engine.open(DiesAt("between_key_and_entry")) as store:
        assert await append(store, state, sent, keys=[key(sent)]) == Failed()

    async with engine.open() as store:
        assert (await page(store, state)).head.sequence == 1
        found = await store.log.find_sent(state.chat_id, key(sent), NOW)
        assert found is not None
        assert (found.digest, found.entry) == (b"digest", None)
        assert await append(store, state, sent, keys=[key(sent)]) == KeyTaken((0,))

        # Somebody else takes the slot that the claim meant; the entry stands after it.
        await append(store, state, message(BOB, "in between"))
        assert await append(store, state, sent, keys=[None]) == Kept()
        found = await store.log.find_sent(state.chat_id, key(sent), NOW)
        assert found is not None
        assert found.entry == sent
        assert sent.sequence == 3


async def test_a_death_before_the_commit_leaves_nothing(engine: Engine) -> None:
    async with engine.open() as store:
        state = await a_chat(store)
    sent = message(ANN, cmid="m-1")
    async with engine.open(DiesAt("before_commit")) as store:
        assert await append(store, state, sent, keys=[key(sent)]) == Failed()

    async with engine.open() as store:
        assert (await page(store, state)).head.sequence == 1
        assert await store.log.find_sent(state.chat_id, key(sent), NOW) is None


async def test_a_death_after_the_commit_loses_only_the_answer(engine: Engine) -> None:
    async with engine.open() as store:
        state = await a_chat(store)
    sent = message(ANN, cmid="m-1")
    async with engine.open(DiesAt("after_commit_before_answer")) as store:
        assert await append(store, state, sent, keys=[key(sent)]) == Failed()

    async with engine.open() as store:
        found = await store.log.find_sent(state.chat_id, key(sent), NOW)
        assert found is not None
        assert found.entry == sent

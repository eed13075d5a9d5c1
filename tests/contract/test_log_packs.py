# SPDX-License-Identifier: Apache-2.0
"""Messages that were appended together are read, changed and counted like any others.

On DynamoDB they share an item; here nobody must notice.
"""

from collections.abc import AsyncIterator

import pytest
from msgspec.structs import replace

from tests.contract.builders import (
    a_chat,
    append,
    edited,
    key,
    message,
    page,
    reacted,
    redacted,
    renamed,
)
from tests.contract.engines import Store
from tests.contract.moving_ground import export_from, import_into
from tests.contract.moving_places import Places
from tests.support.clock import NOW
from tests.support.dynamo_tables import open_tables
from tests.support.spare_tables import spare_tables
from tests.support.users import ANN, BOB
from tidings.model import limits
from tidings.model.chats import ChatState, Move
from tidings.model.entries import Entry
from tidings.model.ids import SEQUENCE_MAX, ChatId, user_key
from tidings.model.refusals import ChatBusy
from tidings.model.unread_counts import counts_as_unread
from tidings.ports.log import Kept, KeyTaken
from tidings.stores.dynamodb.chat import log as dynamodb_log
from tidings.stores.dynamodb.chat.packs import (
    PACK_BYTES_MAX,
    PACK_MESSAGES_MAX,
    change_in_pack,
    fits,
    pack_item,
    unpacked,
)
from tidings.stores.dynamodb.identity.secrets import DynamoDeployment


@pytest.fixture
async def state(store: Store) -> ChatState:
    """Entries 2 to 5, 8 to 10, and 11 to 12 were appended together."""
    state = await a_chat(store)
    for run in (
        [message(ANN), message(BOB), message(ANN), message(BOB, "four")],
        [message(ANN)],
        [renamed("Other")],
        [message(BOB), message(BOB), message(ANN)],
        [message(ANN), message(BOB)],
    ):
        assert await append(store, state, *run) == Kept()
    return state


async def everything(store: Store, state: ChatState) -> list[Entry]:
    return (await page(store, state)).entries


async def test_a_page_may_begin_and_end_anywhere(store: Store, state: ChatState) -> None:
    all_entries = await everything(store, state)
    assert [entry.sequence for entry in all_entries] == list(range(1, 13))
    assert [entry.number for entry in all_entries] == [0, 1, 2, 3, 4, 5, 5, 6, 7, 8, 9, 10]
    for place in range(14):
        for limit in (1, 3, 50):
            up = await store.log.page(state.chat_id, ANN, after=place, limit=limit)
            assert up is not None
            assert up.entries == all_entries[place : place + limit]
            assert (up.next is None, up.head.sequence) == (place + limit >= 12, 12)
            down = await store.log.page(state.chat_id, ANN, before=place, limit=limit)
            assert down is not None
            assert down.entries == all_entries[: max(0, place - 1)][::-1][:limit]
            assert (down.next is None, down.head.sequence) == (place - 1 <= limit, 12)


async def test_messages_alone_are_found_everywhere(store: Store, state: ChatState) -> None:
    messages = [entry for entry in await everything(store, state) if entry.kind == "message"]
    for place in (0, 1, 3, 7, 9, 12, SEQUENCE_MAX):
        up = await store.log.page(state.chat_id, ANN, after=place, limit=4, only_messages=True)
        down = await store.log.page(state.chat_id, ANN, before=place, limit=4, only_messages=True)
        assert up is not None and down is not None
        assert up.entries == [entry for entry in messages if entry.sequence > place][:4]
        assert down.entries == [entry for entry in messages if entry.sequence < place][-4:][::-1]


async def test_each_is_changed_alone(store: Store, state: ChatState) -> None:
    before = await everything(store, state)
    assert await append(store, state, reacted(3, "+1", by=BOB)) == Kept()
    assert await append(store, state, reacted(3, "-1", by=ANN)) == Kept()
    assert await append(store, state, edited(4, "other"), now=NOW + 7) == Kept()
    assert await append(store, state, redacted(5)) == Kept()

    after = await everything(store, state)

    assert [one for one in after[:12] if one.sequence not in (3, 4, 5)] == [
        one for one in before if one.sequence not in (3, 4, 5)
    ]
    assert after[2].reactions == {"+1": 1, "-1": 1} and after[2].mine == ("-1",)
    assert (after[3].box, after[3].edited_at) == (b"other", NOW + 7)
    assert (after[4].box, after[4].redacted, after[4].sender) == (None, True, BOB)
    assert after[14].shown == after[3]
    given = await store.log.reactions(state.chat_id, BOB, 3, 9)
    assert given == [("+1", BOB, NOW), ("-1", ANN, NOW)]


async def test_what_is_unread_is_counted_from_any_read_mark(store: Store, state: ChatState) -> None:
    await append(store, state, redacted(9))
    all_entries = await everything(store, state)
    for mark in range(1, 14):
        await store.receipts.advance(Move(ANN, state.chat_id, read=mark))
        found = await store.receipts.unread(ANN, state.chat_id, NOW)
        assert found is not None
        unread = [one for one in all_entries[mark:] if counts_as_unread(one, ANN, NOW)]
        assert found.unread.count == len(unread)


async def test_a_writer_learns_of_all_of_them(store: Store, state: ChatState) -> None:
    assert await store.log.state(state.chat_id) == state
    for head in range(13):
        rest = [one.sequence for one in await store.log.tail(state.chat_id, head)]
        assert rest == list(range(head + 1, 13))


async def test_a_message_is_found_even_if_it_moved_up_after_its_key_was_claimed(
    store: Store,
) -> None:
    state = await a_chat(store)
    first = message(ANN, cmid="m1")
    await append(store, state, first, keys=[key(first)])
    run = [message(ANN, cmid="m1"), message(BOB, cmid="m2"), message(BOB, cmid="m3")]
    outcome = await append(store, state, *run, keys=list(map(key, run)))
    assert isinstance(outcome, KeyTaken) and outcome.indexes == (0,)
    assert await append(store, state, *run[1:], keys=[None, None]) == Kept()

    if (found := await store.log.find_sent(state.chat_id, key(run[1]), NOW)) is not None:
        assert found.entry is not None, "its key was claimed with the first attempt"


async def test_room_ends_somewhere(store: Store) -> None:
    small = [message(ANN) for _ in range(limits.RUN_ENTRIES_MAX)]
    assert store.log.has_room(small[:1], message(BOB))
    assert not store.log.has_room(small, message(BOB))


def test_packs_hold_neither_much_nor_what_expires() -> None:
    alone, large = message(ANN, expires_at=NOW + 5), message(ANN, "x" * limits.CONTENT_BYTES_MAX)
    assert not fits([alone], message(ANN))
    assert not fits([message(ANN)], alone)
    assert not fits([message(ANN)] * PACK_MESSAGES_MAX, message(ANN))
    assert not fits([large] * (PACK_BYTES_MAX // limits.CONTENT_BYTES_MAX), large)


def test_a_pack_stays_far_from_the_largest_item() -> None:
    """Every message of a pack was edited to the largest content and has all reactions."""
    chat, sender = ChatId("c" * 26), user_key("t" * 40, "u" * 64)
    entries = [message(sender, cmid="m" * 64) for _ in range(PACK_MESSAGES_MAX)]
    for number, entry in enumerate(entries):
        entry.chat_id, entry.sequence, entry.created_at = chat, number + 1, NOW
        entry.content_type, entry.digest = "t" * limits.CONTENT_TYPE_CHARS_MAX, bytes(32)
    emoji = [f"{number:0{limits.EMOJI_BYTES_MAX}}" for number in range(limits.REACTION_EMOJI_MAX)]
    total = 0
    for item in unpacked([pack_item(entries)]):
        change = change_in_pack(
            chat, item, box=bytes(limits.CONTENT_BYTES_MAX + 28), box_key=1,
            edited_at=NOW, reactions=dict.fromkeys(emoji, limits.GROUP_MEMBERS_MAX),
        )  # fmt: skip
        total += len(change.values[":new"])
    assert 80 * limits.KIB < total < 100 * limits.KIB


@pytest.mark.slow  # it starts DynamoDB Local
async def test_messages_without_keys_move_with_keys(places: Places) -> None:
    sent = [message(ANN, cmid="m1"), message(BOB, cmid="m2")]
    for entry in sent:
        entry.digest = b"digest"
    async with places.new("dynamodb") as place, places.new("sqlite") as other:
        async with place.open() as store:
            state = await a_chat(store)
            await append(store, state, *sent)
            found = await store.log.find_sent(state.chat_id, key(sent[1], after=1), NOW + 1)
            assert found is not None and found.entry == sent[1]
        await import_into(other, await export_from(place, NOW + 1))
        async with other.open() as store:
            found = await store.log.find_sent(state.chat_id, key(sent[1]), NOW + 1)
            assert found is not None and found.entry is not None
            assert (found.digest, found.entry.sequence) == (b"digest", 3)


@pytest.fixture
async def dynamodb(dynamodb_endpoint: str) -> AsyncIterator[Store]:
    async with spare_tables(dynamodb_endpoint) as prefix:
        async with open_tables(dynamodb_endpoint, prefix) as store:
            yield store


async def test_a_new_claim_with_after_has_to_be_looked_for(dynamodb: Store) -> None:
    """A message without a key may be in the log, although nobody has claimed the key."""
    state = await a_chat(dynamodb)
    first, again = message(ANN, cmid="m1"), message(ANN, cmid="m1")
    first.digest = b"digest"
    await append(dynamodb, state, first)

    outcome = await append(dynamodb, state, again, keys=[key(again, after=1)])

    assert outcome == KeyTaken((0,))
    found = await dynamodb.log.find_sent(state.chat_id, key(again, after=1), NOW)
    assert found is not None and found.entry == first


async def test_a_repeat_with_other_content_does_not_replace_the_digest(dynamodb: Store) -> None:
    state = await a_chat(dynamodb)
    first, other = message(ANN, cmid="m1"), message(ANN, "other", cmid="m1")
    first.digest = b"digest"
    await append(dynamodb, state, first)
    changed = replace(key(other, after=1), digest=b"other")
    assert await append(dynamodb, state, other, keys=[changed]) == KeyTaken((0,))

    found = await dynamodb.log.find_sent(state.chat_id, changed, NOW)

    assert found is not None and (found.digest, found.entry) == (b"digest", first)


async def test_a_process_that_may_not_write_packs_yet_finds_a_message_without_a_key(
    dynamodb: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = await a_chat(dynamodb)
    first, again = message(ANN, cmid="m1"), message(ANN, cmid="m1")
    first.digest = b"digest"
    await append(dynamodb, state, first)
    monkeypatch.setattr(DynamoDeployment, "writes", 0)

    assert not dynamodb.log.takes_after
    may = dynamodb.log.may_append
    assert (may("message"), may("pinned"), may("message", has_options=True)) == (True, False, False)
    assert await append(dynamodb, state, again, keys=[key(again, after=1)]) == KeyTaken((0,))
    found = await dynamodb.log.find_sent(state.chat_id, key(again, after=1), NOW)
    assert found is not None and found.entry == first


async def test_a_long_search_goes_on_where_it_ended(
    dynamodb: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dynamodb_log, "SEARCH_MAX", 8)
    monkeypatch.setattr(dynamodb_log, "SEARCHED_ENTRIES_MAX", 4)
    state = await a_chat(dynamodb)
    for _ in range(2):
        await append(dynamodb, state, *(message(BOB) for _ in range(6)))
    again = message(ANN, cmid="m1")
    assert await dynamodb.log.find_sent(state.chat_id, key(again, after=1), NOW) is None
    assert await append(dynamodb, state, again, keys=[key(again, after=1)]) == KeyTaken((0,))

    with pytest.raises(ChatBusy):
        await dynamodb.log.find_sent(state.chat_id, key(again, after=1), NOW)
    found = await dynamodb.log.find_sent(state.chat_id, key(again, after=1), NOW)

    assert found is not None and found.entry is None

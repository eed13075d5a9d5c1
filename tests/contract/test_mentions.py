# SPDX-License-Identifier: Apache-2.0
"""Messages that mention users: listed for each of them, and counted while they are unread."""

from tests.contract.builders import (
    a_chat,
    append,
    deleted,
    edited,
    entry_at,
    mention,
    message,
    redacted,
    removed,
    reply,
    row_of,
)
from tests.contract.engines import Store
from tests.support.clock import NOW
from tests.support.users import ANN, BOB, CAT
from tidings.model import limits
from tidings.model.chats import ChatState, Move, Unread
from tidings.model.ids import UserKey
from tidings.ports.log import Kept


async def listed(
    store: Store, user: UserKey, *, since: int = 0, below: str | None = None, limit: int = 100
) -> tuple[list[tuple[str, int]], str | None]:
    """Chats and sequences of the messages that mention the user, and the next position."""
    page = await store.log.mentions(user, since=since, below=below, limit=limit)
    return [(one.chat_id, one.sequence) for one in page.rows], page.end


async def unread(store: Store, state: ChatState, user: UserKey, now: int = NOW) -> Unread:
    """What the user has not read, by itself and in the chat list, which agree."""
    found = await store.receipts.unread(user, state.chat_id, now)
    row = await store.chats.row(user, state.chat_id, now)
    [in_list] = await store.chats.listing(user, below=None, limit=10, now=now)
    assert found is not None and row is not None
    assert row.unread == in_list.unread == found.unread
    assert row.mentions_by_key == in_list.mentions_by_key == found.mentions_by_key
    return found.unread


async def test_mentions_of_all_chats_are_listed_newest_first(store: Store) -> None:
    one, two = await a_chat(store), await a_chat(store, ANN, BOB, CAT)
    assert await append(store, one, mention(ANN, "bob"), now=NOW + 1) == Kept()
    await append(store, two, mention(ANN, "bob", "cat"), now=NOW + 3)
    await append(store, one, mention(ANN, "bob"), now=NOW + 2)
    await append(store, two, mention(ANN, "*"), now=NOW + 4)
    await append(store, two, mention(BOB, "bob"), now=NOW + 5)

    newest = [(two.chat_id, 2), (one.chat_id, 3), (one.chat_id, 2)]
    assert await listed(store, BOB) == (newest, None)
    assert await listed(store, CAT) == ([(two.chat_id, 2)], None)
    assert await listed(store, BOB, since=NOW + 1) == (newest[:2], None)
    first, following = await listed(store, BOB, limit=2)
    assert first == newest[:2]
    assert following is not None
    assert await listed(store, BOB, below=following, limit=2) == (newest[2:], None)
    assert (await entry_at(store, two, 3)).mentions == ("*",)


async def test_a_list_whose_rest_is_too_old_by_now_ends(store: Store) -> None:
    state = await a_chat(store)
    for seconds in range(3):
        await append(store, state, mention(ANN, "bob"), now=NOW + seconds)
    _, following = await listed(store, BOB, limit=1)
    assert following is not None

    assert await listed(store, BOB, since=NOW + 1, below=following) == ([], None)
    assert await listed(store, BOB, since=NOW + 2, below=following) == ([], None)
    assert await listed(store, BOB, since=NOW + limits.MENTIONS_MS, below=following) == ([], None)


async def test_a_deleted_user_has_no_mentions(store: Store) -> None:
    state = await a_chat(store, ANN, BOB, CAT)
    for _ in range(2):
        await append(store, state, mention(ANN, "bob", "cat"))
    personal_data = store.personal_data
    positions = await personal_data.mentions(BOB, 9)
    assert len(positions) == 2
    await personal_data.forget_mentions(BOB, positions[:1])
    assert await personal_data.mentions(BOB, 9) == positions[1:]
    await personal_data.forget_mentions(BOB, positions)

    assert await listed(store, BOB) == ([], None)
    assert len((await listed(store, CAT))[0]) == 2


async def test_who_left_sees_no_mentions_there(store: Store) -> None:
    state = await a_chat(store, ANN, BOB, CAT)
    await append(store, state, mention(ANN, "bob", "cat"))
    await append(store, state, removed(BOB))

    assert await listed(store, BOB) == ([], None)
    assert await listed(store, CAT) == ([(state.chat_id, 2)], None)


async def test_mentions_are_counted_while_they_are_unread(store: Store) -> None:
    state = await a_chat(store, ANN, BOB, CAT)
    for entry in (message(ANN), mention(ANN, "bob"), mention(ANN, "*"), mention(ANN, "cat")):
        await append(store, state, entry)
    await append(store, state, mention(BOB, "*"))

    assert await unread(store, state, BOB) == Unread(4, mentions=2)
    assert await unread(store, state, CAT) == Unread(5, mentions=3)
    await store.receipts.advance(Move(BOB, state.chat_id, read=3))
    assert await unread(store, state, BOB) == Unread(2, mentions=1)
    await store.receipts.advance(Move(BOB, state.chat_id, read=6))
    assert await unread(store, state, BOB) == Unread(0)
    assert await unread(store, state, ANN) == Unread(1, mentions=1)


async def test_a_mention_among_others_in_a_run_is_kept(store: Store) -> None:
    state = await a_chat(store)
    run = (message(ANN), mention(ANN, "bob"), message(ANN))
    assert await append(store, state, *run) == Kept()

    assert await listed(store, BOB) == ([(state.chat_id, 3)], None)
    assert await unread(store, state, BOB) == Unread(3, mentions=1)


async def test_a_reply_may_mention(store: Store) -> None:
    state = await a_chat(store)
    await append(store, state, message(BOB))
    answer = reply(ANN, 2)
    answer.mentions = ("bob",)
    assert await append(store, state, answer) == Kept()

    assert await listed(store, BOB) == ([(state.chat_id, 3)], None)
    assert (await entry_at(store, state, 2)).reply_count == 1


async def test_edits_keep_mentions_and_redactions_remove_them(store: Store) -> None:
    state = await a_chat(store)
    await append(store, state, mention(ANN, "bob"))
    await append(store, state, mention(ANN, "bob"))
    await append(store, state, edited(2, "better"))
    await append(store, state, redacted(3))

    assert (await entry_at(store, state, 2)).mentions == ("bob",)
    assert (await entry_at(store, state, 3)).mentions == ()
    assert await unread(store, state, BOB) == Unread(1, mentions=1)
    page = await store.log.mentions(BOB, since=0, below=None, limit=10)
    shown = [one.sequence for one in page.rows if not one.redacted]
    assert shown == [2]


async def test_expired_mentions_do_not_count(store: Store) -> None:
    state = await a_chat(store)
    await append(store, state, mention(ANN, "bob", expires_at=NOW + 10))

    assert await unread(store, state, BOB, NOW + 9) == Unread(1, mentions=1)
    assert await unread(store, state, BOB, NOW + 10) == Unread(0)


async def test_mentions_name_their_author_and_key(store: Store) -> None:
    """By them the erased ones are told apart."""
    state = await a_chat(store)
    await append(store, state, mention(ANN, "bob"))

    assert (await row_of(store, BOB, state.chat_id)).mentions_by_key == {(ANN, 1): 1}


async def test_a_message_mentions_as_many_as_it_may(store: Store) -> None:
    state = await a_chat(store)
    names = [f"u{number}" for number in range(limits.MENTIONS_MAX)]
    await append(store, state, message(BOB))
    answer = reply(ANN, 2)
    answer.mentions = tuple(names)

    assert await append(store, state, answer) == Kept()
    assert (await entry_at(store, state, 3)).mentions == tuple(names)


async def test_a_deleted_chat_forgets_whom_it_mentioned(store: Store) -> None:
    state = await a_chat(store)
    await append(store, state, mention(ANN, "bob"))
    await append(store, state, deleted())
    job = await store.deletions.lease(state.chat_id, "test", NOW)
    while job is not None and job.phase != "done":
        job = await store.deletions.step(job, "test", NOW)

    assert await listed(store, BOB) == ([], None)
    assert [one.mentions for one in await store.log.tail(state.chat_id, 0)] == [()] * 3

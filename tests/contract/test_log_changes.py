# SPDX-License-Identifier: Apache-2.0
"""What entries bring with them: members, names, content, reactions."""

import pytest

from tests.contract.builders import (
    a_chat,
    added,
    append,
    edited,
    entry_at,
    message,
    page,
    reacted,
    redacted,
    removed,
    renamed,
    role,
    settings,
    unreacted,
)
from tests.contract.engines import Store
from tests.support.clock import NOW
from tests.support.users import ANN, BOB, CAT, DAN, some_users
from tidings.model import limits
from tidings.model.chat_settings import ChatSettings
from tidings.model.chats import ChatType, Receipt
from tidings.model.entries import Entry
from tidings.model.roles import Member
from tidings.ports.log import Declined, Kept


async def test_the_added_are_members_with_receipts_at_their_entry(store: Store) -> None:
    state = await a_chat(store, ANN)
    await append(store, state, message(ANN), message(ANN))
    await append(store, state, added(BOB, CAT, role="admin"), now=NOW + 7)

    members = await store.chats.members(state.chat_id, BOB)
    assert members == state.members
    assert members[BOB] == Member("admin", NOW + 7, 4)
    read = await page(store, state, CAT)
    assert read.member_count == 3
    assert read.receipts == (
        Receipt(ANN, 1, 1, 0),
        Receipt(BOB, 4, 4, 2),
        Receipt(CAT, 4, 4, 2),
    )


async def test_the_removed_see_nothing_any_more(store: Store) -> None:
    state = await a_chat(store, ANN, BOB, CAT)
    await append(store, state, removed(BOB))

    assert await store.log.page(state.chat_id, BOB, after=0, limit=10) is None
    assert await store.chats.members(state.chat_id, BOB) is None
    assert await store.chats.row(BOB, state.chat_id, NOW) is None
    assert await store.receipts.unread(BOB, state.chat_id, NOW) is None
    read = await page(store, state)
    assert read.member_count == 2
    assert [receipt.user for receipt in read.receipts] == [ANN, CAT]


async def test_joining_again_is_joining(store: Store) -> None:
    state = await a_chat(store, ANN, BOB)
    await store.chats.mute(state.chat_id, BOB, NOW + 1_000)
    await append(store, state, removed(BOB))
    await append(store, state, message(ANN))
    await append(store, state, added(BOB, role="admin"))

    row = await store.chats.row(BOB, state.chat_id, NOW)

    assert row is not None
    assert (row.role, row.muted_until, row.unread.count) == ("admin", None, 0)
    assert row.receipt == Receipt(BOB, 4, 4, 1)


@pytest.mark.parametrize("chat_type", ["direct", "group"])
async def test_settings_are_in_the_entry_the_state_and_the_chat_list(
    store: Store, chat_type: ChatType
) -> None:
    state = await a_chat(store, ANN, BOB, kind=chat_type, name=None)
    await append(store, state, message(ANN))
    await append(store, state, settings(frozen=True, slow_mode_seconds=9), now=NOW + 3)
    wanted = ChatSettings(frozen=True, slow_mode_seconds=9)

    loaded = await store.log.state(state.chat_id)
    assert loaded is not None
    assert (loaded.settings, state.settings) == (wanted, wanted)
    assert (await entry_at(store, state, 3)).settings == wanted
    for user in (ANN, BOB):
        row = await store.chats.row(user, state.chat_id, NOW)
        [listed] = await store.chats.listing(user, below=None, limit=5, now=NOW)
        assert row is not None
        assert (row.settings, listed.settings) == (wanted, wanted)
        assert (row.updated_at, listed.updated_at) == (NOW + 3, NOW + 3)


async def test_a_role_changes_and_nothing_else_of_the_member(store: Store) -> None:
    state = await a_chat(store, ANN, BOB)
    await append(store, state, role(BOB, "admin"), now=NOW + 9)

    assert (await page(store, state, BOB)).role == "admin"
    assert await store.chats.members(state.chat_id, ANN) == {
        ANN: Member("owner", NOW, 1),
        BOB: Member("admin", NOW, 1),
    }


async def test_a_run_may_remove_and_promote_in_one_piece(store: Store) -> None:
    state = await a_chat(store, ANN, BOB)
    assert await append(store, state, removed(ANN), role(BOB, "owner")) == Kept()

    assert await store.chats.members(state.chat_id, BOB) == {BOB: Member("owner", NOW, 1)}


async def test_a_chat_is_renamed(store: Store) -> None:
    state = await a_chat(store, name="Before")
    await append(store, state, renamed("After"))

    row = await store.chats.row(ANN, state.chat_id, NOW)
    assert row is not None
    assert row.name == "After"


async def test_nobody_is_added_beyond_the_limit_of_chats(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "OTHERS_CHATS_MAX", 2)
    state = await a_chat(store, ANN)
    for _ in range(2):
        await a_chat(store, DAN, BOB)

    assert await append(store, state, added(CAT, BOB)) == Declined(0, "too_many_chats")

    assert await store.chats.members(state.chat_id, ANN) == state.members
    assert await store.chats.list_heads(CAT) == []
    assert (await page(store, state)).member_count == 1


# Edits and redactions.


async def test_an_edit_changes_its_target_and_keeps_no_content(store: Store) -> None:
    state = await a_chat(store)
    await append(store, state, message(ANN, "before"))
    await append(store, state, edited(2, "after", box_key=7), now=NOW + 5)

    read = await page(store, state, after=1)
    target, edit = read.entries

    assert (target.box, target.box_key, target.edited_at) == (b"after", 7, NOW + 5)
    assert (edit.box, edit.box_key, edit.target) == (None, 0, 2)
    assert edit.shown == target


async def test_an_edit_shows_its_target_as_it_is_now(store: Store) -> None:
    state = await a_chat(store)
    await append(store, state, message(ANN, "one"))
    await append(store, state, edited(2, "two"))
    await append(store, state, edited(2, "three"))
    first = await entry_at(store, state, 3)
    assert first.shown is not None
    assert first.shown.box == b"three"

    await append(store, state, redacted(2))
    first = await entry_at(store, state, 3)
    assert first.shown is not None
    assert (first.shown.box, first.shown.redacted) == (None, True)


async def test_a_redaction_leaves_a_tombstone(store: Store) -> None:
    state = await a_chat(store)
    sent = message(ANN, "secret", cmid="m-1")
    await append(store, state, sent, now=NOW + 1)
    await append(store, state, reacted(2, "👍", by=BOB))
    await append(store, state, redacted(2, by=BOB))

    stone = await entry_at(store, state, 2)

    assert (stone.box, stone.box_key, stone.redacted, stone.reactions) == (None, 0, True, None)
    assert (stone.sequence, stone.sender, stone.created_at) == (2, ANN, NOW + 1)
    assert await store.log.reactions(state.chat_id, ANN, 2, 10) == []


GONE = Declined(0, "target_gone")


@pytest.mark.parametrize(
    "change", [edited(2, "again"), redacted(2), reacted(2, "👍")], ids=lambda c: c.kind
)
async def test_what_is_redacted_cannot_be_changed(store: Store, change: Entry) -> None:
    state = await a_chat(store)
    await append(store, state, message(ANN))
    await append(store, state, redacted(2))

    assert await append(store, state, change) == GONE
    assert (await page(store, state)).head.sequence == 3


@pytest.mark.parametrize(
    "change", [edited(2, "again"), redacted(2), reacted(2, "👍")], ids=lambda c: c.kind
)
async def test_what_has_expired_cannot_be_changed(store: Store, change: Entry) -> None:
    state = await a_chat(store)
    await append(store, state, message(ANN, expires_at=NOW + 10))

    assert await append(store, state, change, now=NOW + 10) == GONE
    assert await append(store, state, change, now=NOW + 9) == Kept()


async def test_a_message_that_will_expire_is_changed_like_any_other(store: Store) -> None:
    state = await a_chat(store)
    await append(store, state, message(ANN, "before", expires_at=NOW + 10))
    await append(store, state, edited(2, "after", box_key=7), now=NOW + 5)
    await append(store, state, reacted(2, "👍"), now=NOW + 6)

    target, edit, _ = (await page(store, state, after=1)).entries
    assert (target.box, target.box_key, target.edited_at) == (b"after", 7, NOW + 5)
    assert (target.expires_at, target.reactions) == (NOW + 10, {"👍": 1})
    assert edit.shown is not None
    assert (edit.shown.box, edit.shown.box_key) == (b"after", 7)
    row = await store.chats.row(BOB, state.chat_id, NOW)
    assert row is not None
    assert row.last is not None
    assert row.last.box == b"after"

    await append(store, state, redacted(2), now=NOW + 9)
    stone = await entry_at(store, state, 2)
    assert (stone.box, stone.box_key, stone.redacted) == (None, 0, True)
    assert (stone.reactions, stone.expires_at) == (None, NOW + 10)


@pytest.mark.parametrize("kind", ["reacted", "unreacted"])
@pytest.mark.parametrize("was_there", [True, False])
async def test_of_what_has_expired_a_repeated_reaction_is_still_no_change(
    store: Store, kind: str, was_there: bool
) -> None:
    state = await a_chat(store)
    await append(store, state, message(ANN, expires_at=NOW + 10))
    if was_there:
        await append(store, state, reacted(2, "👍"))
    change = reacted(2, "👍") if kind == "reacted" else unreacted(2, "👍")

    is_change = (kind == "reacted") != was_there
    expected = GONE if is_change else Declined(0, "no_change")
    assert await append(store, state, change, now=NOW + 10) == expected


@pytest.mark.parametrize("target", [1, 2, 3], ids=["created", "itself", "beyond the head"])
@pytest.mark.parametrize("change", [edited, lambda t, _: redacted(t), reacted])
async def test_only_messages_can_be_changed(store: Store, change: object, target: int) -> None:
    state = await a_chat(store)
    assert callable(change)
    assert await append(store, state, change(target, "x")) == GONE
    assert (await page(store, state)).head.sequence == 1


# Reactions.


async def test_reactions_are_counted_and_known_by_who_gave_them(store: Store) -> None:
    state = await a_chat(store, ANN, BOB, CAT)
    await append(store, state, message(ANN))
    for after, (user, emoji) in enumerate([(CAT, "👍"), (ANN, "🎉"), (BOB, "👍")]):
        await append(store, state, reacted(2, emoji, by=user), now=NOW + after)

    for reader, mine in ((ANN, ("🎉",)), (BOB, ("👍",)), (CAT, ("👍",))):
        target = await entry_at(store, state, 2, reader)
        assert (target.reactions, target.mine) == ({"👍": 2, "🎉": 1}, mine)
    everyone = [("👍", CAT, NOW), ("🎉", ANN, NOW + 1), ("👍", BOB, NOW + 2)]
    assert await store.log.reactions(state.chat_id, ANN, 2, 10) == everyone
    assert await store.log.reactions(state.chat_id, ANN, 2, 2) == everyone[:2]


async def test_a_reaction_is_taken_back(store: Store) -> None:
    state = await a_chat(store)
    await append(store, state, message(ANN))
    await append(store, state, reacted(2, "👍", by=ANN))
    await append(store, state, reacted(2, "👍", by=BOB))

    await append(store, state, unreacted(2, "👍", by=BOB))
    target = await entry_at(store, state, 2, BOB)
    assert (target.reactions, target.mine) == ({"👍": 1}, ())

    await append(store, state, unreacted(2, "👍", by=ANN))
    assert (await entry_at(store, state, 2)).reactions is None
    assert await store.log.reactions(state.chat_id, ANN, 2, 10) == []


async def test_a_repeated_reaction_is_no_change(store: Store) -> None:
    state = await a_chat(store)
    await append(store, state, message(ANN))
    nothing = Declined(0, "no_change")
    assert await append(store, state, unreacted(2, "👍")) == nothing
    assert await append(store, state, reacted(2, "👍")) == Kept()
    assert await append(store, state, reacted(2, "👍")) == nothing
    assert await append(store, state, unreacted(2, "👍", by=BOB)) == nothing
    assert (await entry_at(store, state, 2)).reactions == {"👍": 1}


async def test_a_message_has_so_many_different_emoji(store: Store) -> None:
    users = some_users(3)
    state = await a_chat(store, *users)
    await append(store, state, message(users[0]))
    for number in range(limits.REACTION_EMOJI_MAX):
        assert await append(store, state, reacted(2, f"e{number}", by=users[0])) == Kept()

    too_many = await append(store, state, reacted(2, "one more", by=users[1]))
    assert too_many == Declined(0, "too_many_emoji")
    assert await append(store, state, reacted(2, "e0", by=users[1])) == Kept()
    assert await append(store, state, unreacted(2, "e1", by=users[0])) == Kept()
    assert await append(store, state, reacted(2, "one more", by=users[2])) == Kept()


async def test_who_reacted_is_for_members(store: Store) -> None:
    state = await a_chat(store)
    await append(store, state, message(ANN))
    await append(store, state, reacted(2, "👍"))

    assert await store.log.reactions(state.chat_id, DAN, 2, 10) is None
    assert await store.log.reactions(state.chat_id, ANN, 99, 10) == []

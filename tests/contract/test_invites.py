# SPDX-License-Identifier: Apache-2.0
"""Invitations that wait: bounded, forgotten in time, and kept over a restart."""

import pytest

from tests.contract.builders import new_chat_id
from tests.contract.engines import Engine, Store
from tests.support.clock import NOW
from tests.support.users import ANN, BOB, CAT, DAN
from tidings.model import limits
from tidings.model.ids import ChatId, UserKey
from tidings.model.roles import Invite


def an_invite(
    user: UserKey = BOB, inviter: UserKey = ANN, chat: ChatId | None = None, at: int = NOW
) -> Invite:
    return Invite(
        user_id=user,
        chat_id=chat or new_chat_id(),
        inviter=inviter,
        role="member",
        name="A chat",
        invited_at=at,
        expires_at=at + limits.INVITE_MS,
    )


async def test_what_was_asked_waits_newest_first(engine: Engine) -> None:
    old, new, other = an_invite(), an_invite(at=NOW + 1), an_invite(CAT)
    async with engine.open() as store:
        for invite in (old, new, other):
            assert await store.invites.put(invite, NOW) == "new"

    async with engine.open() as store:
        assert await store.invites.pending(BOB, NOW) == [new, old]
        assert await store.invites.get(BOB, old.chat_id, NOW) == old
        assert await store.invites.get(CAT, old.chat_id, NOW) is None
        await store.invites.remove(BOB, old.chat_id)
        await store.invites.remove(BOB, old.chat_id)
        assert await store.invites.pending(BOB, NOW) == [new]
        assert await store.invites.pending(CAT, NOW) == [other]


async def test_after_its_time_it_waits_no_longer(store: Store) -> None:
    invite = an_invite()
    await store.invites.put(invite, NOW)
    assert await store.invites.pending(BOB, invite.expires_at - 1) == [invite]
    assert await store.invites.pending(BOB, invite.expires_at) == []
    assert await store.invites.get(BOB, invite.chat_id, invite.expires_at - 1) == invite
    assert await store.invites.get(BOB, invite.chat_id, invite.expires_at) is None


@pytest.mark.attack("F03")
async def test_one_inviter_leaves_room_for_others(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "USER_INVITES_MAX", 3)
    monkeypatch.setattr(limits, "INVITER_INVITES_MAX", 2)
    first, second = an_invite(), an_invite()
    assert await store.invites.put(first, NOW) == "new"
    assert await store.invites.put(second, NOW) == "new"

    assert await store.invites.put(an_invite(), NOW) == "refused"
    assert await store.invites.put(an_invite(inviter=CAT), NOW) == "new"
    assert await store.invites.put(an_invite(inviter=DAN), NOW) == "refused"
    assert await store.invites.put(an_invite(chat=second.chat_id), NOW) == "again"
    await store.invites.remove(BOB, first.chat_id)
    assert await store.invites.put(an_invite(inviter=DAN), NOW) == "new"
    assert len(await store.invites.pending(BOB, NOW)) == 3


@pytest.mark.attack("F03")
async def test_who_declined_is_not_asked_again_for_a_week(engine: Engine) -> None:
    invite, declined_at = an_invite(), NOW + 5
    again_at = declined_at + limits.INVITE_DECLINED_MS
    async with engine.open() as store:
        await store.invites.put(invite, NOW)
        await store.invites.decline(BOB, invite.chat_id, declined_at)
        await store.invites.decline(BOB, invite.chat_id, declined_at + 7)  # prolongs nothing
        await store.invites.decline(BOB, new_chat_id(), declined_at)
        assert await store.invites.pending(BOB, declined_at) == []
        assert await store.invites.get(BOB, invite.chat_id, declined_at) is None

    async with engine.open() as store:
        for inviter in (ANN, CAT):
            soon = an_invite(inviter=inviter, chat=invite.chat_id, at=again_at - 1)
            assert await store.invites.put(soon, again_at - 1) == "refused"
        later = an_invite(chat=invite.chat_id, at=again_at)
        assert await store.invites.put(later, again_at) == "new"
        assert await store.invites.pending(BOB, again_at) == [later]


@pytest.mark.attack("F03")
async def test_what_was_declined_counts_for_who_asked_and_for_nobody_else(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "USER_INVITES_MAX", 2)
    monkeypatch.setattr(limits, "INVITER_INVITES_MAX", 2)
    for _ in range(2):
        invite = an_invite()
        assert await store.invites.put(invite, NOW) == "new"
        await store.invites.decline(BOB, invite.chat_id, NOW)

    assert await store.invites.put(an_invite(), NOW) == "refused"
    for _ in range(2):
        assert await store.invites.put(an_invite(inviter=CAT), NOW) == "new"
    later = NOW + limits.INVITE_DECLINED_MS
    assert await store.invites.put(an_invite(inviter=DAN), later) == "refused", "two wait"
    await store.invites.remove(BOB, (await store.invites.pending(BOB, later))[0].chat_id)
    assert await store.invites.put(an_invite(), later) == "new"

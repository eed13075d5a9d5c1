# SPDX-License-Identifier: Apache-2.0
"""Invitations that wait: bounded, forgotten in time, and kept over a restart."""

import pytest

from tests.contract.builders import ANN, BOB, CAT, DAN, NOW, new_chat_id
from tests.contract.engines import Engine, Store
from tidings.model import limits
from tidings.model.ids import ChatId, UserKey
from tidings.model.invites import Invite


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
            assert await store.invites.put(invite, NOW)

    async with engine.open() as store:
        assert await store.invites.pending(BOB, NOW) == [new, old]
        await store.invites.remove(BOB, old.chat_id)
        await store.invites.remove(BOB, old.chat_id)
        assert await store.invites.pending(BOB, NOW) == [new]
        assert await store.invites.pending(CAT, NOW) == [other]


async def test_after_its_time_it_waits_no_longer(store: Store) -> None:
    invite = an_invite()
    await store.invites.put(invite, NOW)
    assert await store.invites.pending(BOB, invite.expires_at - 1) == [invite]
    assert await store.invites.pending(BOB, invite.expires_at) == []


@pytest.mark.attack("F03")
async def test_one_inviter_leaves_room_for_others(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "USER_INVITES_MAX", 3)
    monkeypatch.setattr(limits, "INVITER_INVITES_MAX", 2)
    first, second = an_invite(), an_invite()
    assert await store.invites.put(first, NOW)
    assert await store.invites.put(second, NOW)

    assert not await store.invites.put(an_invite(), NOW)
    assert await store.invites.put(an_invite(inviter=CAT), NOW)
    assert not await store.invites.put(an_invite(inviter=DAN), NOW)
    assert await store.invites.put(an_invite(chat=second.chat_id), NOW), "asking again is one"
    await store.invites.remove(BOB, first.chat_id)
    assert await store.invites.put(an_invite(inviter=DAN), NOW)
    assert len(await store.invites.pending(BOB, NOW)) == 3

# SPDX-License-Identifier: Apache-2.0
"""Push: registrations belong to their last registrant, and a notice is claimed once."""

import asyncio

import msgspec
import pytest

from tests.contract.builders import a_chat, a_push_device, append, deleted, message
from tests.contract.engines import Engine, Store
from tests.support.clock import NOW
from tests.support.users import ANN, BOB, CAT
from tidings.model.chats import Move
from tidings.model.ids import UserKey, tenant_of
from tidings.model.push import DEVICES_MAX, PushRegistration, PushSettings
from tidings.model.refusals import LimitReached
from tidings.ports.delivery import PushMute
from tidings.stores.sqlite.chat import recent_chats
from tidings.stores.sqlite.chat.recent_chats import SqliteRecentChats

LATER = NOW + 5
TENANT = tenant_of(ANN)


def device(user: UserKey, name: str = "phone", target: str = "t1") -> PushRegistration:
    """A registration as a phone makes it."""
    return a_push_device(user, name, target)


async def test_registrations_outlive_a_restart(engine: Engine) -> None:
    browser = msgspec.structs.replace(
        device(ANN, "browser", "t2"), provider="webpush", app=None, session_id=None
    )
    async with engine.open() as store:
        await store.push.register(device(ANN))
        await store.push.register(browser)
        await store.push.register(device(BOB, target="t3"))

    async with engine.open() as store:
        assert await store.push.of(ANN) == [browser, device(ANN)]
        assert await store.push.remove(ANN, "phone", LATER)
        assert not await store.push.remove(ANN, "phone", LATER)
        assert await store.push.of(ANN) == [browser]
        assert await store.push.of(BOB) == [device(BOB, target="t3")]


async def test_a_target_belongs_to_its_last_registrant(store: Store) -> None:
    await store.push.register(device(ANN))
    position = await store.revocations.head()

    assert await store.push.register(device(BOB, "tablet")) == ANN

    assert await store.push.of(ANN) == []
    assert await store.push.of(BOB) == [device(BOB, "tablet")]
    told = await store.revocations.after(position)
    assert {(one.kind, one.subject) for one in told} == {("push", ANN), ("push", BOB)}


async def test_a_target_moves_to_a_user_of_another_tenant(store: Store) -> None:
    stranger = UserKey("another:zoe")
    assert await store.push.register(device(ANN)) is None
    assert await store.push.register(device(stranger)) == ANN
    assert await store.push.register(device(stranger, "tablet")) is None, "it is the same user"
    assert await store.push.of(ANN) == []
    assert await store.push.of(stranger) == [device(stranger, "tablet")]
    listed = await store.push.of_tenant(TENANT, after=None, limit=10)
    assert listed.rows == []


async def test_of_two_who_take_over_a_target_at_once_one_has_it(store: Store) -> None:
    await store.push.register(device(ANN))

    await asyncio.gather(*(store.push.register(device(user)) for user in (BOB, CAT)))

    owners = {user: await store.push.of(user) for user in (ANN, BOB, CAT)}
    assert sorted(map(len, owners.values())) == [0, 0, 1]
    assert owners[ANN] == []
    page = await store.push.of_tenant(TENANT, after=None, limit=10)
    assert [page.rows] == [found for found in owners.values() if found]


async def test_a_device_has_one_target_and_gives_back_the_earlier_one(store: Store) -> None:
    await store.push.register(device(ANN, target="t1"))
    await store.push.register(device(ANN, target="t2"))
    assert await store.push.of(ANN) == [device(ANN, target="t2")]

    await store.push.register(device(BOB, target="t1"))
    await store.push.register(device(ANN, target="t2"))

    assert await store.push.of(ANN) == [device(ANN, target="t2")]
    assert await store.push.of(BOB) == [device(BOB, target="t1")]


async def test_an_outdated_target_does_not_remove_the_new_one(store: Store) -> None:
    await store.push.register(device(ANN, target="t2"))

    assert not await store.push.remove(ANN, "phone", LATER, digest="t1")
    assert await store.push.of(ANN) == [device(ANN, target="t2")]
    assert await store.push.remove(ANN, "phone", LATER, digest="t2")
    assert await store.push.of(ANN) == []


async def test_a_user_registers_a_limited_number_of_devices(store: Store) -> None:
    for number in range(DEVICES_MAX):
        await store.push.register(device(ANN, f"phone{number}", f"t{number}"))

    with pytest.raises(LimitReached):
        await store.push.register(device(ANN, "one more", "t"))
    await store.push.register(device(ANN, "phone1", "new"))
    assert len(await store.push.of(ANN)) == DEVICES_MAX


async def test_the_devices_of_a_tenant_are_listed_in_parts(store: Store) -> None:
    stranger = UserKey("other:ann")
    registered = [
        device(ANN, "a", "1"), device(ANN, "b", "2"), device(BOB, "a", "3"), device(CAT, "a", "4"),
    ]  # fmt: skip
    for one in [*registered, device(stranger, "a", "5")]:
        await store.push.register(one)

    first = await store.push.of_tenant(TENANT, after=None, limit=3)
    assert first.rows == registered[:3]
    assert first.end is not None
    rest = await store.push.of_tenant(TENANT, after=first.end, limit=3)
    assert (rest.rows, rest.end) == (registered[3:], None)


async def test_the_settings_of_a_tenant_are_replaced(engine: Engine) -> None:
    first = PushSettings(
        tenant=TENANT, content="preview", providers=("fcm", "webpush"), box="sealed", updated_at=NOW
    )
    last = PushSettings(tenant=TENANT, updated_at=LATER)
    async with engine.open() as store:
        assert await store.push.settings(TENANT) is None
        assert not await store.push.put_settings(first, last)
        assert await store.push.put_settings(first, None)
        position = await store.revocations.head()
    async with engine.open() as store:
        assert await store.push.settings(TENANT) == first
        assert not await store.push.put_settings(last, None)
        assert not await store.push.put_settings(last, last)
        assert await store.push.settings(TENANT) == first
        assert await store.push.put_settings(last, first)
        assert await store.push.settings(TENANT) == last
        told = await store.revocations.after(position)
        assert [(one.kind, one.subject) for one in told] == [("push", TENANT)]


async def test_a_notice_is_claimed_once(store: Store) -> None:
    state = await a_chat(store, ANN, BOB)
    await append(store, state, message(ANN), message(ANN))
    claims, chat, (first, last) = store.push_claims, state.chat_id, (2, 3)

    won = await asyncio.gather(
        *(claims.claim(BOB, chat, first, unless_delivered=False) for _ in range(3))
    )

    assert sorted(won) == [False, False, True]
    assert not await claims.claim(CAT, chat, first, unless_delivered=False)
    assert await claims.claim(BOB, chat, last, unless_delivered=True)
    assert not await claims.claim(BOB, chat, first, unless_delivered=False)


async def test_what_was_received_or_read_is_not_claimed(store: Store) -> None:
    state = await a_chat(store, ANN, BOB)
    await append(store, state, message(ANN), message(ANN))
    claims, chat, (sequence, last) = store.push_claims, state.chat_id, (2, 3)
    await store.receipts.move([Move(BOB, chat, delivered=sequence, read=0)])
    assert not await claims.claim(BOB, chat, sequence, unless_delivered=True)
    assert await claims.claim(BOB, chat, sequence, unless_delivered=False)

    ((_, receipt),) = await store.receipts.move([Move(BOB, chat, delivered=0, read=last)])

    assert receipt.pushed == sequence
    assert not await claims.claim(BOB, chat, last, unless_delivered=False)


async def test_a_claim_holds_until_the_message_is_read(store: Store) -> None:
    state = await a_chat(store, ANN, BOB)
    await append(store, state, message(ANN), message(ANN))
    claims, chat, (first, last) = store.push_claims, state.chat_id, (2, 3)
    assert not await claims.is_claimed(BOB, chat, first)
    assert await claims.claim(BOB, chat, last, unless_delivered=False)
    assert await claims.is_claimed(BOB, chat, first)
    assert not await claims.is_claimed(CAT, chat, first)
    await store.receipts.move([Move(BOB, chat, delivered=0, read=first)])
    assert not await claims.is_claimed(BOB, chat, first)
    assert await claims.is_claimed(BOB, chat, last)
    assert await claims.clear(BOB, chat, last)
    assert not await claims.is_claimed(BOB, chat, last)


async def test_a_notice_is_taken_back_once(store: Store) -> None:
    state = await a_chat(store, ANN, BOB)
    await append(store, state, message(ANN))
    claims, chat, sequence = store.push_claims, state.chat_id, 2
    await claims.claim(BOB, chat, sequence, unless_delivered=False)

    assert not await claims.clear(BOB, chat, sequence - 1)
    assert await claims.clear(BOB, chat, sequence)
    assert not await claims.clear(BOB, chat, sequence)


async def test_the_mute_of_one_member_is_read(store: Store) -> None:
    state = await a_chat(store, ANN, BOB)
    claims, chat = store.push_claims, state.chat_id
    assert await claims.mute(BOB, chat) is None
    await store.chats.mute(chat, BOB, LATER, except_mentions=True)

    assert await claims.mute(BOB, chat) == PushMute(LATER, except_mentions=True)
    assert await claims.mute(ANN, chat) is None
    assert await claims.mute(CAT, chat) is None
    await store.chats.mute(chat, BOB, None)
    assert await claims.mute(BOB, chat) is None


async def test_chats_with_recent_entries_are_found(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not isinstance(store.recent_chats, SqliteRecentChats):
        return  # the relay finds them in the stream
    monkeypatch.setattr(recent_chats, "WALKED_AT_ONCE", 2)
    chats = [await a_chat(store, now=NOW - number) for number in range(5)]
    await append(store, chats[4], message(ANN), now=NOW)
    await append(store, chats[0], deleted(), now=NOW)

    async def found(*, of_everybody: bool) -> list[str]:
        walk = store.recent_chats.written_since(NOW - 2, of_everybody=of_everybody)
        return [chat async for chat in walk]

    recent = [chats[number].chat_id for number in (1, 2, 4)]
    assert await found(of_everybody=True) == recent
    for tenant, some in (("other", []), (TENANT, recent)):
        assert await found(of_everybody=False) == [], "no chat of a tenant that uses push"
        await store.push.put_settings(PushSettings(tenant=tenant, updated_at=NOW), None)
        assert await found(of_everybody=False) == some

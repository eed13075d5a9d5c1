# SPDX-License-Identifier: Apache-2.0
"""Gateways with a registry: nothing is lost, whatever Redis forgets; nothing comes twice."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.integration.gateways import Gateway, Gateways, some_gateways
from tests.support.services import RedisServer
from tests.support.users import ANN, BOB, CAT
from tests.support.waiting import until
from tidings.model import limits
from tidings.model.chats import ChatHead
from tidings.model.ids import UserKey
from tidings.ports.delivery import RegistryUnavailable
from tidings.wire.codes import Close


@pytest.fixture
async def gateways(tmp_path: Path, redis_url: str) -> AsyncIterator[Gateways]:
    async with some_gateways(tmp_path / "data", redis_url) as opened:
        yield opened


async def forget(gateway: Gateway, *users: UserKey) -> None:
    """Have Redis lose everything about some users."""
    link = gateway.registry._link
    await link.redis.delete(*(link.name("user", user) for user in users))


# Handing over.


async def test_entries_are_handed_to_the_gateway_that_holds_the_connection(
    gateways: Gateways,
) -> None:
    bench, post = gateways.bench, gateways.post
    one, other = await gateways.open("g1"), await gateways.open("g2")
    chat = await bench.group(ANN, BOB)
    ann, bob = await one.line().live(ANN), await other.line().live(BOB)
    await bench.post(ANN, chat, 3)

    answers = [await post.hand(one, [1, 2, 3]), await post.hand(other, [1, 2, 3])]

    assert answers[0] == [frozenset({ann.conversation.connection})] * 3
    assert answers[1] == [frozenset({bob.conversation.connection})] * 3
    assert ann.sequences(chat) == bob.sequences(chat) == [1, 2, 3, 4]


async def test_what_is_handed_over_again_is_dropped(gateways: Gateways) -> None:
    bench, post = gateways.bench, gateways.post
    gateway = await gateways.open("g1")
    chat = await bench.group(ANN, BOB)
    bob = await gateway.line().live(BOB)
    await bench.post(ANN, chat, 2)
    for _ in range(2):
        await post.hand(gateway)
    await post.hand(gateway, [2, 1])
    assert bob.sequences(chat) == [1, 2, 3]


async def test_a_newcomer_gets_the_entries_from_the_joining_on(gateways: Gateways) -> None:
    bench, post = gateways.bench, gateways.post
    gateway = await gateways.open("g1")
    chat = await bench.group(ANN, BOB)
    await bench.post(ANN, chat, 2)
    await bench.core.store.users.put(CAT, display_name=None, phone_number=None, now=1)
    cat = await gateway.line().live(CAT)
    await bench.core.verbs.put_member(ANN, chat, CAT, None)
    await bench.post(ANN, chat)

    await post.hand(gateway, [3, 4])

    await cat.until_entries(chat, 2)
    assert cat.sequences(chat) == [4, 5]


async def test_a_newcomer_of_whose_joining_nobody_told_starts_like_a_new_device(
    gateways: Gateways,
) -> None:
    bench, post = gateways.bench, gateways.post
    gateway = await gateways.open("g1")
    chat = await bench.group(ANN, BOB)
    await bench.core.store.users.put(CAT, display_name=None, phone_number=None, now=1)
    cat = await gateway.line().live(CAT)
    await bench.core.verbs.put_member(ANN, chat, CAT, None)
    await bench.post(ANN, chat)

    await post.hand(gateway, [2])

    await cat.until_entries(chat, 3)
    assert cat.sequences(chat) == [1, 2, 3]


@pytest.mark.attack("D09")
@pytest.mark.parametrize("number", [0, 1])
async def test_an_echo_does_not_bring_a_removed_member_back(
    gateways: Gateways, number: int
) -> None:
    bench, post = gateways.bench, gateways.post
    gateway = await gateways.open("g1")
    chat = await bench.group(ANN, BOB)
    bob = await gateway.line().live(BOB)
    await bench.post(ANN, chat)
    await bench.core.verbs.remove_member(ANN, chat, BOB)
    await post.hand(gateway)
    assert bob.sequences(chat) == [1, 2, 3]
    await bench.post(ANN, chat)

    encoded, _ = post.encoded_entries[number]
    await gateway.handover.entries([encoded], {"g1": [BOB]})  # from a worker that knows no better

    await bob.until(lambda: bob.of("gone"))
    assert bob.sequences(chat) == [1, 2, 3]
    assert chat not in bob.progress.chats()


async def test_what_passes_by_during_hello_may_come_in_any_order(gateways: Gateways) -> None:
    bench, post = gateways.bench, gateways.post
    gateway = await gateways.open("g1")
    chat = await bench.group(ANN, BOB)
    await bench.post(ANN, chat)

    async def held(user: UserKey) -> list[ChatHead]:
        rows = await bench.context.chats_of(user)
        await bench.post(ANN, chat)
        await post.hand(gateway, [2, 1])
        return rows

    line = gateway.line(replace(gateway.context, chats_of=held))
    await line.live(BOB, have={chat: 2})

    await line.until_entries(chat, 1)
    assert line.sequences(chat) == [3]


async def test_a_gateway_that_is_too_far_behind_answers_nothing_and_compares(
    gateways: Gateways, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench, post = gateways.bench, gateways.post
    gateway = await gateways.open("g1")
    chat = await bench.group(ANN, BOB)
    bob = await gateway.line().live(BOB)
    await bench.post(ANN, chat)
    monkeypatch.setattr("tidings.gateway.handover_receiver.WAITING_USERS_MAX", 0)
    monkeypatch.setattr(gateway.handover, "_answer_seconds_max", 1.0)

    assert await post.hand(gateway, [1]) == [None]

    await until(lambda: gateway.deliveries.dropped == 1)
    await bob.until_entries(chat, 2)


async def test_a_thousand_connections_are_handed_an_entry(gateways: Gateways) -> None:
    bench, post = gateways.bench, gateways.post
    gateway = await gateways.open("g1")
    chat = await bench.group(ANN, BOB)
    bob = [await gateway.line().live(BOB) for _ in range(limits.USER_CONNECTIONS_MAX)]
    await bench.post(ANN, chat)
    users = [BOB, *(UserKey(f"acme:u{number}") for number in range(1_000))]

    encoded, _ = post.encoded_entries[1]
    answer = await gateway.handover.entries([encoded], {"g1": users})

    assert answer == {"g1": {line.conversation.connection for line in bob}}
    assert all(line.sequences(chat) == [1, 2] for line in bob)


# Being found, and being forgotten.


async def test_a_connection_is_registered_before_its_chats_are_read(gateways: Gateways) -> None:
    gateway = await gateways.open("g1", beat_seconds=600)
    seen: list[int] = []

    async def held(user: UserKey) -> list[ChatHead]:
        seen.append(len((await gateway.registry.find([user])).get(user, ())))
        return await gateways.bench.context.chats_of(user)

    line = await gateway.line(replace(gateway.context, chats_of=held)).live(BOB)
    assert seen == [1]

    await line.hang_up()
    await gateway.registry.close()
    assert await gateway.registry.find([BOB]) == {}


async def test_a_forgotten_connection_is_registered_again_and_misses_nothing(
    gateways: Gateways,
) -> None:
    bench, post = gateways.bench, gateways.post
    gateway = await gateways.open("g1", beat_seconds=600, ttl_ms=600_000)
    chat = await bench.group(ANN, BOB)
    bob, ann = await gateway.line().live(BOB), await gateway.line().live(ANN)
    await forget(gateway, BOB)
    await bench.post(ANN, chat, 3)
    assert await gateway.registry.find([BOB]) == {}

    await gateway.registration._beat()

    await bob.until_entries(chat, 4)
    assert set(await gateway.registry.find([BOB])) == {BOB}
    assert gateway.reconciler.compared == 1, "of those that were not forgotten nothing is read"
    assert ann.sequences(chat) == [1]
    await post.hand(gateway)
    assert ann.sequences(chat) == bob.sequences(chat) == [1, 2, 3, 4]


async def test_who_was_added_to_a_chat_while_forgotten_learns_of_it(gateways: Gateways) -> None:
    bench = gateways.bench
    gateway = await gateways.open("g1", beat_seconds=600)
    await bench.group(BOB, ANN)
    bob = await gateway.line().live(BOB)
    await forget(gateway, BOB)
    chat = await bench.group(ANN, BOB)
    await bench.post(ANN, chat)

    await gateway.registration._beat()

    await bob.until_entries(chat, 2)
    assert bob.sequences(chat) == [1, 2]


async def test_who_was_removed_while_forgotten_learns_of_it(gateways: Gateways) -> None:
    bench = gateways.bench
    gateway = await gateways.open("g1", beat_seconds=600)
    chat = await bench.group(ANN, BOB)
    bob = await gateway.line().live(BOB)
    await forget(gateway, BOB)
    await bench.core.verbs.remove_member(ANN, chat, BOB)
    await bench.post(ANN, chat)

    await gateway.registration._beat()

    await bob.until(lambda: bob.of("gone"))
    assert bob.sequences(chat) == [1]


async def test_a_registration_that_ran_out_is_made_good(gateways: Gateways) -> None:
    bench = gateways.bench
    gateway = await gateways.open("g1", beat_seconds=600, ttl_ms=30)
    chat = await bench.group(ANN, BOB)
    bob = await gateway.line().live(BOB)
    await bench.post(ANN, chat)
    await until(lambda: gateway.registry.find([BOB]), equals={})

    await gateway.registration._beat()

    await bob.until_entries(chat, 2)


async def test_after_a_flush_all_gateways_make_good(tmp_path: Path, own_redis: RedisServer) -> None:
    async with some_gateways(tmp_path / "data", own_redis.address) as gateways:
        bench = gateways.bench
        one, other = await gateways.open("g1"), await gateways.open("g2")
        chat = await bench.group(ANN, BOB)
        ann, bob = await one.line().live(ANN), await other.line().live(BOB)
        await bench.post(ANN, chat, 2)  # nobody hands the entries over
        await one.registry._link.redis.flushall()

        await ann.until_entries(chat, 3)
        await bob.until_entries(chat, 3)
        assert ann.sequences(chat) == bob.sequences(chat) == [1, 2, 3]
        assert set(await one.registry.find([ANN, BOB])) == {ANN, BOB}


async def test_without_redis_everything_is_delivered_from_the_store(
    tmp_path: Path, own_redis: RedisServer
) -> None:
    async with some_gateways(tmp_path / "data", own_redis.address) as gateways:
        bench = gateways.bench
        gateway = await gateways.open("g1")
        chat = await bench.group(ANN, BOB)
        bob = await gateway.line().live(BOB)
        await asyncio.to_thread(own_redis.stop)
        await bench.post(ANN, chat, 2)
        await bob.until_entries(chat, 3)

        ann = await gateway.line().live(ANN)  # served all the same
        await bench.post(BOB, chat)
        await ann.until_entries(chat, 4)
        with pytest.raises(RegistryUnavailable):
            await gateway.registry.find([ANN])

        await asyncio.to_thread(own_redis.start)

        async def both() -> set[UserKey]:
            return set(await found(gateway, ANN, BOB))

        await until(both, equals={ANN, BOB})
        assert ann.sequences(chat) == bob.sequences(chat) == [1, 2, 3, 4]


async def found(gateway: Gateway, *users: UserKey) -> list[UserKey]:
    try:
        return list(await gateway.registry.find(users))
    except RegistryUnavailable:
        return []


async def test_a_gateway_that_was_away_sends_everyone_home(gateways: Gateways) -> None:
    gateway = await gateways.open("g1")
    bob = await gateway.line().live(BOB)
    clock = gateway.write_lease.now
    gateway.write_lease.now = lambda: clock() + 11

    await until(lambda: bob.closes)

    assert bob.closes == [Close.RESTARTING]
    assert not gateway.write_lease.is_expired, "it goes on, with whoever comes back"

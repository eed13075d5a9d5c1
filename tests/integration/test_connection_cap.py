# SPDX-License-Identifier: Apache-2.0
"""A user has 20 connections, however many gateways hold them."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from tests.integration.gateways import Gateway, Gateways, some_gateways
from tests.support.services import RedisServer
from tests.support.users import ANN, BOB
from tests.support.waiting import until
from tests.unit.fake_connection import FakeConnection
from tidings.model import limits
from tidings.model.ids import UserKey
from tidings.ports.delivery import Refreshed
from tidings.wire.codes import Close


@pytest.fixture
async def gateways(tmp_path: Path, redis_url: str) -> AsyncIterator[Gateways]:
    async with some_gateways(tmp_path / "data", redis_url) as opened:
        yield opened


async def settled(lines: list[FakeConnection]) -> list[FakeConnection]:
    """Wait until each of the lines is live or closed; those that are not closed."""
    for line in lines:
        await line.until(partial(_is_settled, line))
    return [line for line in lines if not line.closes]


async def refreshed(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for a refresh of the gateway's registrations that begins from now on."""
    ended, refresh = [], gateway.registry.refresh

    async def and_note(connections: Sequence[tuple[UserKey, str]]) -> Refreshed:
        result = await refresh(connections)
        ended.append(result)
        return result

    with monkeypatch.context() as patch:
        patch.setattr(gateway.registry, "refresh", and_note)
        await until(lambda: ended)


def _is_settled(line: FakeConnection) -> bool:
    return bool(line.closes) or {"op": "live"} in line.frames


@pytest.mark.attack("C04")
async def test_of_45_connections_over_two_gateways_20_stay(gateways: Gateways) -> None:
    one, other = await gateways.open("g1"), await gateways.open("g2")
    lines = [(one if number % 2 else other).line() for number in range(45)]
    for line in lines:
        line.say("hello", token=ANN, device="phone")

    stayed = await settled(lines)

    assert len(stayed) == limits.USER_CONNECTIONS_MAX
    refused = [line for line in lines if line.closes]
    assert {code for line in refused for code in line.closes} == {Close.TOO_MANY_CONNECTIONS}
    assert await settled([await one.line().live(BOB)]), "nobody else is concerned"


@pytest.mark.attack("C04")
async def test_who_hangs_up_makes_room_on_another_gateway(gateways: Gateways) -> None:
    one, other = await gateways.open("g1"), await gateways.open("g2")
    lines = [await one.line().live(ANN) for _ in range(limits.USER_CONNECTIONS_MAX)]
    late = other.line()
    late.say("hello", token=ANN, device="phone")
    assert not await settled([late])
    await late.hang_up()

    await lines[0].hang_up()

    async def is_let_in() -> bool:
        """A refresh that was running may count the connection that has left once more."""
        line = other.line()
        line.say("hello", token=ANN, device="phone")
        return bool(await settled([line]))

    await until(is_let_in)


@pytest.mark.attack("C04")
async def test_an_idle_connection_makes_room_for_the_same_device_on_its_gateway(
    gateways: Gateways, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = await gateways.open("g1"), await gateways.open("g2")
    lines = [await one.line().live(ANN) for _ in range(limits.USER_CONNECTIONS_MAX - 1)]
    lines.append(await other.line().live(ANN))
    lines[0].say("away", away=True)

    late = other.line()
    late.say("hello", token=ANN, device="phone")
    assert not await settled([late]), "the idle one is on the other gateway"
    assert await settled([await one.line().live(ANN)])

    assert lines[0].closes == [Close.TOO_MANY_CONNECTIONS]
    assert not any(line.closes for line in lines[1:])
    await refreshed(one, monkeypatch)
    [addresses] = (await one.registry.find([ANN])).values()
    assert len(addresses) == limits.USER_CONNECTIONS_MAX


@pytest.mark.attack("C04")
async def test_without_redis_each_gateway_counts_and_afterwards_all_do(
    tmp_path: Path, own_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with some_gateways(tmp_path / "data", own_redis.address) as gateways:
        one, other = await gateways.open("g1"), await gateways.open("g2")
        await asyncio.to_thread(own_redis.stop)
        lines = [gateway.line() for gateway in (one, other) for _ in range(22)]
        for line in lines:
            line.say("hello", token=ANN, device="phone")
        assert len(await settled(lines)) == 2 * limits.USER_CONNECTIONS_MAX

        await asyncio.to_thread(own_redis.start)

        await until(lambda: sum(not line.closes for line in lines) <= limits.USER_CONNECTIONS_MAX)
        for gateway in (one, other):
            await refreshed(gateway, monkeypatch)
        assert sum(not line.closes for line in lines) == limits.USER_CONNECTIONS_MAX

# SPDX-License-Identifier: Apache-2.0
"""Which buckets a request, a send and a connect take from."""

from collections.abc import Iterable

import pytest

from tests.support.users import ANN
from tidings.actions.identity.caller import Caller, Root, TenantCaller, UserCaller
from tidings.actions.rate_limits import (
    CONNECT_WAIT_MS_MAX,
    Kind,
    Outcome,
    RateLimits,
    check,
    combine_outcomes,
    sends_of,
)
from tidings.gateway.context import Admission
from tidings.limiters import InProcessBuckets
from tidings.model import limits
from tidings.model.ids import user_key
from tidings.model.refusals import RateLimited

USER = UserCaller(ANN, None, 0)
KEY = TenantCaller("acme", "00ff")
HOME = "203.0.113.9"


class TimedLimits:
    """Limits with time that stands still until it is moved."""

    def __init__(self) -> None:
        self.now_us = 0
        self.shared = InProcessBuckets(lambda: self.now_us * 1_000)
        own = InProcessBuckets(lambda: self.now_us * 1_000)
        self.limits = RateLimits(self.shared, own)

    def tokens_flow_in(self, count: int, per_second: int) -> None:
        """Move time by so much."""
        self.now_us += count * 1_000_000 // per_second


@pytest.fixture
def world() -> TimedLimits:
    return TimedLimits()


def names(outcome: Outcome | None) -> list[str]:
    return [] if outcome is None else [bucket.policy for bucket in outcome.buckets]


@pytest.mark.parametrize(
    ("caller", "kind", "counted"),
    [
        (USER, None, ["user"]),
        (USER, "send", ["messages", "user"]),
        (KEY, None, ["tenant-key"]),
        (Root(), None, []),
        (None, "login", []),
        (None, None, []),
    ],
)
async def test_what_a_callers_request_is_counted_as(
    world: TimedLimits, caller: Caller | None, kind: Kind | None, counted: list[str]
) -> None:
    assert names(await world.limits.request(caller, kind)) == counted


@pytest.mark.parametrize(
    ("address", "kind", "counted"),
    [
        (HOME, None, ["address"]),
        (HOME, "send", ["address"]),
        (HOME, "login", ["login", "address"]),
        (None, "login", []),
    ],
)
async def test_what_an_address_is_counted_as_by_this_process_alone(
    world: TimedLimits, address: str | None, kind: Kind | None, counted: list[str]
) -> None:
    assert names(await world.limits.arrival(address, kind)) == counted
    assert len(world.shared) == 0


async def test_wrong_credentials_are_counted_by_all_processes_together(world: TimedLimits) -> None:
    assert names(await world.limits.wrong_credentials(HOME)) == ["credentials"]
    assert len(world.shared) == 1


@pytest.mark.attack("S11", "A16")
async def test_wrong_credentials_are_limited_also_where_no_address_is_known(
    world: TimedLimits,
) -> None:
    for _ in range(limits.UNKNOWN_WRONG_CREDENTIALS_BURST):
        check(await world.limits.wrong_credentials(None))
    with pytest.raises(RateLimited, match="credentials"):
        check(await world.limits.wrong_credentials(None))
    check(await world.limits.wrong_credentials(HOME))
    assert await world.limits.arrival(None, None) is None, "nothing else of them is counted"
    world.tokens_flow_in(1, limits.UNKNOWN_WRONG_CREDENTIALS_PER_SECOND)
    check(await world.limits.wrong_credentials(None))


async def guess(world: TimedLimits, networks: Iterable[int]) -> int:
    """How many wrong credentials from these networks of one provider are told that they are."""
    allowed = 0
    for number in networks:
        outcome = await world.limits.wrong_credentials(
            f"2a00:1:{number >> 16:x}:{number & 0xFFFF:x}::/64"
        )
        assert outcome is not None
        allowed += outcome.verdict.is_allowed
    return allowed


@pytest.mark.attack("S18", "A16")
async def test_wrong_credentials_from_many_networks_of_one_site_are_counted_together(
    world: TimedLimits,
) -> None:
    most = limits.SITE_ADDRESSES * limits.ADDRESS_WRONG_CREDENTIALS_BURST
    assert await guess(world, range(400)) == most
    # Another /48 is somebody else's, and in it each /64 has its own smaller bucket.
    assert await guess(world, range(0x10000, 0x10000 + 100)) == 100
    own = limits.ADDRESS_WRONG_CREDENTIALS_BURST
    assert await guess(world, [0x20000] * (own + 10)) == own


@pytest.mark.attack("S18", "C04")
async def test_so_are_requests_logins_and_handshakes(world: TimedLimits) -> None:
    home = "2a00:1:2:3::/64"
    assert names(await world.limits.arrival(home, "login")) == [
        "login", "login-48", "address", "address-48",
    ]  # fmt: skip
    most = limits.SITE_ADDRESSES * limits.ADDRESS_CONNECTS_BURST
    waits = [world.limits.handshake(f"2a00:1:2:{number:x}::/64") for number in range(most + 5)]
    assert waits.count(0) == most
    assert world.limits.handshake("2a00:1:3:0::/64") == 0


async def test_what_was_counted_twice_is_told_as_one(world: TimedLimits) -> None:
    arrival = await world.limits.arrival(HOME, None)
    request = await world.limits.request(USER, None)
    told = combine_outcomes(request, arrival)
    assert names(told) == ["user", "address"]
    assert told is not None
    assert (told.verdict.tightest.policy, told.verdict.left) == (
        "user",
        limits.USER_REQUESTS_BURST - 1,
    )
    assert combine_outcomes(request, None) == combine_outcomes(None, request) == request


async def test_of_two_verdicts_the_one_that_refuses_counts(world: TimedLimits) -> None:
    for _ in range(limits.ADDRESS_LOGINS_BURST):
        check(await world.limits.arrival(HOME, "login"))
    for _ in range(limits.ADDRESS_WRONG_CREDENTIALS_BURST):
        check(await world.limits.wrong_credentials(HOME))
    world.now_us += 1_000_000
    last = await world.limits.arrival(HOME, "login")
    assert last is not None
    assert (last.verdict.is_allowed, last.verdict.left) == (True, 0)
    check(await world.limits.wrong_credentials(HOME))
    told = combine_outcomes(last, await world.limits.wrong_credentials(HOME))
    with pytest.raises(RateLimited, match="credentials"):
        check(told)


@pytest.mark.attack("F01")
async def test_a_flood_is_refused_for_its_user_alone(world: TimedLimits) -> None:
    for _ in range(limits.USER_REQUESTS_BURST):
        check(await world.limits.request(USER, None))
    with pytest.raises(RateLimited) as refused:
        check(await world.limits.request(USER, None))
    assert refused.value.retry_after_ms == 1_000 // limits.USER_REQUESTS_PER_SECOND
    check(await world.limits.request(UserCaller(user_key("acme", "bob"), None, 0), None))
    world.tokens_flow_in(1, limits.USER_REQUESTS_PER_SECOND)
    check(await world.limits.request(USER, None))


@pytest.mark.attack("F01")
async def test_messages_are_counted_together_whichever_way_they_come(world: TimedLimits) -> None:
    bucket = sends_of(ANN)
    for _ in range(limits.USER_SENDS_BURST // 2):
        assert world.limits.send(bucket) == 0
        check(await world.limits.request(USER, "send"))
    assert world.limits.send(bucket) == 1_000 // limits.USER_SENDS_PER_SECOND
    with pytest.raises(RateLimited, match="messages"):
        check(await world.limits.request(USER, "send"))
    check(await world.limits.request(USER, None))


@pytest.mark.attack("F05")
async def test_who_reconnects_all_the_time_waits_longer_and_longer(world: TimedLimits) -> None:
    for _ in range(limits.USER_CONNECTS_BURST):
        assert await world.limits.connect(ANN) == 0
    waits = [await world.limits.connect(ANN) for _ in range(8)]
    assert waits == [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, CONNECT_WAIT_MS_MAX, 60_000]
    assert await world.limits.connect(user_key("acme", "bob")) == 0
    world.tokens_flow_in(2, limits.USER_CONNECTS_PER_SECOND)
    assert [await world.limits.connect(ANN) for _ in range(3)] == [0, 0, 1_000]


@pytest.mark.attack("C04")
async def test_an_address_may_have_only_so_many_sockets(world: TimedLimits) -> None:
    entrance = Admission(lambda most: most, world.limits)
    for _ in range(limits.ADDRESS_SOCKETS_MAX):
        assert entrance.wait_seconds(HOME) == 0
        entrance.opened(HOME)
        world.now_us += 1_000_000
    assert entrance.wait_seconds(HOME) == 10
    assert entrance.wait_seconds("203.0.113.10") == 0
    assert entrance.wait_seconds(None) == 0
    entrance.closed(HOME)
    assert entrance.wait_seconds(HOME) == 0


@pytest.mark.attack("C18")
async def test_a_herd_at_the_door_is_spread(world: TimedLimits) -> None:
    chosen = iter(range(1, 100_000, 777))
    entrance = Admission(lambda most: min(most, next(chosen)), world.limits)
    assert {entrance.wait_seconds(None) for _ in range(limits.HANDSHAKES_BURST)} == {0}
    waits = [entrance.wait_seconds(None) for _ in range(13)]
    assert waits == [1, 1, 2, 3, 4, 4, 5, 6, 7, 7, 8, 9, 10]
    world.now_us += 1_000_000
    allowed = [entrance.wait_seconds(None) for _ in range(limits.HANDSHAKES_PER_SECOND)]
    assert set(allowed) == {0}


@pytest.mark.attack("C04")
async def test_one_address_cannot_take_the_whole_door(world: TimedLimits) -> None:
    entrance = Admission(lambda most: most, world.limits)
    taken = [entrance.wait_seconds(HOME) for _ in range(limits.HANDSHAKES_BURST)]
    assert taken.count(0) == limits.ADDRESS_CONNECTS_BURST
    assert entrance.wait_seconds("203.0.113.10") == 0

# SPDX-License-Identifier: Apache-2.0
"""When the provider is asked, and what a token says about its end."""

from base64 import urlsafe_b64encode

import msgspec
import pytest

from tidings_client.tokens import Tokens, expiry


def a_token(expires_at: float, name: str = "") -> str:
    claims = msgspec.json.encode({"exp": expires_at, "name": name})
    return f"head.{urlsafe_b64encode(claims).decode().rstrip('=')}.seal"


class Clock:
    """A clock that is set, and a provider that makes tokens of a given life by it."""

    def __init__(self, life: float = 3_600) -> None:
        self.now = 1_000.0
        self.life = life
        self.asked = 0
        self.tokens = Tokens(self.provide, lambda: self.now)

    async def provide(self) -> str:
        self.asked += 1
        return a_token(self.now + self.life, str(self.asked))


@pytest.mark.parametrize("token", ["", "opaque", "a.b", "a.!!!.c", "a.e30.c", "a.bnVsbA.c"])
def test_an_opaque_token_says_nothing_of_its_end(token: str) -> None:
    assert expiry(token) is None


def test_a_jwt_is_taken_at_its_word() -> None:
    assert expiry(a_token(1_234)) == 1_234


async def test_a_token_is_kept_until_shortly_before_its_end() -> None:
    clock = Clock()
    first = await clock.tokens.current()
    assert clock.tokens.seconds_left() == 3_540
    clock.now += 3_539
    assert await clock.tokens.current() == first
    clock.now += 1
    assert await clock.tokens.current() != first
    assert clock.asked == 2


async def test_a_short_token_is_replaced_after_four_fifths_of_its_life() -> None:
    clock = Clock(life=10)
    await clock.tokens.current()
    assert clock.tokens.seconds_left() == 8


async def test_a_refused_token_is_replaced_once_however_many_ask() -> None:
    clock = Clock()
    first = await clock.tokens.current()
    second = await clock.tokens.replaced(first)
    assert await clock.tokens.replaced(first) == second
    assert clock.asked == 2


async def test_a_provider_may_answer_at_once_and_without_a_date() -> None:
    tokens = Tokens(lambda: "opaque", lambda: 0)
    assert await tokens.current() == "opaque"
    assert tokens.seconds_left() == float("inf")

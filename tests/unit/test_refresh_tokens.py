# SPDX-License-Identifier: Apache-2.0
"""Refresh tokens: made here, unguessable, and what is kept of them opens nothing by itself."""

import os

import pytest

from tests.unit.small_deployment import CHAT
from tidings.actions.identity.refresh_tokens import (
    REFRESH_TOKEN,
    LoginDigests,
    new_refresh_token,
    open_next,
    refresh_digest,
    seal_next,
    session_of,
)
from tidings.assembly.system import SystemChance

SESSION = CHAT
CHANCE = SystemChance()
DIGESTS = LoginDigests(os.urandom(32))


def a_token(session: str = SESSION) -> str:
    return new_refresh_token(session, DIGESTS, CHANCE)


def test_a_token_names_its_session_and_is_like_no_other() -> None:
    tokens = {a_token() for _ in range(100)}
    assert len(tokens) == len({refresh_digest(token) for token in tokens}) == 100
    for token in tokens:
        assert REFRESH_TOKEN.fullmatch(token)
        assert session_of(token, DIGESTS) == SESSION


@pytest.mark.attack("A15")
def test_a_token_that_was_not_made_here_is_none() -> None:
    token = a_token()
    other = "01J00000000000000000000000"
    for made_up in (
        "",
        token + "A",
        token[:-1],
        token.upper(),
        token.replace(SESSION, other),
        f"rt_{SESSION}_{'A' * 43}",
    ):
        assert session_of(made_up, DIGESTS) is None
    assert session_of(token, LoginDigests(os.urandom(32))) is None, "another deployment"


def test_a_sealed_token_opens_for_the_one_before_it_only() -> None:
    before, after = a_token(), a_token()
    sealed = seal_next(before, after, CHANCE)
    assert open_next(before, sealed) == after
    assert open_next(after, sealed) is None
    assert open_next(a_token(), sealed) is None
    assert after.encode() not in sealed


def test_a_sealed_token_that_was_changed_does_not_open() -> None:
    before, after = a_token(), a_token()
    sealed = seal_next(before, after, CHANCE)
    for place in range(len(sealed)):
        changed = sealed[:place] + bytes([sealed[place] ^ 1]) + sealed[place + 1 :]
        assert open_next(before, changed) is None
    assert open_next(before, b"") is None
    assert open_next(before, sealed[:12]) is None


def test_sealing_twice_for_one_token_gives_two_boxes() -> None:
    before, after = a_token(), a_token()
    assert seal_next(before, after, CHANCE) != seal_next(before, after, CHANCE)

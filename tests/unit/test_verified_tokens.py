# SPDX-License-Identifier: Apache-2.0
"""Tokens that were found good: how many are remembered, and what is forgotten with what."""

import pytest

from tests.support.users import ANN, BOB
from tidings.actions.identity import authenticate
from tidings.actions.identity.authenticate import USER_TOKENS_MAX, VerifiedTokens
from tidings.actions.identity.caller import UserCaller
from tidings.model.ids import UserKey
from tidings.ports.sessions import Revocation


def of(user: UserKey, session: str | None = None) -> UserCaller:
    return UserCaller(user, None, 2**60, session=session, issued_at=1, key_id="k")


def digest(number: int) -> bytes:
    return number.to_bytes(4, "big")


def test_of_one_user_only_the_newest_tokens_are_remembered() -> None:
    tokens = VerifiedTokens()
    tokens.keep(digest(0), of(BOB))
    for number in range(1, 10 * USER_TOKENS_MAX + 1):
        tokens.keep(digest(number), of(ANN))
    assert len(tokens) == USER_TOKENS_MAX + 1
    assert tokens.get(digest(0)) is not None, "nobody else's had to go"
    assert tokens.get(digest(10 * USER_TOKENS_MAX)) is not None
    assert tokens.get(digest(9 * USER_TOKENS_MAX)) is None


def test_all_tokens_of_a_user_or_session_go_and_no_others() -> None:
    tokens = VerifiedTokens()
    for number, caller in enumerate((of(ANN), of(ANN, "s1"), of(ANN, "s2"), of(BOB))):
        tokens.keep(digest(number), caller)
    tokens.revoked([Revocation(kind="session", subject="s1", at=5)])
    assert [tokens.get(digest(number)) is not None for number in range(4)] == [1, 0, 1, 1]
    tokens.revoked([Revocation(kind="user", subject=ANN, at=5)])
    assert [tokens.get(digest(number)) is not None for number in range(4)] == [0, 0, 0, 1]
    assert set(tokens._of) == {BOB}, "nothing is left of who is forgotten"


def test_a_bounded_number_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authenticate, "VERIFIED_TOKENS_MAX", 3)
    tokens = VerifiedTokens()
    for number in range(5):
        tokens.keep(digest(number), of(UserKey(f"acme:{number}")))
    tokens.keep(digest(2), of(UserKey("acme:2")))
    assert [tokens.get(digest(number)) is not None for number in range(5)] == [0, 0, 1, 1, 1]

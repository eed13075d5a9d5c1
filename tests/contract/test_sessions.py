# SPDX-License-Identifier: Apache-2.0
"""Sessions: opened, rotated, listed, ended; and what is known of a user's credentials."""

import msgspec

from tests.contract.engines import Engine, Store
from tests.contract.identity_builders import a_session, at_once, make_user
from tests.support.clock import NOW
from tests.support.users import ANN, BOB
from tests.support.waiting import until
from tidings.model.ids import UserKey, ulid
from tidings.model.limits import SESSION_MS
from tidings.ports.sessions import Revocation, Session, StoredCredentials

NOWHERE = ulid(NOW, bytes(10))


def rotated(before: Session, number: int = 1) -> Session:
    """The session with its next refresh token."""
    return msgspec.structs.replace(
        before,
        refresh_digest=b"after%d" % number,
        previous_digest=before.refresh_digest,
        sealed_refresh=b"sealed%d" % number,
        rotated_at=NOW + 10,
        expires_at=NOW + 10 + SESSION_MS,
    )


async def wait_until_listed(store: Store, user: UserKey, expected: list[Session]) -> None:
    """A list may lag behind."""
    await until(lambda: store.sessions.of(user), equals=expected)


# Kept and found.


async def test_a_session_is_found_by_its_id(store: Store) -> None:
    opened = a_session()
    await store.sessions.open(opened)
    assert await store.sessions.get(opened.session_id) == opened
    assert await store.sessions.get(NOWHERE) is None


async def test_sessions_outlive_a_restart(engine: Engine) -> None:
    opened = a_session()
    after = rotated(opened)
    async with engine.open() as store:
        await store.sessions.open(opened)
        assert await store.sessions.rotate(opened, after)
    async with engine.open() as store:
        assert await store.sessions.get(opened.session_id) == after


async def test_a_user_has_sessions_newest_first(store: Store) -> None:
    mine = [a_session(created_at=NOW + age, device=f"d{age}") for age in (2, 1, 3)]
    for session in (*mine, a_session(BOB)):
        await store.sessions.open(session)
    await wait_until_listed(store, ANN, [mine[2], mine[0], mine[1]])
    assert await store.sessions.of(UserKey("acme:nobody")) == []


async def test_a_list_shows_sessions_as_they_are_now(store: Store) -> None:
    opened = a_session()
    await store.sessions.open(opened)
    await store.sessions.rotate(opened, rotated(opened))
    await wait_until_listed(store, ANN, [rotated(opened)])


# Rotated.


async def test_a_rotation_replaces_the_token(store: Store) -> None:
    opened = a_session()
    await store.sessions.open(opened)
    first = rotated(opened)
    second = rotated(first, 2)

    assert await store.sessions.rotate(opened, first)
    assert await store.sessions.get(opened.session_id) == first
    assert await store.sessions.rotate(first, second)
    assert await store.sessions.get(opened.session_id) == second


async def test_only_the_token_that_counts_now_is_rotated(store: Store) -> None:
    opened = a_session()
    await store.sessions.open(opened)
    first = rotated(opened)
    assert await store.sessions.rotate(opened, first)

    assert not await store.sessions.rotate(opened, rotated(opened, 2))
    assert await store.sessions.get(opened.session_id) == first


async def test_what_is_not_there_is_not_rotated(store: Store) -> None:
    never_opened = a_session()
    assert not await store.sessions.rotate(never_opened, rotated(never_opened))
    assert await store.sessions.get(never_opened.session_id) is None


async def test_a_revoked_session_is_not_rotated(store: Store) -> None:
    opened = a_session()
    await store.sessions.open(opened)
    assert await store.sessions.revoke(ANN, opened.session_id, NOW + 5)

    assert not await store.sessions.rotate(opened, rotated(opened))
    found = await store.sessions.get(opened.session_id)
    assert found in (None, msgspec.structs.replace(opened, revoked_at=NOW + 5))


async def test_of_many_rotations_at_once_one_counts(store: Store) -> None:
    opened = a_session()
    await store.sessions.open(opened)
    wished = [rotated(opened, number) for number in range(20)]

    done = await at_once([store.sessions.rotate(opened, after) for after in wished])

    assert done.count(True) == 1
    assert await store.sessions.get(opened.session_id) == wished[done.index(True)]


# Ended.


async def test_a_revoked_session_is_in_the_feed_once(store: Store) -> None:
    opened, other = a_session(), a_session()
    for session in (opened, other):
        await store.sessions.open(session)

    assert await store.sessions.revoke(ANN, opened.session_id, NOW + 5)
    assert not await store.sessions.revoke(ANN, opened.session_id, NOW + 6)

    expected = Revocation(kind="session", subject=opened.session_id, at=NOW + 5)
    assert await store.revocations.after(0) == [expected]
    await wait_until_listed(store, ANN, [other])


async def test_a_session_is_ended_by_its_own_user_only(store: Store) -> None:
    opened = a_session()
    await store.sessions.open(opened)

    assert not await store.sessions.revoke(BOB, opened.session_id, NOW + 5)
    assert not await store.sessions.revoke(ANN, NOWHERE, NOW + 5)

    assert await store.sessions.get(opened.session_id) == opened
    assert await store.revocations.head() == 0


async def test_of_many_who_end_a_session_one_did(store: Store) -> None:
    opened = a_session()
    await store.sessions.open(opened)
    calls = [store.sessions.revoke(ANN, opened.session_id, NOW + age) for age in range(10)]
    assert (await at_once(calls)).count(True) == 1
    assert await store.revocations.head() == 1


async def test_a_session_ended_while_it_is_rotated_stays_ended(store: Store) -> None:
    """Whichever came first."""
    opened = [a_session() for _ in range(10)]
    for session in opened:
        await store.sessions.open(session)
        rotations = [store.sessions.rotate(session, rotated(session))]
        ends = [store.sessions.revoke(ANN, session.session_id, NOW + 5)]
        assert True in await at_once([*rotations, *ends])
        await store.sessions.revoke(ANN, session.session_id, NOW + 6)
        stored_credentials = await store.sessions.stored_credentials(ANN, session.session_id)
        assert (
            stored_credentials.session is None or stored_credentials.session.revoked_at is not None
        )


# How a user stands.


async def test_nothing_is_known_of_who_is_not_there(store: Store) -> None:
    assert await store.sessions.stored_credentials(ANN, None) == StoredCredentials(is_known=False)
    assert await store.sessions.stored_credentials(ANN, NOWHERE) == StoredCredentials(
        is_known=False
    )


async def test_a_user_stands_with_the_session_that_is_named(store: Store) -> None:
    await make_user(store)
    opened = a_session()
    await store.sessions.open(opened)

    known = StoredCredentials(is_known=True)
    assert await store.sessions.stored_credentials(ANN, None) == known
    assert await store.sessions.stored_credentials(ANN, NOWHERE) == known
    expected = StoredCredentials(is_known=True, session=opened)
    assert await store.sessions.stored_credentials(ANN, opened.session_id) == expected


async def test_a_session_is_shown_whosever_it_is(store: Store) -> None:
    """Whoever asks compares."""
    await make_user(store)
    of_bob = a_session(BOB)
    await store.sessions.open(of_bob)
    expected = StoredCredentials(is_known=True, session=of_bob)
    assert await store.sessions.stored_credentials(ANN, of_bob.session_id) == expected


async def test_a_standing_tells_at_once_what_was_taken_away(store: Store) -> None:
    await make_user(store)
    await store.users.set_active(ANN, False, NOW + 3)
    await store.users.revoke_tokens(ANN, NOW + 4_000)
    expected = StoredCredentials(is_known=True, deactivated_at=NOW + 3, revoked_at=NOW + 4_000)
    assert await store.sessions.stored_credentials(ANN, None) == expected

# SPDX-License-Identifier: Apache-2.0
"""Identity on the embedded store: older files, a crash in the middle, and what is swept."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import apsw
import pytest

from tests.contract.engines import SqliteEngine, Store
from tests.contract.identity_builders import (
    OTHER_PHONE,
    PHONE,
    a_code,
    a_session,
    an_allowance,
    make_tenant,
    make_user,
)
from tests.contract.test_people import a_signing_key, a_tenant
from tests.support.clock import NOW
from tests.support.failpoints import DiesAt
from tests.support.users import ANN, BOB, CAT, DAN
from tidings.model.limits import DAY_MS, SESSION_MS
from tidings.model.refusals import StoreUnavailable
from tidings.ports.people import User
from tidings.stores.sqlite.engine.connections import DATABASE
from tidings.stores.sqlite.engine.schema import MIGRATIONS, VERSION
from tidings.stores.sqlite.identity.users import BY_PHONE

BEFORE_IDENTITY = 4


@pytest.fixture
def engine(tmp_path: Path) -> SqliteEngine:
    return SqliteEngine(tmp_path / "data")


@pytest.fixture
async def store(engine: SqliteEngine) -> AsyncIterator[Store]:
    async with engine.open() as opened:
        yield opened


# Files from before.


def old_file(folder: Path) -> apsw.Connection:
    """A store as it was before anybody could log in."""
    folder.mkdir()
    old = apsw.Connection(str(folder / DATABASE))
    for step in MIGRATIONS[:BEFORE_IDENTITY]:
        old.execute(step)
    old.pragma("user_version", BEFORE_IDENTITY)
    return old


async def test_an_older_file_is_read_as_it_was(engine: SqliteEngine) -> None:
    old = old_file(engine.folder)
    old.execute("INSERT INTO tenants VALUES ('acme', 'Acme', ?)", (NOW,))
    old.execute("INSERT INTO users VALUES (?, 'Ann', ?, ?, ?, NULL)", (ANN, PHONE, NOW, NOW))
    old.close()

    async with engine.open() as store:
        assert await store.tenants.get("acme") == a_tenant()
        ann = User(user=ANN, display_name="Ann", phone_number=PHONE, created_at=NOW, updated_at=NOW)
        assert await store.users.get(ANN) == ann
        assert await store.users.with_phone(BOB, PHONE, NOW) == (ann, False)
        assert await store.users.about_how_many("acme") == 1
    db = apsw.Connection(str(engine.folder / DATABASE))
    assert db.pragma("user_version") == VERSION
    db.close()


async def test_of_users_with_the_same_number_in_an_older_file_the_first_keeps_it(
    engine: SqliteEngine,
) -> None:
    old = old_file(engine.folder)
    held = [(CAT, PHONE), (BOB, PHONE), (ANN, OTHER_PHONE), (DAN, None), ("other:ann", PHONE)]
    old.executemany("INSERT INTO users VALUES (?, NULL, ?, 1, 1, NULL)", held)
    old.close()

    async with engine.open() as store:
        numbers = [PHONE, OTHER_PHONE]
        assert dict(await store.users.by_phone("acme", numbers)) == {PHONE: BOB, OTHER_PHONE: ANN}
        assert dict(await store.users.by_phone("other", numbers)) == {PHONE: "other:ann"}
        cat = await store.users.get(CAT)
        assert cat is not None and cat.phone_number is None


async def test_numbers_are_looked_up_by_the_index(engine: SqliteEngine) -> None:
    async with engine.open():
        db = apsw.Connection(str(engine.folder / DATABASE))
        rows = db.execute(f"EXPLAIN QUERY PLAN {BY_PHONE}", ("acme", f'["{PHONE}"]'))
        plan = " ".join(str(row[3]) for row in rows)
        db.close()
    assert "users_by_phone" in plan
    assert "SCAN users" not in plan


# A crash in the middle.


@pytest.mark.parametrize("what", ["user", "tokens", "tenant", "session", "signing_key"])
async def test_what_is_revoked_and_its_entry_are_kept_together(
    engine: SqliteEngine, what: str
) -> None:
    session = a_session()
    async with engine.open() as store:
        await make_tenant(store)
        await store.tenants.add_signing_key(a_signing_key("z2", NOW + 1), 2)
        await make_user(store)
        await store.sessions.open(session)
        before = await _state(store, session.session_id)
    async with engine.open(DiesAt("before_commit")) as store:
        revoke: dict[str, Callable[[], Awaitable[object]]] = {
            "user": lambda: store.users.set_active(ANN, False, NOW),
            "tokens": lambda: store.users.revoke_tokens(ANN, NOW),
            "tenant": lambda: store.tenants.set_suspended("acme", True, NOW),
            "session": lambda: store.sessions.revoke(ANN, session.session_id, NOW),
            "signing_key": lambda: store.tenants.remove_signing_key("acme", "s1", NOW),
        }
        with pytest.raises(StoreUnavailable):
            await revoke[what]()
    async with engine.open() as store:
        assert await _state(store, session.session_id) == before


async def _state(store: Store, session_id: str) -> list[object]:
    return [
        await store.tenants.get("acme"),
        await store.tenants.signing_keys("acme"),
        await store.sessions.stored_credentials(ANN, session_id),
        await store.revocations.after(0),
    ]


# Swept.


async def swept(store: Store, now: int) -> int:
    """How much went, in steps that are small."""
    steps = [await store.sweeping.forget_keys(now, 3) for _ in range(20)]
    assert max(steps) <= 3
    return sum(steps)


async def test_codes_go_when_they_expire(store: Store) -> None:
    late = a_code(OTHER_PHONE, expires_at=NOW + 11)
    await store.login_codes.put(a_code(expires_at=NOW + 10))
    await store.login_codes.put(late)

    assert await swept(store, NOW + 9) == 0
    assert await swept(store, NOW + 10) == 1

    assert await store.login_codes.attempt("acme", PHONE, NOW) is None
    assert await store.login_codes.attempt("acme", OTHER_PHONE, NOW) == late


async def test_counts_go_when_their_stretch_is_over(store: Store) -> None:
    for number in range(7):
        await store.budgets.add(an_allowance(f"a{number}"), 2)

    assert await swept(store, NOW + DAY_MS - 1) == 0
    assert await swept(store, NOW + DAY_MS) == 7

    assert await store.budgets.add(an_allowance("a3"), 0) == 0


async def test_sessions_go_a_day_after_they_ended(store: Store) -> None:
    lasting, revoked, over = a_session(), a_session(), a_session(expires_at=NOW + 20)
    for session in (lasting, revoked, over):
        await store.sessions.open(session)
    await store.sessions.revoke(ANN, revoked.session_id, NOW + 10)

    assert await swept(store, NOW + DAY_MS + 9) == 0
    assert await swept(store, NOW + DAY_MS + 10) == 1
    assert await store.sessions.get(revoked.session_id) is None
    assert await swept(store, NOW + DAY_MS + 20) == 1
    assert await store.sessions.get(over.session_id) is None
    assert await store.sessions.of(ANN) == [lasting]
    assert await swept(store, NOW + DAY_MS + SESSION_MS) == 1

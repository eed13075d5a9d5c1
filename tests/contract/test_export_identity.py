# SPDX-License-Identifier: Apache-2.0
"""Moving people between engines: who was logged in stays so, and what was revoked stays revoked."""

from collections.abc import Iterator
from typing import Final

import pytest

from tests.contract.engines import Store
from tests.contract.filled_places import FilledPlace, export_of_filled, filled_place
from tests.contract.identity_builders import (
    OTHER_PHONE,
    PHONE,
    a_session,
    an_allowance,
    an_issuer,
)
from tests.contract.moving_ground import (
    LATER,
    DiesWriting,
    Killed,
    Place,
    export_from,
    export_of,
    import_into,
    lines_of,
)
from tests.contract.moving_identity import (
    BY_LOGIN,
    LET_GO,
    LOGIN_PHONE,
    OTHER_ANN,
    OVER,
    REVOKED,
    ROTATED,
    fill_identity,
    identity_answers,
)
from tests.contract.moving_places import Places
from tests.support.clock import NOW
from tests.support.engine import ENGINES
from tests.support.users import ANN, BOB, CAT
from tidings.actions.export import importing
from tidings.actions.export.importing import check, import_all
from tidings.model.ids import UserKey, user_key
from tidings.model.refusals import PhoneTaken
from tidings.model.setup_error import SetupError
from tidings.ports.export_facts import RevocationFact, TenantFact, UserFact

COUNTS: Final = {
    "tenant": 2,
    "signing_key": 3,
    "token_issuer": 2,
    "tenant_job": 3,
    "revocation": 9,
    "user": 6,
    "session": 4,
}
NEW_USER: Final = user_key("acme", "new")


Filled = FilledPlace[None]


@pytest.fixture(scope="module", params=ENGINES)
def filled(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Filled]:
    yield from filled_place(request, tmp_path_factory, fill_identity)


def a_user(user: UserKey, phone_number: str | None = None) -> UserFact:
    return UserFact(user_id=user, phone_number=phone_number, created_at=NOW, updated_at=NOW)


@pytest.mark.usefixtures("dynamodb_endpoint")
async def test_there_and_back_is_the_same_to_the_byte(filled: Filled, places: Places) -> None:
    counts = check(lines_of(filled.export)).counts
    assert {kind: count for kind, count in counts.items() if kind != "secret"} == COUNTS
    there = await export_from(filled.arrived)
    assert there == filled.export
    async with places.new("sqlite") as home:
        await import_into(home, there)
        assert await export_from(home) == there


@pytest.mark.usefixtures("dynamodb_endpoint")
async def test_what_is_asked_afterwards_is_answered_as_before(filled: Filled) -> None:
    async with filled.place.open() as before, filled.arrived.open() as after:
        assert await identity_answers(after) == await identity_answers(before)


@pytest.mark.usefixtures("dynamodb_endpoint")
async def test_what_has_ended_stays_behind(filled: Filled) -> None:
    async with filled.arrived.open() as store:
        for session in (REVOKED, OVER):
            assert await store.sessions.get(session.session_id) is None
        assert await store.login_codes.attempt("acme", PHONE, NOW) is None
        assert await store.budgets.add(an_allowance(), 0) == 0


@pytest.mark.usefixtures("dynamodb_endpoint")
async def test_sessions_go_on_and_numbers_are_claimed_after_a_move(
    filled: Filled, places: Places
) -> None:
    async with filled.moved(places) as moved, moved.open() as store:
        assert await store.sessions.rotate(ROTATED, ROTATED)
        assert await store.sessions.revoke(ANN, ROTATED.session_id, LATER)
        assert await store.revocations.head() == COUNTS["revocation"] + 1
        for user, number in ((ANN, PHONE), (CAT, OTHER_PHONE), (BY_LOGIN, LOGIN_PHONE)):
            found, is_new = await store.users.with_phone(NEW_USER, number, LATER)
            assert (found.user, is_new) == (user, False)
            with pytest.raises(PhoneTaken):
                await _give(store, BOB, number)
        await _give(store, BOB, LET_GO)
        await _give(store, OTHER_ANN, OTHER_PHONE)
        found, is_new = await store.users.with_phone(user_key("acme-2", "new"), PHONE, LATER)
        assert is_new


async def _give(store: Store, user: UserKey, number: str) -> None:
    await store.users.put(user, display_name=None, phone_number=number, now=LATER)


# Older files.


async def test_an_export_from_before_sessions_is_still_imported(place: Place) -> None:
    facts = (
        TenantFact(tenant="acme", name="Acme", created_at=NOW),
        RevocationFact(place=1, kind="tenant_key", subject="k", at=NOW),
        a_user(ANN, PHONE),
    )
    export = export_of(*facts, version=2)
    for name in (b"suspended_at", b"quota", b"deactivated_at", b"revoked_at"):
        assert name not in export
    await import_into(place, export)
    assert await export_from(place) == export_of(*facts)
    async with place.open() as store:
        assert (await store.users.by_phone("acme", [PHONE]))[PHONE] == ANN


async def test_of_users_with_the_same_number_the_first_keeps_it(place: Place) -> None:
    """In files from before numbers were claimed. The others must not get it with the next move."""
    export = export_of(
        a_user(ANN, PHONE), a_user(BOB, PHONE), a_user(CAT, OTHER_PHONE), a_user(OTHER_ANN, PHONE),
        version=2,
    )  # fmt: skip
    await import_into(place, export)
    async with place.open() as store:
        numbers = [PHONE, OTHER_PHONE]
        held = dict(await store.users.by_phone("acme", numbers))
        assert held == {PHONE: ANN, OTHER_PHONE: CAT}
        assert dict(await store.users.by_phone("acme-2", numbers)) == {PHONE: OTHER_ANN}
        bob = await store.users.get(BOB)
        assert bob is not None and bob.phone_number is None
        assert await store.users.about_how_many("acme") == 3


# Stopped, refused.


@pytest.fixture(scope="module")
def export(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return export_of_filled(tmp_path_factory.mktemp("export") / "data", fill_identity)


@pytest.mark.parametrize("write", range(1, 5))
async def test_a_kill_at_any_point_loses_and_doubles_nothing(
    place: Place, places: Places, export: bytes, write: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "STEP_FACTS", 6)
    async with place.target() as target:
        with pytest.raises(Killed):
            await import_all(DiesWriting(target, write), lines_of(export), lambda _: None)
    async with places.new("sqlite") as straight:
        for one in (place, straight):
            await import_into(one, export)
        assert await export_from(place) == export
        async with place.open() as store, straight.open() as other:
            assert await identity_answers(store) == await identity_answers(other)


@pytest.mark.parametrize("kind", ["session", "issuer"])
async def test_a_store_with_only_a_login_is_not_empty(place: Place, kind: str) -> None:
    async with place.open() as store:
        if kind == "session":
            await store.sessions.open(a_session())
        else:
            await store.tenants.put_issuer(an_issuer(), None, [])
    with pytest.raises(SetupError, match="not empty"):
        await import_into(place, export_of())

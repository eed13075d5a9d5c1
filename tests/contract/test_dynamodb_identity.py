# SPDX-License-Identifier: Apache-2.0
"""Identity on DynamoDB: lost answers, transactions that meet, and what stands where."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec
import pytest

from tests.contract.identity_builders import (
    OTHER_PHONE,
    PHONE,
    a_code,
    a_session,
    an_allowance,
    an_issuer,
    at_once,
)
from tests.contract.lossy_tables import Place, a_place
from tests.contract.test_people import a_signing_key, a_tenant
from tests.contract.test_tenant_jobs import a_job
from tests.support.clock import NOW
from tests.support.users import ANN, BOB, some_users
from tidings.model.limits import DAY_MS, SESSION_MS
from tidings.model.refusals import PhoneTaken, StoreUnavailable
from tidings.ports.people import Quotas
from tidings.ports.sessions import Session
from tidings.stores.dynamodb.client.access import Pattern
from tidings.stores.dynamodb.client.dynamo import Dynamo
from tidings.stores.dynamodb.client.retrying import RACE_ATTEMPTS_MAX, Item
from tidings.stores.dynamodb.identity.identity_patterns import LIST_SESSIONS, READ_SESSION
from tidings.stores.dynamodb.identity.logins import DynamoBudgets, DynamoLoginCodes
from tidings.stores.dynamodb.identity.sessions import (
    REVOKED_KEPT_MS,
    DynamoRevocations,
    DynamoSessions,
)
from tidings.stores.dynamodb.identity.tenant_jobs import DynamoTenantJobs
from tidings.stores.dynamodb.identity.tenants import DynamoTenants
from tidings.stores.dynamodb.identity.users import DynamoUsers
from tidings.stores.dynamodb.patterns import FIND_USER, LIST_SIGNING_KEYS
from tidings.stores.dynamodb.tables import ttl_seconds


class People:
    """The ports of identity as one process has them."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.revocations = DynamoRevocations(place.dynamo)
        self.tenants = DynamoTenants(place.dynamo, self.revocations)
        self.users = DynamoUsers(place.dynamo, self.revocations)
        self.sessions = DynamoSessions(place.dynamo, self.revocations)
        self.codes = DynamoLoginCodes(place.dynamo)
        self.budgets = DynamoBudgets(place.dynamo)
        self.jobs = DynamoTenantJobs(place.dynamo)

    async def item(self, key: str) -> dict[str, Any]:
        """What stands in the table of sessions."""
        return await self.place.dynamo.get(READ_SESSION, {"session_id": key}) or {}


@pytest.fixture
async def people(dynamodb_endpoint: str) -> AsyncIterator[People]:
    async with a_place(dynamodb_endpoint) as place:
        people = People(place)
        await people.tenants.put(a_tenant(), a_signing_key("s1"))
        yield people
        place.transport.loses = False
        await people.users.close()


def rotated(session: Session) -> Session:
    return msgspec.structs.replace(
        session, refresh_digest=b"after", previous_digest=session.refresh_digest
    )


# Lost answers.


async def test_a_lost_answer_makes_no_other_user_and_takes_no_number(people: People) -> None:
    people.place.transport.loses = True
    users = people.users

    made, is_new = await users.with_phone(ANN, PHONE, NOW)
    assert (made.user, is_new) == (ANN, True)
    changed, is_new = await users.put(ANN, display_name="Ann", phone_number=OTHER_PHONE, now=NOW)
    assert (changed.display_name, changed.phone_number, is_new) == ("Ann", OTHER_PHONE, False)
    _, is_new = await users.put(BOB, display_name=None, phone_number=PHONE, now=NOW)
    assert is_new
    with pytest.raises(PhoneTaken):
        await users.put(BOB, display_name=None, phone_number=OTHER_PHONE, now=NOW)
    assert await users.by_phone("acme", [PHONE, OTHER_PHONE]) == {PHONE: BOB, OTHER_PHONE: ANN}
    assert people.place.transport.lost >= 4


async def test_a_lost_answer_ends_nothing_twice(people: People) -> None:
    people.place.transport.loses = True
    opened = a_session()
    await people.users.put(ANN, display_name=None, phone_number=None, now=NOW)

    await people.sessions.open(opened)
    assert await people.sessions.rotate(opened, rotated(opened))
    assert await people.sessions.get(opened.session_id) == rotated(opened)
    assert await people.sessions.revoke(ANN, opened.session_id, NOW + 1)
    assert await people.users.revoke_tokens(ANN, NOW + 2)
    assert await people.users.set_active(ANN, False, NOW + 3)
    assert await people.tenants.set_suspended("acme", True, NOW + 4)
    assert [one.kind for one in await people.revocations.after(0)] == [
        "session", "user", "user", "tenant",
    ]  # fmt: skip


async def test_a_lost_answer_ends_nothing_twice_with_a_number(people: People) -> None:
    people.place.transport.loses = True
    await people.users.put(ANN, display_name=None, phone_number=PHONE, now=NOW)
    await people.users.put(ANN, display_name=None, phone_number=OTHER_PHONE, now=NOW + 1)
    released = await people.users.release_phone(ANN, NOW + 5_000)
    assert released is not None and released.phone_number is None
    assert await people.users.by_phone("acme", [PHONE, OTHER_PHONE]) == {}
    assert [one.at for one in await people.revocations.after(0)] == [NOW + 1, NOW + 5_000]


async def test_a_lost_answer_uses_a_code_once_and_spends_once(people: People) -> None:
    people.place.transport.loses = True
    allowances = [an_allowance("one"), an_allowance("two", 1)]

    await people.codes.put(a_code())
    assert await people.codes.attempt("acme", PHONE, NOW) == a_code()
    assert await people.codes.use(a_code())
    assert not await people.codes.use(a_code())
    assert await people.budgets.spend(allowances) is None
    assert await people.budgets.spend(allowances) == "two"
    assert (await people.item("b#one"))["spent"] == 1
    await people.budgets.give_back(allowances)
    assert [(await people.item(f"b#{name}"))["spent"] for name in ("one", "two")] == [0, 0]


async def test_a_lost_answer_leaves_no_key_behind(people: People) -> None:
    people.place.transport.loses = True
    newer = msgspec.structs.replace(a_signing_key("s2"), created_at=NOW + 1)

    assert await people.tenants.add_signing_key(newer, 2)
    assert await people.tenants.remove_signing_key("acme", "s1", NOW + 2)
    assert await people.tenants.signing_keys("acme") == [newer]
    await people.tenants.put_issuer(an_issuer(), None, ["acme.own.a", "acme.own.b"])
    assert await people.tenants.remove_issuer(an_issuer(), [], NOW + 3)
    subjects = [one.subject for one in await people.revocations.after(0)]
    assert subjects == ["s1", "acme.own.a", "acme.own.b"]


# Transactions that meet.


def what_takes_transactions(people: People) -> dict[str, Callable[[], Awaitable[object]]]:
    opened = a_session()

    async def end() -> bool:
        await people.sessions.open(opened)
        return await people.sessions.revoke(ANN, opened.session_id, NOW)

    return {
        "claim": lambda: people.users.put(ANN, display_name=None, phone_number=PHONE, now=NOW),
        "log in": lambda: people.users.with_phone(BOB, OTHER_PHONE, NOW),
        "end": end,
        "revoke": lambda: people.users.revoke_tokens(ANN, NOW),
        "create a job": lambda: people.jobs.create(a_job()),
        "spend": lambda: people.budgets.spend([an_allowance("one"), an_allowance("two")]),
        "give back": lambda: people.budgets.give_back([an_allowance("one"), an_allowance("two")]),
    }


async def test_who_meets_another_transaction_tries_again(people: People) -> None:
    for name, act in what_takes_transactions(people).items():
        people.place.transport.conflicts = 3
        await act()
        assert people.place.transport.conflicts == 0, name
    assert await people.users.by_phone("acme", [PHONE, OTHER_PHONE]) == {
        PHONE: ANN,
        OTHER_PHONE: BOB,
    }
    assert [one.kind for one in await people.revocations.after(0)] == ["session", "user"]
    assert (await people.item("b#one"))["spent"] == 0
    assert await people.jobs.get("acme", "one") == a_job()


async def test_who_meets_the_creation_of_the_same_job_gets_that_job(people: People) -> None:
    created = await people.jobs.create(a_job())
    people.place.transport.conflicts = 1
    assert await people.jobs.create(a_job(created_at=NOW + 1)) == created
    assert people.place.transport.conflicts == 0


async def test_who_leaves_a_number_and_meets_another_transaction_tries_again(
    people: People,
) -> None:
    await people.users.put(ANN, display_name=None, phone_number=PHONE, now=NOW)
    people.place.transport.conflicts = 3
    await people.users.put(ANN, display_name=None, phone_number=OTHER_PHONE, now=NOW)
    assert people.place.transport.conflicts == 0
    people.place.transport.conflicts = 3
    await people.users.release_phone(ANN, NOW)
    assert people.place.transport.conflicts == 0
    assert await people.revocations.head() == 2


async def test_who_only_ever_meets_others_is_told_so(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(people.place.dynamo.retrying, "pause_before", lambda _: 0.0)
    await people.users.put(ANN, display_name=None, phone_number=None, now=NOW)
    for name, act in what_takes_transactions(people).items():
        people.place.transport.conflicts = RACE_ATTEMPTS_MAX + 1
        with pytest.raises(StoreUnavailable):
            await act()
        assert people.place.transport.conflicts == 1, name
    people.place.transport.conflicts = 0
    assert await people.users.by_phone("acme", [PHONE, OTHER_PHONE]) == {}
    assert await people.revocations.head() == 0


@pytest.fixture
def no_pauses(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who loses a race tries again at once."""
    monkeypatch.setattr(people.place.dynamo.retrying, "pause_before", lambda _: 0.0)


@pytest.mark.usefixtures("no_pauses")
async def test_many_who_end_something_at_once_all_get_a_place(people: People) -> None:
    """More than there are attempts, and without pauses: of one process they take turns."""
    users = some_users(3 * RACE_ATTEMPTS_MAX)
    for user in users:
        await people.users.put(user, display_name=None, phone_number=None, now=NOW)
    assert all(await at_once([people.users.revoke_tokens(user, NOW) for user in users]))
    assert {one.subject for one in await people.revocations.after(0)} == set(users)


@pytest.mark.usefixtures("no_pauses")
async def test_many_who_change_one_number_at_once_all_change_it(people: People) -> None:
    """More than there are attempts, and without pauses: of one process they take turns."""
    numbers = [f"+4917{index:08}" for index in range(3 * RACE_ATTEMPTS_MAX)]
    await people.users.put(ANN, display_name=None, phone_number=PHONE, now=NOW)
    changes = (
        people.users.put(ANN, display_name=None, phone_number=number, now=NOW) for number in numbers
    )
    changed = await at_once(list(changes))
    assert [user.phone_number for user, _ in changed] == numbers
    assert await people.users.by_phone("acme", [PHONE, *numbers]) == {numbers[-1]: ANN}


async def test_processes_that_claim_at_once_make_one_user(people: People) -> None:
    others = [people, *(People(people.place) for _ in range(3))]
    users = some_users(len(others))
    asked = zip(others, users, strict=True)
    found = await at_once([one.users.with_phone(user, PHONE, NOW) for one, user in asked])
    assert len({user.user for user, _ in found}) == 1
    await asyncio.gather(*(one.users.close() for one in others[1:]))


def overtake(
    dynamo: Dynamo, monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], Awaitable[object]]
) -> None:
    """Let something happen right after the next item was read."""
    get = dynamo.get

    async def get_and_be_overtaken(pattern: Pattern, key: Item) -> Item | None:
        found = await get(pattern, key)
        monkeypatch.undo()
        await meanwhile()
        return found

    monkeypatch.setattr(dynamo, "get", get_and_be_overtaken)


async def test_a_number_that_changes_meanwhile_stays_changed(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    users, dynamo = people.users, people.place.dynamo
    other = People(people.place).users  # another process, because those of one take turns
    await users.put(ANN, display_name=None, phone_number=PHONE, now=NOW)
    overtake(
        dynamo,
        monkeypatch,
        lambda: other.put(ANN, display_name=None, phone_number=OTHER_PHONE, now=NOW + 1),
    )
    named, _ = await users.put(ANN, display_name="Ann", phone_number=PHONE, now=NOW + 2)

    assert (named.display_name, named.phone_number) == ("Ann", OTHER_PHONE)
    assert await users.by_phone("acme", [PHONE, OTHER_PHONE]) == {OTHER_PHONE: ANN}


@pytest.mark.attack("A11")
@pytest.mark.parametrize("end", ["move", "release", "deactivate", "revoke"])
async def test_what_is_revoked_meanwhile_stays_revoked(
    people: People, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    users, dynamo = people.users, people.place.dynamo
    await users.put(ANN, display_name=None, phone_number=PHONE, now=NOW)
    overtake(dynamo, monkeypatch, lambda: users.revoke_tokens(ANN, NOW + 5_000))
    if end == "move":
        await users.put(ANN, display_name=None, phone_number=OTHER_PHONE, now=NOW)
    elif end == "release":
        await users.release_phone(ANN, NOW)
    elif end == "deactivate":
        await users.set_active(ANN, False, NOW)
    else:
        await users.revoke_tokens(ANN, NOW)

    ann, feed = await users.get(ANN), await people.revocations.after(0)
    assert ann is not None and ann.revoked_at == feed[-1].at >= NOW + 5_000
    assert len(feed) == (1 if end == "revoke" else 2), "it was covered already"
    assert (ann.deactivated_at is not None) == (end == "deactivate")
    assert ann.phone_number == {"move": OTHER_PHONE, "release": None}.get(end, PHONE)


# What stands where.


async def test_codes_and_budgets_are_no_sessions(people: People) -> None:
    opened = a_session()
    await people.sessions.open(opened)
    await people.codes.put(a_code())
    await people.budgets.spend([an_allowance("one")])

    for key in (f"c#acme#{PHONE}", "b#one"):
        assert await people.item(key)
        assert await people.sessions.get(key) is None
        named_so = msgspec.structs.replace(opened, session_id=key)
        assert not await people.sessions.rotate(named_so, rotated(named_so))
        assert not await people.sessions.revoke(ANN, key, NOW)
    assert await people.sessions.of(ANN) == [opened]


async def test_all_of_it_is_deleted_in_time(people: People) -> None:
    opened = a_session()
    await people.sessions.open(opened)
    await people.codes.put(a_code())
    await people.budgets.spend([an_allowance("one")])
    await people.budgets.add(an_allowance("two"), 5)

    key = opened.session_id
    assert (await people.item(key))["ttl"] == ttl_seconds(NOW + SESSION_MS)
    assert (await people.item(f"c#acme#{PHONE}"))["ttl"] == ttl_seconds(a_code().expires_at)
    assert (await people.item("b#one"))["ttl"] == ttl_seconds(NOW + DAY_MS)
    assert (await people.item("b#two"))["ttl"] == ttl_seconds(NOW + DAY_MS)
    await people.sessions.revoke(ANN, key, NOW + 1)
    assert (await people.item(key))["ttl"] == ttl_seconds(NOW + 1 + REVOKED_KEPT_MS)


async def test_a_claim_is_no_user(people: People) -> None:
    await people.users.put(ANN, display_name=None, phone_number=PHONE, now=NOW)
    claim = await people.place.dynamo.get(FIND_USER, {"user_id": f"p#acme#{PHONE}"})
    assert claim == {"user_id": f"p#acme#{PHONE}", "owner": ANN}


async def test_quotas_that_are_not_set_take_no_space(people: People) -> None:
    await people.tenants.set_quotas("acme", Quotas(users=5))
    (tenant,) = await people.place.dynamo.query(
        LIST_SIGNING_KEYS, "#pk = :pk AND #sk = :sk", {":pk": "t#acme", ":sk": "tenant"}
    )
    assert tenant["quotas"] == {"users": 5}
    found = await people.tenants.set_quotas("acme", Quotas())
    assert found is not None and found.quotas == Quotas()


# What is read, and how.


async def test_a_standing_is_two_strong_reads(people: People) -> None:
    people.place.used.clear()
    await people.sessions.stored_credentials(ANN, "session")
    assert sorted(people.place.patterns()) == ["check_user", "read_session"]
    await people.sessions.stored_credentials(ANN, None)
    assert people.place.patterns() == ["check_user"]


async def test_a_list_asks_the_index_and_nothing_else(people: People) -> None:
    people.place.used.clear()
    await people.sessions.of(ANN)
    assert people.place.patterns() == [LIST_SESSIONS.name]


async def test_who_logs_in_again_is_found_without_a_transaction(people: People) -> None:
    await people.users.with_phone(ANN, PHONE, NOW)
    people.place.used.clear()
    await people.users.with_phone(BOB, PHONE, NOW)
    assert people.place.patterns() == ["find_number", "find_user"]

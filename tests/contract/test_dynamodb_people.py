# SPDX-License-Identifier: Apache-2.0
"""People and secrets on DynamoDB: lost answers, rotations beside a process that knows nothing."""

import asyncio
from collections.abc import AsyncIterator

import msgspec
import pytest

from tests.contract.lossy_tables import Place, a_place
from tests.contract.test_people import a_signing_key, a_tenant, an_api_key
from tests.contract.test_secrets import a_key
from tests.support.clock import NOW, ManualClock
from tests.support.users import ANN, BOB, some_users
from tidings.assembly.system import SystemChance
from tidings.ports.erasing import LedgerEntry
from tidings.ports.people import SigningKey
from tidings.stores.dynamodb.formats import Formats
from tidings.stores.dynamodb.identity.erasing import DynamoLedger, record
from tidings.stores.dynamodb.identity.secrets import (
    DynamoDataKeys,
    DynamoDeployment,
    MasterList,
    ensure_epoch,
)
from tidings.stores.dynamodb.identity.tenants import DynamoTenants
from tidings.stores.dynamodb.identity.users import DynamoUsers


@pytest.fixture
async def place(dynamodb_endpoint: str) -> AsyncIterator[Place]:
    async with a_place(dynamodb_endpoint) as place:
        yield place


async def test_the_ledger_keeps_who_deleted_a_chat(place: Place) -> None:
    erasures = [LedgerEntry("user", ANN, NOW), LedgerEntry("chat", "c1", NOW + 1, by=BOB)]
    for erasure in erasures:
        await record(place.dynamo, erasure)
    assert await DynamoLedger(place.dynamo).unknown() == erasures


# Lost answers.


async def test_a_lost_answer_changes_no_answer(place: Place) -> None:
    place.transport.loses = True
    tenants, users = (
        DynamoTenants(place.dynamo, place.revocations),
        DynamoUsers(place.dynamo, place.revocations),
    )
    keys = DynamoDataKeys(place.dynamo, place.revocations)

    assert await tenants.put(a_tenant(), a_signing_key("s1")) == (a_tenant(), True)
    assert await tenants.put(a_tenant("New"), a_signing_key("s2")) == (a_tenant("New"), False)
    assert await tenants.add_key(an_api_key())
    assert await tenants.revoke_key("acme", "key-1", NOW + 1)
    _, is_new = await users.put(ANN, display_name="Ann", phone_number=None, now=NOW)
    assert is_new
    changed, is_new = await users.put(ANN, display_name="Anna", phone_number=None, now=NOW + 1)
    assert (changed.display_name, is_new) == ("Anna", False)
    assert await keys.add(a_key(ANN)) == a_key(ANN)
    await keys.rewrap([a_key(ANN, b"again", "m2")])
    assert await keys.current(ANN) == a_key(ANN, b"again", "m2")
    assert await keys.end(ANN, NOW) == 1
    await keys.destroy(ANN, 1, NOW)
    assert await keys.current(ANN) is None
    epoch = await ensure_epoch(place.dynamo, SystemChance())
    assert epoch == await ensure_epoch(place.dynamo, SystemChance())
    assert place.transport.lost >= 10


async def test_what_was_not_done_is_not_said_to_be_done(place: Place) -> None:
    tenants, keys = (
        DynamoTenants(place.dynamo, place.revocations),
        DynamoDataKeys(place.dynamo, place.revocations),
    )
    await tenants.put(a_tenant(), a_signing_key("s1"))
    await tenants.add_key(an_api_key())
    await tenants.revoke_key("acme", "key-1", NOW + 1)
    place.transport.loses = True

    assert not await tenants.revoke_key("acme", "key-1", NOW + 2)
    assert not await tenants.revoke_key("acme", "nowhere", NOW + 2)
    assert await keys.end(BOB, NOW) is None
    await keys.destroy(BOB, 1, NOW)
    assert await keys.current(BOB) is None, "nothing was made by destroying"


# Many at once.


async def test_of_many_who_make_a_tenant_or_a_user_one_did(place: Place) -> None:
    tenants, users = (
        DynamoTenants(place.dynamo, place.revocations),
        DynamoUsers(place.dynamo, place.revocations),
    )

    async def make(number: int) -> tuple[bool, bool]:
        _, tenant = await tenants.put(a_tenant(), a_signing_key(f"s{number}"))
        _, user = await users.put(ANN, display_name=f"{number}", phone_number=None, now=NOW)
        return tenant, user

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(make(number)) for number in range(8)]

    assert [sum(made) for made in zip(*(task.result() for task in tasks), strict=True)] == [1, 1]
    assert len(await tenants.signing_keys("acme")) == 1


async def test_of_many_processes_that_open_the_store_one_rolls_the_epoch(place: Place) -> None:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(ensure_epoch(place.dynamo, SystemChance())) for _ in range(5)]
    assert len({task.result()["value"] for task in tasks}) == 1


# What is read, and how.


async def test_a_profile_takes_one_weak_read_and_a_missing_one_is_asked_for_twice(
    place: Place,
) -> None:
    users = DynamoUsers(place.dynamo, place.revocations)
    await users.put(ANN, display_name=None, phone_number=None, now=NOW)
    place.patterns()

    assert await users.get(ANN) is not None
    assert place.patterns() == ["show_user"]
    assert await users.get(BOB) is None
    assert place.patterns() == ["show_user", "find_user"]
    assert list(await users.get_all([ANN])) == [ANN]
    assert place.patterns() == ["show_users"]
    assert list(await users.get_all([ANN, BOB])) == [ANN]
    assert place.patterns() == ["show_users", "find_users"]


async def test_who_is_deleted_or_banned_is_read_strongly(place: Place) -> None:
    users = DynamoUsers(place.dynamo, place.revocations)
    await users.put(ANN, display_name=None, phone_number=None, now=NOW)
    place.patterns()

    assert await users.missing([ANN, ANN]) == []
    assert place.patterns() == ["find_users"]
    assert await users.missing([BOB, ANN, BOB]) == [BOB, BOB]
    assert place.patterns() == ["find_users"]
    banned = await users.ban(ANN, NOW + 1, NOW)
    assert banned is not None and banned.banned_until == NOW + 1
    assert place.patterns() == ["read_revocations", "revoke", "find_user"]


# Rotations.


async def test_looking_at_the_start_takes_no_scan(place: Place) -> None:
    keys = DynamoDataKeys(place.dynamo, place.revocations)
    assert await keys.wrapped_by_others("m1", 1) == []
    await keys.add(a_key(ANN))
    place.patterns()

    assert await keys.wrapped_by_others("m1", 1) == []
    assert place.patterns() == ["list_master_keys"]
    assert await keys.wrapped_by_others("m2", 1) == [a_key(ANN)]
    assert "scan_data_keys" in place.patterns()


async def rotate(keys: DynamoDataKeys, master: str) -> int:
    done = 0
    while found := await keys.wrapped_by_others(master, 3):
        await keys.rewrap([a_key(key.author, b"again", master, key.generation) for key in found])
        done += len(found)
    return done


async def test_a_rotation_meets_every_key_and_then_looks_no_more(place: Place) -> None:
    keys = DynamoDataKeys(place.dynamo, place.revocations)
    authors = some_users(20)
    for author in authors:
        await keys.add(a_key(author))

    assert await rotate(keys, "m2") == 20
    place.patterns()
    assert await rotate(keys, "m2") == 0
    assert place.patterns() == ["list_master_keys"]
    for author in authors:
        assert await keys.current(author) == a_key(author, b"again", "m2")


async def test_keys_that_came_in_behind_a_look_are_met_by_the_next(place: Place) -> None:
    keys, stale = (
        DynamoDataKeys(place.dynamo, place.revocations),
        DynamoDataKeys(place.dynamo, place.revocations),
    )
    authors = some_users(40)
    for author in authors[:20]:
        await stale.add(a_key(author))
    for _ in range(5):  # somewhere in the middle of the table
        found = await keys.wrapped_by_others("m2", 3)
        await keys.rewrap([a_key(key.author, b"again", "m2") for key in found])
    for author in authors[20:]:
        await stale.add(a_key(author))

    await rotate(keys, "m2")

    for author in authors:
        assert await keys.current(author) == a_key(author, b"again", "m2")


async def test_a_process_that_wraps_with_the_old_key_is_noticed(place: Place) -> None:
    keys, stale = (
        DynamoDataKeys(place.dynamo, place.revocations),
        DynamoDataKeys(place.dynamo, place.revocations),
    )
    await stale.add(a_key(ANN))  # it knows that m1 is listed, and will not ask beforehand
    assert await rotate(keys, "m2") == 1

    await stale.add(a_key(BOB))

    assert await keys.wrapped_by_others("m2", 1) == [a_key(BOB)]
    assert await rotate(keys, "m2") == 1


async def test_a_key_wrapped_while_a_rotation_looks_keeps_its_master_key_listed(
    place: Place,
) -> None:
    keys = DynamoDataKeys(place.dynamo, place.revocations)
    masters = MasterList(place.dynamo, SystemChance())
    await masters.after_wrapping("m1")
    mark = await masters.close(["m1"])

    await keys.add(a_key(ANN))  # behind the back of a look that has passed this place

    assert not await masters.strike_off(["m1"], mark)
    assert await masters.others("m2") == ["m1"]


async def test_of_two_rotations_at_once_only_the_last_to_mark_strikes_off(place: Place) -> None:
    masters = MasterList(place.dynamo, SystemChance())
    await masters.after_wrapping("m1")
    first, second = await masters.close(["m1"]), await masters.close(["m1"])

    assert not await masters.strike_off(["m1"], first)
    assert await masters.strike_off(["m1"], second)
    assert await masters.strike_off(["m1"], first), "it is gone: as good"
    assert await masters.others("m2") == []


def under(key: SigningKey, master: str) -> SigningKey:
    return msgspec.structs.replace(key, sealed_private=b"again", master_key_id=master)


async def test_signing_keys_are_taken_over_step_by_step(place: Place) -> None:
    tenants = DynamoTenants(place.dynamo, place.revocations)
    await tenants.put(a_tenant(), a_signing_key("s1"))
    deployment = DynamoDeployment(place.dynamo, "epoch", Formats(place.dynamo, ManualClock(), 0))
    await deployment.keep_first_sealed("pepper", "other", b"sealed")

    found = await tenants.signing_keys_wrapped_by_others("m2", 5)
    assert found == [a_signing_key("s1")], "and nothing else that a master key seals"
    gone = a_signing_key("s9")
    await tenants.rewrap_signing_keys([under(one, "m2") for one in (*found, gone)])

    assert await tenants.signing_keys_wrapped_by_others("m2", 5) == []
    assert await tenants.signing_keys("acme") == [under(a_signing_key("s1"), "m2")]

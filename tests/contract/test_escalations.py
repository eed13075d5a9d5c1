# SPDX-License-Identifier: Apache-2.0
"""Users who get an e-mail about an unread notification, in the store."""

from pathlib import Path

import msgspec
import pytest

from tests.contract.backup_bench import Bench
from tests.contract.engines import Store
from tests.contract.inbox_builders import INBOX, TENANT, a_copy, new_id
from tests.contract.moving_ground import Place
from tests.contract.test_dynamodb_repair import only_tables, repair
from tests.support.clock import NOW
from tidings.model.escalations import Escalation
from tidings.model.ids import UserKey, user_key
from tidings.model.notification_states import StateChange
from tidings.model.notifications import EMAIL_DECIDED, NOTHING_READ
from tidings.ports.due import Due
from tidings.ports.escalations import due_of_escalation, portion_of

ANN, BOB = user_key(TENANT, "ann"), user_key(TENANT, "bob")


def portion(number: int, at: int, name: str) -> Escalation:
    return Escalation(
        tenant=TENANT,
        inbox=INBOX,
        notification_id=name,
        number=number,
        users=("ann", "bob"),
        category="news",
        at=at,
        expires_at=NOW + 10**9,
    )


async def get(store: Store, one: Escalation) -> Escalation | None:
    return await store.escalations.get(TENANT, INBOX, one.notification_id, one.number)


async def due(store: Store, now: int) -> list[Due]:
    shards = await store.due.lease("escalation", "me", now)
    found = [await store.due.read("escalation", shard, now, 100) for shard in shards]
    return [msgspec.structs.replace(one, place="") for some in found for one in some]


async def test_portions_are_stored_with_their_due_items(store: Store) -> None:
    name = new_id()
    portions = [portion(number, NOW + 5 + number, name) for number in range(30)]
    for _ in range(2):
        await store.escalations.put(portions, NOW)
    assert [await get(store, one) for one in portions] == portions
    assert await due(store, NOW + 4) == []
    assert await due(store, NOW + 5) == [due_of_escalation(portions[0], NOW)]
    assert len(await due(store, NOW + 100)) == 30
    assert portion_of(due_of_escalation(portions[7], NOW)) == (name, 7)


async def test_a_portion_is_replaced_and_dropped(store: Store) -> None:
    first = portion(0, NOW, new_id())
    later = msgspec.structs.replace(first, users=("bob",), at=NOW + 9, attempt=1)
    await store.escalations.put([first], NOW)
    await store.escalations.put([later], NOW)
    assert await get(store, first) == later
    await store.escalations.drop(first)  # another process has replaced it
    assert await get(store, first) == later
    for _ in range(2):
        await store.escalations.drop(later)
    assert await get(store, first) is None


async def test_only_a_portion_that_is_as_it_was_is_replaced(store: Store) -> None:
    first = portion(0, NOW, new_id())
    later = msgspec.structs.replace(first, users=("bob",), at=NOW + 9, attempt=1)
    other = msgspec.structs.replace(first, users=("ann",), at=NOW + 8)
    assert not await store.escalations.replace(first, later, NOW)
    assert await get(store, first) is None
    await store.escalations.put([first], NOW)
    assert await store.escalations.replace(first, later, NOW)
    assert not await store.escalations.replace(first, other, NOW)
    assert await get(store, first) == later
    assert due_of_escalation(later, NOW) in await due(store, later.at)


async def copy(store: Store, user: UserKey, name: str) -> None:
    await store.copies.deliver([user], INBOX, a_copy(name))


async def test_only_the_first_claim_holds_until_it_is_released(store: Store) -> None:
    name = new_id()
    await copy(store, ANN, name)
    claims = store.escalations
    assert await claims.claim(ANN, INBOX, name, NOW)
    assert not await claims.claim(ANN, INBOX, name, NOW + 1)
    found = await claims.copies([ANN, BOB], INBOX, name)
    assert {user: one.escalated_at for user, one in found.items()} == {ANN: NOW}
    await claims.release(ANN, INBOX, name, NOW + 1)  # the claim of another
    assert not await claims.claim(ANN, INBOX, name, NOW + 2)
    await claims.release(ANN, INBOX, name, NOW)
    assert await claims.claim(ANN, INBOX, name, NOW + 2)


async def test_a_claim_whose_outcome_is_known_stays(store: Store) -> None:
    name = new_id()
    await copy(store, ANN, name)
    claims = store.escalations
    assert await claims.claim(ANN, INBOX, name, NOW)
    for claimed_at, kept in ((NOW + 1, NOW), (NOW, EMAIL_DECIDED), (NOW, EMAIL_DECIDED)):
        await claims.finish(ANN, INBOX, name, claimed_at)
        found = await claims.copies([ANN], INBOX, name)
        assert found[ANN].escalated_at == kept
    await claims.release(ANN, INBOX, name, NOW)
    assert not await claims.claim(ANN, INBOX, name, NOW + 2)
    await claims.finish(BOB, INBOX, name, NOW)
    assert await claims.copies([BOB], INBOX, name) == {}


async def test_what_is_read_archived_or_unknown_is_not_claimed(store: Store) -> None:
    read, archived, unknown = new_id(), new_id(), new_id()
    for name, change in (
        (read, StateChange(read=True)),
        (archived, StateChange(archived=True)),
    ):
        await copy(store, ANN, name)
        await store.inbox_states.change_copies(ANN, INBOX, [name], change, NOTHING_READ, NOW)
    for name in (read, archived, unknown):
        assert not await store.escalations.claim(ANN, INBOX, name, NOW)
        await store.escalations.release(ANN, INBOX, name, NOW)
    assert await store.escalations.copies([ANN], INBOX, unknown) == {}


async def _check_restored(store: Store, past: Escalation, future: Escalation) -> None:
    assert await get(store, past) is None
    assert await get(store, future) == future
    (left,) = await due(store, future.at)
    assert left.item_id == due_of_escalation(future, NOW).item_id


@only_tables
@pytest.mark.usefixtures("dynamodb_endpoint")
async def test_what_was_due_before_tables_were_restored_is_not_escalated(place: Place) -> None:
    past, future = portion(0, NOW, new_id()), portion(0, NOW + 1, new_id())
    async with place.open() as store:
        await store.escalations.put([past, future], NOW)
    assert (await repair(place)).restored == 1
    async with place.open() as store:
        await _check_restored(store, past, future)


async def test_what_was_due_before_a_backup_was_restored_is_not_escalated(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    past, future = portion(0, NOW, new_id()), portion(0, NOW + 1, new_id())
    async with bench.store.open() as store:
        await store.escalations.put([past, future], NOW)
    async with bench.restored(bench.back_up().manifest).open() as store:
        await _check_restored(store, past, future)

# SPDX-License-Identifier: Apache-2.0
"""Items that become due, and scheduled messages, in the store."""

import asyncio
from pathlib import Path

import msgspec

from tests.contract.backup_bench import Bench
from tests.contract.engines import Engine, Store
from tests.contract.inbox_builders import a_scheduled
from tests.support.clock import NOW
from tidings.model.ids import UserKey
from tidings.model.scheduled import FAILED_KEPT_MS, RESTORED, SETTLE_MS, USER_SCHEDULED_MAX
from tidings.ports.due import DROPPED_MAX, LEASE_MS, Due, due_of
from tidings.stores.dynamodb.chat.scheduled import DynamoScheduled
from tidings.stores.dynamodb.inbox.due import DynamoDueItems
from tidings.stores.dynamodb.inbox.due_patterns import READ_SHARDS
from tidings.stores.sqlite.chat.scheduled import SqliteScheduled

ANN = UserKey("acme:ann")
MINUTE = 60_000


def an_item(name: str = "one", at: int = NOW, tenant: str = "acme") -> Due:
    return Due(
        kind="message", at=at, item_id=name, subject=f"{tenant}:ann", tenant=tenant, made_at=NOW
    )


async def due(store: Store, now: int, limit: int = 100, without: tuple[str, ...] = ()) -> list[Due]:
    """What is due in all shards that the one process of the test has."""
    found: list[Due] = []
    for shard in await store.due.lease("message", "me", now):
        found += await store.due.read("message", shard, now, limit, without)
    return sorted(found, key=lambda each: each.name)


async def names(store: Store, now: int, without: tuple[str, ...] = ()) -> list[str]:
    return [each.item_id for each in await due(store, now, without=without)]


async def test_items_are_found_when_they_are_due_and_until_they_are_dropped(
    engine: Engine,
) -> None:
    async with engine.open() as store:
        for name, at in (("a", NOW + 5), ("b", NOW + 5), ("c", NOW + 6), ("old", NOW - MINUTE)):
            await store.due.put(an_item(name, at), NOW)
            await store.due.put(an_item(name, at), NOW)
        assert await names(store, NOW + 4) == ["old"]
        assert await names(store, NOW + 5) == ["old", "a", "b"]
    async with engine.open() as store:
        found = await due(store, NOW + 6)
        assert [each.item_id for each in found] == ["old", "a", "b", "c"]
        assert msgspec.structs.replace(found[1], place="") == an_item("a", NOW + 5)
        for each in found[:2]:
            await store.due.drop(each)
            await store.due.drop(each)
        await store.due.drop(an_item("c", NOW + 6))
        assert await names(store, NOW + 6) == ["b"]
        assert await names(store, NOW + 6, without=("acme",)) == []
        await store.due.put(an_item("d", NOW, "other"), NOW)
        assert await names(store, NOW + 6, without=("acme", "third")) == ["d"]


async def test_a_read_may_begin_at_a_time(store: Store) -> None:
    for minutes in (0, 1, 25):
        for name in ("a", "b"):
            await store.due.put(an_item(f"{name}{minutes}", NOW + minutes * MINUTE), NOW)
    now, found = NOW + 30 * MINUTE, dict[int, set[str]]()
    shards = await store.due.lease("message", "me", now)
    for since in (NOW, NOW + 1, NOW + MINUTE, NOW + 2 * MINUTE, now):
        read = [await store.due.read("message", one, now, 9, (), None, since) for one in shards]
        found[since] = {each.item_id for some in read for each in some}
    last = {"a25", "b25"}
    assert list(found.values()) == [
        {"a0", "b0", "a1", "b1", *last},
        {"a1", "b1", *last},
        {"a1", "b1", *last},
        last,
        set(),
    ]


async def test_a_shard_is_read_in_pages(store: Store) -> None:
    ids = ["acme/main", *(f"acme/main{number}" for number in range(16))]
    for minutes in (0, 25):
        for name in ids:
            await store.due.put(an_item(name, NOW + minutes * MINUTE), NOW)
    await store.due.put(an_item("late", NOW), NOW + 25 * MINUTE)
    later, found = NOW + 30 * MINUTE, list[str]()
    for shard in await store.due.lease("message", "me", later):
        last: Due | None = None
        while page := await store.due.read("message", shard, later, 1, ("other",), last):
            found += [f"{one.at} {one.item_id}" for one in page]
            last = page[-1]
        assert await store.due.read("message", shard, later, 100, (), last) == []
    assert len(found) == len(set(found)) == 2 * len(ids) + 1


async def test_an_item_that_was_stored_again_is_not_dropped_for_the_first_one(
    engine: Engine,
) -> None:
    """Two requests move a message away and back; the first one is the last to end."""
    async with engine.open() as store:
        first = an_item("a", NOW + 5)
        again = msgspec.structs.replace(first, made_at=NOW + 1)
        await store.due.put(first, NOW)
        await store.due.put(again, NOW)
        await store.due.drop(first)
        assert await names(store, NOW + 5) == ["a"]
        await store.due.drop(again)
        assert await names(store, NOW + 5) == []


async def test_nothing_is_missed_after_an_outage(engine: Engine) -> None:
    async with engine.open() as store:
        assert await names(store, NOW) == []
        for hours in (0, 1, 4):
            await store.due.put(an_item(str(hours), NOW + hours * 60 * MINUTE), NOW)
    # Nobody looks for some hours, and the process that did is gone.
    async with engine.open() as store:
        later, found = NOW + 6 * 60 * MINUTE, list[str]()
        for _ in range(4):
            later += LEASE_MS
            for each in await due(store, later):
                found.append(each.item_id)
                await store.due.drop(each)
        assert found == ["0", "1", "4"]
        await store.due.put(an_item("new", later), later)
        assert await names(store, later) == ["new"]


async def test_a_first_process_finds_what_waited_before_it(store: Store) -> None:
    await store.due.put(an_item(), NOW)
    assert await names(store, NOW + 120 * MINUTE) == ["one"]


async def test_processes_share_the_shards(engine: Engine) -> None:
    async with engine.open() as one:
        await one.due.put(an_item("first", NOW + 120 * MINUTE), NOW)
        whole = set(await one.due.lease("message", "one", NOW))
        if len(whole) == 1:
            assert await one.due.lease("message", "one", NOW) == (0,)
            await one.due.give_back("message", "one")
            return  # one process has everything
        async with engine.open() as two:
            await _share(one, two, whole)


async def test_a_kind_that_was_never_used_is_not_leased(store: Store) -> None:
    if not isinstance(store.due, DynamoDueItems):
        return  # nobody else could have the shard
    for _ in range(2):
        assert await store.due.lease("inbox", "one", NOW) == []
    where = {":leases": "d#inbox"}
    assert await store.due._dynamo.query(READ_SHARDS, "#pk = :leases", where) == []
    await store.due.give_back("inbox", "one")
    await store.due.put(msgspec.structs.replace(an_item(), kind="inbox"), NOW)
    assert len(await store.due.lease("inbox", "one", NOW)) == 8


async def test_a_lease_is_renewed_when_half_of_it_is_over(store: Store) -> None:
    if not isinstance(store.due, DynamoDueItems):
        return  # nobody else could have the shard
    await store.due.put(an_item(), NOW)
    half = NOW + LEASE_MS // 2
    for now, ends_at in ((NOW, NOW), (half - 1, NOW), (half, half), (half + 1, half)):
        assert len(await store.due.lease("message", "me", now)) == 8
        where = {":leases": "d#message"}
        found = await store.due._dynamo.query(READ_SHARDS, "#pk = :leases", where)
        ends = {item["leased_until"] for item in found if "holder" in item}
        assert ends == {ends_at + LEASE_MS}


async def test_items_that_are_done_are_removed_together(store: Store) -> None:
    for number in range(DROPPED_MAX + 1):
        await store.due.put(an_item(f"{number:02}"), NOW)
    await store.due.drop_done((await due(store, NOW))[:DROPPED_MAX])
    assert await names(store, NOW) == [f"{DROPPED_MAX:02}"]


async def _share(one: Store, two: Store, whole: set[int]) -> None:
    assert await two.due.lease("message", "two", NOW + 1) == []
    mine = set(await one.due.lease("message", "one", NOW + 2))
    yours = set(await two.due.lease("message", "two", NOW + 3))
    assert len(mine) == len(yours) == 4
    assert mine | yours == whole
    for number in range(40):
        await one.due.put(an_item(str(number)), NOW)
    found = [await _all(store, shards) for store, shards in ((one, mine), (two, yours))]
    assert sorted(found[0] + found[1]) == sorted(map(str, range(40)))
    assert await _all(two, mine) == [], "it does not have these shards"
    # The first process dies; when its lease is over, the other does the rest.
    over = NOW + LEASE_MS
    assert set(await two.due.lease("message", "two", over - 1)) == yours
    assert set(await two.due.lease("message", "two", over)) == whole
    assert len(await _all(two, whole)) == 40
    assert await one.due.lease("message", "one", over) == []
    await two.due.give_back("message", "two")
    assert set(await one.due.lease("message", "one", over + 1)) == whole


async def _all(store: Store, shards: set[int]) -> list[str]:
    found = [await store.due.read("message", shard, NOW + 3, 100) for shard in shards]
    return [each.item_id for some in found for each in some]


async def test_a_message_is_stored_once_and_whole(engine: Engine) -> None:
    message = a_scheduled(
        content_type="text/x", ttl_seconds=5, reply_to=3, mentions=("bob", "cy"), silent=True
    )
    other = a_scheduled(send_at=NOW + 2 * MINUTE)
    async with engine.open() as store:
        assert await store.scheduled.get(ANN, message.scheduled_id) is None
        assert await store.scheduled.add(message) == message
        assert await store.scheduled.add(other) == message
    async with engine.open() as store:
        assert await store.scheduled.get(ANN, message.scheduled_id) == message
        assert await store.scheduled.get(UserKey("acme:bob"), message.scheduled_id) is None


async def test_only_a_pending_message_changes(store: Store) -> None:
    message = a_scheduled()
    await store.scheduled.add(message)
    changed = msgspec.structs.replace(message, send_at=NOW + 5, updated_at=NOW + 1)
    assert await store.scheduled.replace(message, changed)
    assert not await store.scheduled.replace(message, changed), "it was changed meanwhile"
    assert await store.scheduled.fire(ANN, message.scheduled_id, message.send_at) == changed
    firing = msgspec.structs.replace(changed, state="firing")
    for _ in range(2):
        assert await store.scheduled.fire(ANN, message.scheduled_id, changed.send_at) == firing
    assert not await store.scheduled.replace(changed, changed.cancelled(NOW))
    await store.scheduled.finish(firing.sent(7, NOW + 9))
    await store.scheduled.finish(firing.failed("late", NOW + 10))
    sent = firing.sent(7, NOW + 9)
    assert await store.scheduled.fire(ANN, message.scheduled_id, changed.send_at) == sent
    assert (sent.state, sent.box, sent.sequence) == ("sent", None, 7)
    assert await store.scheduled.fire(ANN, "0" * 32, NOW) is None


async def test_messages_are_listed_in_pages_until_they_are_done(store: Store) -> None:
    for number in range(1, 6):
        await store.scheduled.add(a_scheduled(number))
    ids = sorted(a_scheduled(number).scheduled_id for number in range(1, 6))
    messages = {message.scheduled_id: message for message in map(a_scheduled, range(1, 6))}
    await store.scheduled.finish(messages[ids[1]].sent(1, NOW))
    await store.scheduled.finish(messages[ids[2]].failed("chat.not_found", NOW))
    listed, after = [], None
    while True:
        page = await store.scheduled.page(ANN, after=after, limit=2, now=NOW)
        listed += [message.scheduled_id for message in page.rows]
        after = page.end
        if after is None:
            break
    assert listed == [ids[0], *ids[2:]]
    later = await store.scheduled.page(ANN, after=None, limit=9, now=NOW + FAILED_KEPT_MS)
    assert [message.scheduled_id for message in later.rows] == [ids[0], *ids[3:]]
    assert (
        await store.scheduled.page(UserKey("acme:bob"), after=None, limit=9, now=NOW)
    ).rows == []


async def test_a_user_has_a_limited_number_of_messages(store: Store) -> None:
    messages = [a_scheduled(number) for number in range(1, USER_SCHEDULED_MAX + 11)]
    added = await asyncio.gather(*(store.scheduled.add(message) for message in messages))
    kept = [message for message in added if message is not None]
    assert len(kept) == USER_SCHEDULED_MAX
    late = a_scheduled(500)
    assert await store.scheduled.add(late) is None
    assert await store.scheduled.add(kept[0]) == kept[0], "a repeat is not another message"
    await store.scheduled.finish(kept[0].sent(1, NOW))
    await store.scheduled.replace(kept[1], kept[1].cancelled(NOW))
    for number in (500, 501):
        assert await store.scheduled.add(a_scheduled(number)) is not None
    assert await store.scheduled.add(a_scheduled(502)) is None
    assert await store.scheduled.add(a_scheduled(9, user_id=UserKey("acme:bob"))) is not None


async def test_forgotten_messages_leave_nothing(store: Store) -> None:
    messages = [a_scheduled(number) for number in range(1, 26)]
    for message in messages:
        await store.due.put(due_of(message), NOW)
        await store.scheduled.add(message)
    while names := await store.scheduled.names(ANN, 10):
        assert len(names) <= 10
        await store.scheduled.forget(ANN, names)
        await store.scheduled.forget(ANN, names)
    assert (await store.scheduled.page(ANN, after=None, limit=9, now=NOW)).rows == []
    assert await due(store, NOW + MINUTE) == []


async def test_a_count_without_its_message_ends(store: Store) -> None:
    """A process that dies after it has counted a message does not use up the limit for ever."""
    if isinstance(store.scheduled, SqliteScheduled):
        return  # it counts the messages themselves
    assert isinstance(store.scheduled, DynamoScheduled)
    lost = [a_scheduled(number) for number in range(1, USER_SCHEDULED_MAX + 1)]
    await asyncio.gather(*(store.scheduled.count(message) for message in lost))
    times = {"created_at": NOW + SETTLE_MS - 1, "updated_at": NOW + SETTLE_MS - 1}
    assert await store.scheduled.add(a_scheduled(500, **times)) is None
    times = {"created_at": NOW + SETTLE_MS, "updated_at": NOW + SETTLE_MS}
    assert await store.scheduled.add(a_scheduled(500, **times)) is not None


async def test_what_was_due_before_a_restore_is_not_sent_after_it(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    past, future = a_scheduled(1, send_at=NOW), a_scheduled(2, send_at=NOW + 1)
    async with bench.store.open() as store:
        for scheduled in (past, future):
            await store.due.put(due_of(scheduled), NOW)
            await store.scheduled.add(scheduled)
    made = bench.back_up().manifest
    async with bench.restored(made).open() as store:
        assert await store.scheduled.get(ANN, past.scheduled_id) == past.failed(RESTORED, NOW)
        assert await store.scheduled.get(ANN, future.scheduled_id) == future
        [left] = await store.due.read("message", 0, NOW + 1, 10)
        assert left == due_of(future)

# SPDX-License-Identifier: Apache-2.0
"""Large groups on SQLite: made in short steps, one at a time, users in turns."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import apsw
import pytest

from tests.contract.builders import a_chat, added, append, draft, removed, request
from tests.contract.engines import SqliteEngine, Store
from tests.support.clock import NOW
from tests.support.users import ANN, BOB, some_users
from tidings.model import limits
from tidings.model.entries import Entry
from tidings.model.ids import UserKey, user_key
from tidings.model.refusals import LimitReached, RateLimited
from tidings.ports.store import on_behalf_of, user_requester
from tidings.stores.sqlite.chat import chats, members

EVE = user_key("other", "eve")
LARGE = 200


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[Store]:
    async with SqliteEngine(path).open() as opened:
        yield opened


async def large_group(store: Store, creator: UserKey, size: int = LARGE) -> None:
    with on_behalf_of(user_requester(creator)):
        await a_chat(store, creator, *some_users(size))


@pytest.mark.attack("S04", "F10", "E17")
async def test_a_group_of_a_thousand_is_made_in_short_turns_of_the_loop(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn, added_in = 0, Counter[int]()
    real = members.add

    def add(db: apsw.Connection, entry: Entry, *, is_direct: bool = False) -> bool:
        added_in[turn] += len(entry.people)
        return real(db, entry, is_direct=is_direct)

    monkeypatch.setattr(members, "add", add)
    making = asyncio.ensure_future(large_group(store, ANN, limits.GROUP_MEMBERS_MAX - 1))
    while not making.done():
        turn += 1
        await asyncio.sleep(0)
    await making

    assert sum(added_in.values()) == limits.GROUP_MEMBERS_MAX
    assert max(added_in.values()) <= chats.STEP_ENTRIES * limits.MEMBERS_PER_ENTRY_MAX


@pytest.mark.attack("S04", "D21")
async def test_others_write_and_make_groups_between_the_large_groups_of_one_user(
    store: Store,
) -> None:
    order: list[str] = []

    async def noted(name: str, work: asyncio.Future[None]) -> None:
        await work
        order.append(name)

    async def small() -> None:
        await a_chat(store, BOB, ANN)

    async with asyncio.TaskGroup() as group:
        for _ in range(10):
            group.create_task(noted("ann", asyncio.ensure_future(large_group(store, ANN))))
        group.create_task(noted("small", asyncio.ensure_future(small())))
        group.create_task(noted("eve", asyncio.ensure_future(large_group(store, EVE))))
    assert order == ["ann", "small", "eve", *["ann"] * 9]


async def test_of_one_user_only_so_many_large_groups_wait(store: Store) -> None:
    async with asyncio.TaskGroup() as group:
        for _ in range(limits.USER_LARGE_GROUPS_WAITING_MAX + 1):
            group.create_task(large_group(store, ANN, 80))
        await asyncio.sleep(0)
        with pytest.raises(RateLimited):
            await large_group(store, ANN)
        await large_group(store, EVE)


async def test_a_large_group_that_cannot_be_made_leaves_nothing(
    store: Store, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    *_, last = some_users(LARGE)
    await a_chat(store, last, ANN)
    monkeypatch.setattr(members, "surely_has_room", lambda _total: False)
    monkeypatch.setattr(members, "has_room", lambda _way, total, _own: total < 1)
    chat, entries = draft(BOB, *some_users(LARGE))
    with pytest.raises(LimitReached):
        await store.chats.create(chat, entries, request(BOB), NOW)
    assert await store.chats.ids(BOB) == []
    assert await store.log.state(chat.chat_id) is None
    check_counts(path)


async def test_chats_are_counted_as_members_come_and_go(store: Store, path: Path) -> None:
    state = await a_chat(store, ANN, BOB)
    await a_chat(store, ANN, *some_users(LARGE))
    await append(store, state, added(EVE))
    await append(store, state, removed(BOB))
    await append(store, state, added(BOB))
    await append(store, state, removed(EVE))
    check_counts(path)


def check_counts(path: Path) -> None:
    """What is counted is what a recount gives."""
    db = apsw.Connection(str(path / "tidings.db"))
    counted = db.execute("SELECT user_id, chats FROM chat_counts WHERE chats > 0").fetchall()
    recount = db.execute("SELECT user_id, count(*) FROM delivery_state GROUP BY 1").fetchall()
    db.close()
    assert counted == recount

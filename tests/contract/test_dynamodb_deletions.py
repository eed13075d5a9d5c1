# SPDX-License-Identifier: Apache-2.0
"""A process that dies in the middle of a step of a deletion: another one goes on, and ends it."""

from typing import Any

import pytest

from tests.contract.builders import a_chat, append, deleted, key, message, reacted, redacted
from tests.contract.engines import Store
from tests.support.clock import NOW
from tests.support.dynamo_tables import open_tables
from tests.support.failpoints import Died
from tests.support.spare_tables import spare_tables
from tests.support.users import ANN, BOB, CAT
from tidings.model import limits
from tidings.model.chats import ChatState
from tidings.ports.log import Kept
from tidings.stores.dynamodb.chat.runs import Runs
from tidings.stores.dynamodb.client.access import READS, Usage
from tidings.stores.dynamodb.client.dynamo import Dynamo
from tidings.stores.dynamodb.patterns import FORGET_REACTIONS, Pattern


class DiesAtWrite:
    """Lets a number of writes pass; the next one, and all after it, are not sent."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._call = Dynamo.call
        self.left: int | None = None
        spy = self

        async def call(
            dynamo: Dynamo, pattern: Pattern, request: dict[str, Any], **more: Any
        ) -> dict[str, Any]:
            if spy.left is not None and pattern.operation not in READS:
                if spy.left == 0:
                    raise Died(pattern.name)
                spy.left -= 1
            return await spy._call(dynamo, pattern, request, **more)

        monkeypatch.setattr(Dynamo, "call", call)


async def a_full_chat(store: Store) -> ChatState:
    state = await a_chat(store, ANN, BOB, CAT)
    sent = message(BOB, "secret")
    assert await append(store, state, sent, keys=[key(sent)]) == Kept()
    assert await append(store, state, message(BOB, expires_at=NOW + limits.DAY_MS)) == Kept()
    assert await append(store, state, reacted(sent.sequence, "+1", by=ANN)) == Kept()
    assert await append(store, state, deleted()) == Kept()
    return state


async def worked_on(store: Store, state: ChatState, holder: str, now: int) -> bool:
    """Work on what is unfinished, as a runner does; whether it came to the end."""
    for _ in range(20):
        if not await store.deletions.unfinished(before=now, limit=9):
            return True
        job = await store.deletions.lease(state.chat_id, holder, now)
        assert job is not None
        await store.deletions.step(job, holder, now)
    raise AssertionError("it does not end")


async def test_whichever_write_is_the_last_another_process_ends_it(
    dynamodb_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    dies = DiesAtWrite(monkeypatch)
    async with (
        spare_tables(dynamodb_endpoint) as prefix,
        open_tables(dynamodb_endpoint, prefix) as store,
    ):
        for writes in range(0, 100, 2):
            state, now = await a_full_chat(store), NOW
            dies.left = writes
            try:
                is_over = await worked_on(store, state, "first", now)
            except (Died, BaseExceptionGroup):
                is_over = False
            dies.left = None
            if is_over:
                break
            now += limits.DELETION_LEASE_MS
            assert await worked_on(store, state, "second", now)
            await check_nothing_is_left(store, state)
    assert writes > 12, "there were that many moments to die at"


async def check_nothing_is_left(store: Store, state: ChatState) -> None:
    job = await store.deletions.get(state.chat_id)
    assert job is not None and (job.phase, job.emptied) == ("done", state.head)
    entries = await store.log.tail(state.chat_id, 0)
    assert all(one.box is None and not one.people and not one.reactions for one in entries)
    for user in (ANN, BOB, CAT):
        assert state.chat_id not in await store.chats.ids(user)
        assert await store.log.page(state.chat_id, user, after=0, limit=1) is None


async def test_reactions_that_a_redaction_left_behind_are_deleted(
    dynamodb_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(*_: object) -> None: ...

    monkeypatch.setattr(Runs, "_delete_reactions", fails)
    used: list[Usage] = []
    async with (
        spare_tables(dynamodb_endpoint) as prefix,
        open_tables(dynamodb_endpoint, prefix, record=used.append) as store,
    ):
        state = await a_chat(store, ANN, BOB)
        sent = message(BOB, "secret")
        for change in (sent, reacted(state.head + 1, "+1", by=ANN), redacted(state.head + 1)):
            assert await append(store, state, change) == Kept()
        assert await append(store, state, deleted()) == Kept()
        used.clear()
        assert await worked_on(store, state, "first", NOW)
        await check_nothing_is_left(store, state)
    assert FORGET_REACTIONS in [usage.pattern for usage in used]

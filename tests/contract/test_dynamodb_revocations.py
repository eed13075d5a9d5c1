# SPDX-License-Identifier: Apache-2.0
"""The order in which a process appends to the revocation feed on DynamoDB."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.contract.lossy_tables import Place, a_place
from tests.support.clock import NOW
from tests.support.users import ANN, BOB, CAT
from tidings.model.ids import UserKey
from tidings.model.refusals import RateLimited
from tidings.ports.sessions import Revocation, RevokedKind
from tidings.ports.store import on_behalf_of, user_requester
from tidings.stores.dynamodb.identity import sessions


class Feed:
    """The revocation feed as one process has it. Appends begin in the order of their start."""

    def __init__(self, place: Place) -> None:
        self._feed = place.revocations
        self.tasks: list[asyncio.Task[None]] = []

    def start(self, user: UserKey, kind: RevokedKind) -> asyncio.Task[None]:
        with on_behalf_of(user_requester(user)):
            one = self._feed.append(Revocation(kind=kind, subject=user, at=NOW))
            self.tasks.append(asyncio.create_task(one))
        return self.tasks[-1]

    async def until(self, *tasks: asyncio.Task[None]) -> list[Revocation]:
        """What is in the feed when these have been appended."""
        for task in tasks:
            await task
        return await self._feed.after(0)


@pytest.fixture
async def feed(dynamodb_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Feed]:
    monkeypatch.setattr(sessions, "DEADLINE_SECONDS", 300)  # the machine may be slow
    async with a_place(dynamodb_endpoint) as place:
        made = Feed(place)
        yield made
        for task in made.tasks:
            task.cancel()
        await asyncio.wait(made.tasks)


@pytest.mark.parametrize("kind", ["push", "block", "webhook"])
async def test_a_revocation_waits_for_one_change_and_not_for_all(
    feed: Feed, kind: RevokedKind
) -> None:
    changes = [feed.start(ANN, kind) for _ in range(300)]
    entries = await feed.until(feed.start(BOB, "session"))

    assert [entry.kind for entry in entries].index("session") <= 1
    refused = [isinstance(one.exception(), RateLimited) for one in changes if one.done()]
    assert refused.count(True) == len(changes) - 1 - sessions.USER_CHANGES_WAITING_MAX


async def test_users_take_turns_with_their_changes(feed: Feed) -> None:
    _ = [feed.start(ANN, "push") for _ in range(20)]
    entries = await feed.until(feed.start(BOB, "block"), feed.start(CAT, "push"))

    assert {BOB, CAT} < {entry.subject for entry in entries[:4]}

# SPDX-License-Identifier: Apache-2.0
"""The order in which a process appends to the revocation feed on DynamoDB."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.contract.lossy_tables import Place, a_place
from tests.support.clock import NOW
from tests.support.users import ANN, BOB, CAT
from tidings.model.ids import UserKey, tenant_of, user_key
from tidings.model.refusals import RateLimited
from tidings.ports.sessions import Revocation, RevokedKind
from tidings.ports.store import BACKGROUND, OPERATOR, Requester, on_behalf_of, user_requester
from tidings.stores.dynamodb.identity import sessions


class Feed:
    """The revocation feed as one process has it. Appends begin in the order of their start."""

    def __init__(self, place: Place) -> None:
        self._feed = place.revocations
        self.tasks: list[asyncio.Task[None]] = []

    def start(
        self, user: UserKey, kind: RevokedKind, requester: Requester | None = None
    ) -> asyncio.Task[None]:
        with on_behalf_of(requester or user_requester(user)):
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


async def test_tenants_take_turns_with_their_revocations(feed: Feed) -> None:
    """A tenant that revokes as much as it can keeps nobody else from revoking."""
    busy = Requester(tenant_of(ANN))
    many = [feed.start(ANN, "user", busy) for _ in range(300)]
    many += [feed.start(ANN, "author", BACKGROUND) for _ in range(50)]
    others = [user_key("other", "eve"), user_key("third", "eve")]
    entries = await feed.until(
        feed.start(others[0], "user", Requester("other")),
        feed.start(others[1], "session"),
        feed.start(UserKey("acme"), "tenant", OPERATOR),
    )

    assert {*others, "acme"} < {entry.subject for entry in entries[:8]}
    assert not all(task.done() for task in many)


async def test_users_take_turns_with_their_changes(feed: Feed) -> None:
    _ = [feed.start(ANN, "push") for _ in range(20)]
    entries = await feed.until(feed.start(BOB, "block"), feed.start(CAT, "push"))

    assert {BOB, CAT} < {entry.subject for entry in entries[:4]}

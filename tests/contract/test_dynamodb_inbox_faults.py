# SPDX-License-Identifier: Apache-2.0
"""The inbox on DynamoDB while requests are turned away, done in part, or their answers lost."""

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

import pytest

from tests.contract.inbox_builders import (
    INBOX,
    TENANT,
    a_broadcast,
    a_claim,
    a_copy,
    a_notification,
    new_id,
    some_jobs,
)
from tests.contract.lossy_tables import Place
from tests.support.clock import NOW
from tests.support.dynamo_tables import REGION
from tests.support.spare_tables import spare_tables
from tests.support.users import ANN, BOB, some_users
from tests.support.waiting import retried
from tidings.assembly.system import SystemChance, SystemClock
from tidings.model.ids import user_id, user_key
from tidings.model.notifications import InboxConfig
from tidings.model.refusals import StoreUnavailable
from tidings.ports.bus import Job, JobsUnavailable
from tidings.ports.inboxes import DeliveredInPart
from tidings.stores.dynamodb.client import retrying
from tidings.stores.dynamodb.client.dynamo import Dynamo
from tidings.stores.dynamodb.client.retrying import Budget, Item, Retrying, Throttled, Unanswered
from tidings.stores.dynamodb.client.transport import Transport, open_transport
from tidings.stores.dynamodb.inbox.copies import DynamoCopies
from tidings.stores.dynamodb.inbox.jobs import DynamoJobs
from tidings.stores.dynamodb.inbox.notifications import DynamoInboxSettings, DynamoNotifications
from tidings.stores.dynamodb.patterns import Pattern

TROUBLE_EVERY = 5
LOOK = Pattern("look", "Scan", ("inbox",), "this test")

T = TypeVar("T")


async def turn_away(*_: object) -> None:
    """A store that takes nothing."""
    raise Throttled("as told")


class Troubled:
    """The real transport; every fifth request meets with trouble of one kind or the other.

    It is turned away or, if done, its answer lost. Of every batch only a half is done.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.is_on = True
        self.asked = 0
        self.met: Counter[str] = Counter()

    async def send(self, operation: str, request: dict[str, Any], until: float) -> dict[str, Any]:
        self.asked += 1
        if self.is_on and operation == "BatchWriteItem":
            return await self._do_half(request, until)
        if not self.is_on or self.asked % TROUBLE_EVERY:
            return await self._transport.send(operation, request, until)
        if self.asked % (2 * TROUBLE_EVERY):
            self.met["throttled"] += 1
            raise Throttled("as told")
        self.met["lost"] += 1
        await self._transport.send(operation, request, until)
        raise Unanswered("lost")

    async def _do_half(self, request: dict[str, Any], until: float) -> dict[str, Any]:
        self.met["in part"] += 1
        ((table, writes),) = request["RequestItems"].items()
        half = len(writes) // 2
        done = {**request, "RequestItems": {table: writes[: half + 1]}}
        answer = await self._transport.send("BatchWriteItem", done, until)
        rest = {table: writes[half + 1 :]} if writes[half + 1 :] else {}
        return {**answer, "UnprocessedItems": rest}


@pytest.fixture
async def place(
    dynamodb_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[Transport, str]]:
    monkeypatch.setattr(retrying, "PAUSE_SECONDS_FIRST", 0.001)
    async with (
        spare_tables(dynamodb_endpoint) as prefix,
        open_transport(endpoint=dynamodb_endpoint, region=REGION, clock=SystemClock()) as transport,
    ):
        yield transport, prefix


@pytest.fixture
def troubled(place: tuple[Transport, str]) -> Troubled:
    return Troubled(place[0])


@pytest.fixture
def dynamo(place: tuple[Transport, str], troubled: Troubled) -> Dynamo:
    chance = SystemChance()
    retries = Retrying(chance, Budget())
    return Dynamo(troubled, retries, chance, prefix=place[1])  # type: ignore[arg-type]


async def until_done(work: Callable[[], Awaitable[T]]) -> T:
    """Try as a queue's worker does: for ever."""
    return await retried(work, StoreUnavailable, JobsUnavailable)


def portions(users: list[str], size: int) -> list[Job]:
    return [
        Job(
            tenant=TENANT,
            inbox=INBOX,
            notification_id=NOTIFICATION,
            number=number,
            users=tuple(users[start : start + size]),
            category=None,
            posted_at=NOW,
            expires_at=NOW + 1,
        )
        for number, start in enumerate(range(0, len(users), size))
    ]


NOTIFICATION = new_id()


class Worker:
    """Does all jobs there are, each as often as it takes."""

    def __init__(self, dynamo: Dynamo) -> None:
        self.jobs = DynamoJobs(dynamo)
        self.copies = DynamoCopies(dynamo)
        self.notifications = DynamoNotifications(dynamo)

    async def do(self, job: Job) -> None:
        users = [user_key(job.tenant, user) for user in job.users]
        copy = a_copy(job.notification_id)
        await until_done(lambda: self.copies.deliver(users, job.inbox, copy))
        await until_done(
            lambda: self.notifications.finish_job(
                job.tenant, job.inbox, job.notification_id, job.number
            )
        )

    async def do_all(self) -> None:
        while taken := await until_done(lambda: self.jobs.take(10)):
            for one in taken:
                await self.do(one.job)
                await until_done(lambda one=one: self.jobs.finish(one))  # type: ignore[misc]


async def kept(dynamo: Dynamo, begins: str) -> list[Item]:
    """All items whose names begin so."""
    pages = dynamo.scan(LOOK, 0, 1, 1_000)
    return [item async for page in pages for item in page if item["sk"].startswith(begins)]


@pytest.mark.parametrize(
    ("crowd", "portion"), [(150, 25), pytest.param(5_000, 100, marks=pytest.mark.soak)]
)
async def test_everyone_of_a_crowd_gets_one_copy_whatever_happens(
    dynamo: Dynamo, troubled: Troubled, crowd: int, portion: int
) -> None:
    users = [user_id(user) for user in some_users(crowd)]
    worker = Worker(dynamo)
    await until_done(lambda: worker.jobs.put(portions(users, portion)))
    await worker.do_all()

    assert min(troubled.met.values()) > 0 and len(troubled.met) == 3, troubled.met
    assert sum(troubled.met.values()) * TROUBLE_EVERY > crowd
    troubled.is_on = False
    owners = [item["pk"] for item in await kept(dynamo, f"m#{NOTIFICATION}")]
    assert sorted(owners) == sorted(f"t#{TENANT}#u#{user}#i#{INBOX}" for user in users)
    done = await worker.notifications.finished_jobs(TENANT, INBOX, NOTIFICATION)
    assert done == set(range(crowd // portion))
    assert list(await worker.jobs.take(10)) == []


async def test_a_portion_given_again_changes_no_mark(dynamo: Dynamo, troubled: Troubled) -> None:
    copies, users, copy = DynamoCopies(dynamo), some_users(100), a_copy()
    await until_done(lambda: copies.deliver(users, INBOX, copy))
    await until_done(lambda: copies.mark_read(users[7], INBOX, [copy.notification_id], NOW + 1))
    again = a_copy(copy.notification_id, received_at=NOW + 5)
    for _ in range(3):
        assert await until_done(lambda: copies.deliver(users, INBOX, again)) == []

    troubled.is_on = False
    (read,) = await copies.newest(users[7], INBOX, before=None, limit=5)
    (unread,) = await copies.newest(users[8], INBOX, before=None, limit=5)
    assert (read.received_at, read.read_at) == (NOW, NOW + 1)
    assert unread == copy


# Answers that are lost, each the first time.


@pytest.fixture
def losing(place: tuple[Transport, str]) -> Place:
    made = Place(*place)
    made.transport.loses = True
    return made


async def test_a_lost_answer_changes_no_answer(losing: Place) -> None:
    settings = DynamoInboxSettings(losing.dynamo)
    assert await settings.put_config(TENANT, INBOX, InboxConfig(title="News"))
    assert not await settings.put_config(TENANT, INBOX, InboxConfig(title="Other"))

    notifications = DynamoNotifications(losing.dynamo)
    mine = a_claim(notification_id=new_id())
    assert await notifications.claim_key(TENANT, INBOX, "k", mine) == mine
    assert await notifications.claim_key(TENANT, INBOX, "k", a_claim()) == mine
    posted = a_notification()
    await notifications.put(posted)
    assert await notifications.get(TENANT, INBOX, [posted.notification_id]) == [posted]
    assert await notifications.append_broadcast(a_broadcast(1))
    assert not await notifications.append_broadcast(a_broadcast(1))
    for number in (3, 250, 3):
        await notifications.finish_job(TENANT, INBOX, posted.notification_id, number)
    assert await notifications.finished_jobs(TENANT, INBOX, posted.notification_id) == {3, 250}
    await notifications.close()
    assert losing.transport.lost >= 9


async def test_a_copy_whose_answer_is_lost_is_new_and_read_marks_stay(losing: Place) -> None:
    copies, copy = DynamoCopies(losing.dynamo), a_copy()
    assert await copies.deliver([ANN], INBOX, copy) == [ANN]
    later = a_copy(copy.notification_id, received_at=NOW + 1)
    assert await copies.deliver([ANN], INBOX, later) == []
    await copies.mark_read(ANN, INBOX, [copy.notification_id], NOW)
    await copies.mark_read(ANN, INBOX, [copy.notification_id], NOW + 1)
    (kept,) = await copies.newest(ANN, INBOX, before=None, limit=5)
    assert kept.read_at == NOW

    await copies.read_broadcasts(ANN, INBOX, [4, 9], NOW)
    await copies.read_before(ANN, INBOX, NOW, 5)
    await copies.read_before(ANN, INBOX, NOW - 1, 6)
    state = await copies.read_state(ANN, INBOX)
    assert (state.before, state.announced, state.singly) == (NOW, 6, {9: NOW})


@pytest.mark.parametrize("is_written", [False, True])
async def test_who_got_a_copy_before_the_store_was_away_is_not_forgotten(
    dynamo: Dynamo, troubled: Troubled, monkeypatch: pytest.MonkeyPatch, is_written: bool
) -> None:
    troubled.is_on = False
    copies, copy, real, failures = DynamoCopies(dynamo), a_copy(), dynamo.put, [2]

    async def put(pattern: Pattern, item: Item, condition: str) -> None:
        if f"#u#{user_id(BOB)}#" in item["pk"] and failures[0]:
            failures[0] -= 1
            if is_written and not failures[0]:
                await real(pattern, item, condition)
            raise StoreUnavailable
        await real(pattern, item, condition)

    monkeypatch.setattr(dynamo, "put", put)
    with pytest.raises(DeliveredInPart) as part:
        await copies.deliver([ANN, BOB], INBOX, copy)
    assert part.value.new == [ANN]
    assert await copies.deliver([ANN, BOB], INBOX, copy) == ([] if is_written else [BOB])

    failures[0], other = 1, a_copy()
    assert await copies.deliver([BOB, ANN], INBOX, other) == [BOB, ANN]
    assert await copies.deliver([ANN, BOB], INBOX, other) == []


async def test_a_job_whose_end_is_unknown_can_be_finished_again_or_comes_again(
    dynamo: Dynamo, troubled: Troubled, monkeypatch: pytest.MonkeyPatch
) -> None:
    troubled.is_on = False
    jobs = DynamoJobs(dynamo)
    wanted = some_jobs(3)
    await jobs.put(wanted)
    taken = await jobs.take(10)
    assert [one.job for one in taken] == wanted

    with monkeypatch.context() as patch:
        patch.setattr(troubled, "send", turn_away)
        for one in taken:
            with pytest.raises(JobsUnavailable):
                await jobs.finish(one)
    await jobs.finish(taken[0])

    assert list(await jobs.take(10)) == [], "whoever has them may still finish them"
    await jobs.close()
    assert [one.job for one in await jobs.take(10)] == wanted[1:]


async def test_a_look_that_failed_is_taken_again(
    dynamo: Dynamo, troubled: Troubled, monkeypatch: pytest.MonkeyPatch
) -> None:
    troubled.is_on = False
    jobs = DynamoJobs(dynamo)
    wanted = some_jobs(3)
    await jobs.put(wanted)

    with monkeypatch.context() as patch:
        patch.setattr(troubled, "send", turn_away)
        with pytest.raises(JobsUnavailable):
            await jobs.take(10)
    assert [one.job for one in await jobs.take(10)] == wanted

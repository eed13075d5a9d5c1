# SPDX-License-Identifier: Apache-2.0
"""Delivery jobs on DynamoDB: the queue of a deployment with one process, and the dead letters.

The queue is one partition, which is read from a position that moves forward. Taken jobs are
recorded only in memory. Taking a job therefore writes nothing, and after a restart every unfinished
job is available again. When this process adds a job, the position moves back, so that the job is
not skipped. Every minute, reading restarts at the first job, to find jobs that a previous process
added before it stopped.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Final

import msgspec

from tidings.model.refusals import StoreUnavailable
from tidings.ports.bus import DeadLetter, DeadLetters, Job, Jobs, JobsUnavailable, Taken
from tidings.stores.dynamodb.client.dynamo import BATCH_WRITE_MAX, Dynamo
from tidings.stores.dynamodb.client.retrying import ConditionFailed, Item, gather_bounded
from tidings.stores.dynamodb.inbox import inbox_patterns as patterns
from tidings.stores.dynamodb.inbox.items import IS_FREE, NEXT_TO

log = logging.getLogger("tidings.dynamodb")

WAIT_SECONDS: Final = 0.5
"""How long `take` waits for the first job."""
ANEW_SECONDS: Final = 60.0
"""Interval at which the whole queue is read again."""

_JOBS: Final = "q#jobs"
_ASIDE: Final = "q#aside"
FIRST: Final = " "
"""Sort key that comes before the name of every job."""

_job = msgspec.json.Decoder(Job)
_aside = msgspec.json.Decoder(DeadLetter)


class DynamoJobs:
    """Stores the queue of jobs by notification id, which is roughly the order of posting."""

    def __init__(self, dynamo: Dynamo) -> None:
        self._dynamo = dynamo
        self._taking = asyncio.Lock()
        self._taken: set[str] = set()
        self._after = FIRST
        self._began_at = asyncio.get_running_loop().time()
        self._may_have_some = asyncio.Event()
        self._may_have_some.set()

    async def put(self, jobs: Sequence[Job]) -> None:
        items = [job_item(job) for job in {_name(job): job for job in jobs}.values()]
        starts = range(0, len(items), BATCH_WRITE_MAX)
        portions = [items[start : start + BATCH_WRITE_MAX] for start in starts]
        try:
            async with _as_jobs_unavailable():
                await gather_bounded(
                    partial(self._dynamo.batch_write, patterns.PUT_JOBS, puts=some)
                    for some in portions
                )
        finally:
            for item in items:
                self._rewind_to(item["sk"])

    def _rewind_to(self, name: str) -> None:
        """Move the position back if necessary, so that the next read includes this job."""
        self._after = min(self._after, name[:-1])
        self._may_have_some.set()

    async def take(self, most: int) -> Sequence[Taken]:
        async with self._taking:
            self._restart_if_due()
            with suppress(TimeoutError):
                async with asyncio.timeout(WAIT_SECONDS):
                    await self._may_have_some.wait()
            taken: list[Taken] = []
            while self._may_have_some.is_set() and not taken:
                taken = [job for item in await self._page(most) if (job := self._take(item))]
            return taken

    def _restart_if_due(self) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._began_at > ANEW_SECONDS:
            self._began_at = now
            self._rewind_to(FIRST * 2)

    async def _page(self, most: int) -> list[Item]:
        """Read the next jobs, including taken ones, and move the position forward.

        A job that is added meanwhile moves the position back, so that it is not skipped.
        """
        after, self._after = self._after, NEXT_TO
        self._may_have_some.clear()
        items: list[Item] = []
        is_over = False
        try:
            async with _as_jobs_unavailable():
                items = await job_items(self._dynamo, after=after, limit=most)
            is_over = len(items) < most
        finally:
            self._after = min(self._after, items[-1]["sk"] if items else after)
            if not is_over:
                self._may_have_some.set()
        return items

    def _take(self, item: Item) -> Taken | None:
        name: str = item["sk"]
        if name in self._taken:
            return None
        self._taken.add(name)
        try:
            return Taken(to_job(item), name, 1)
        except msgspec.MsgspecError:
            log.exception(
                "a job cannot be decoded and stays", extra={"action": "job_stays", "job": name}
            )
            return None

    async def finish(self, taken: Taken) -> None:
        async with _as_jobs_unavailable():
            await self._dynamo.delete(patterns.DELETE_JOB, {"pk": _JOBS, "sk": taken.handle})
        self._taken.discard(taken.handle)

    async def close(self) -> None:
        self._taken.clear()
        self._rewind_to(FIRST * 2)


class DynamoDeadLetters:
    """Stores dead letters, sorted by id."""

    def __init__(self, dynamo: Dynamo) -> None:
        self._dynamo = dynamo

    async def keep(self, dead_letter: DeadLetter) -> None:
        item = dead_letter_item(dead_letter)
        with suppress(ConditionFailed):
            await self._dynamo.put(patterns.KEEP_DEAD_LETTER, item, IS_FREE)

    async def page(self, *, after: str | None, limit: int) -> list[DeadLetter]:
        items = await self._dynamo.query(
            patterns.LIST_ASIDE,
            "#pk = :aside AND #sk > :after",
            {":aside": _ASIDE, ":after": after or FIRST},
            limit=limit,
        )
        return [_aside.decode(item["json"]) for item in items]

    async def get(self, aside_id: str) -> DeadLetter | None:
        item = await self._dynamo.get(patterns.READ_ASIDE, {"pk": _ASIDE, "sk": aside_id})
        return _aside.decode(item["json"]) if item else None

    async def drop(self, aside_id: str) -> None:
        await self._dynamo.delete(patterns.DROP_ASIDE, {"pk": _ASIDE, "sk": aside_id})


async def job_items(dynamo: Dynamo, *, after: str, limit: int) -> list[Item]:
    """Return the items of jobs whose names come after `after`, in order."""
    where, values = "#pk = :jobs AND #sk > :after", {":jobs": _JOBS, ":after": after}
    return await dynamo.query(patterns.TAKE_JOBS, where, values, limit=limit)


def job_item(job: Job) -> Item:
    """Convert a job to its item."""
    return _item(_JOBS, _name(job), job)


def to_job(item: Item) -> Job:
    """Convert a stored item to a `Job`."""
    return _job.decode(item["json"])


def dead_letter_item(dead_letter: DeadLetter) -> Item:
    """Convert a dead letter to its item."""
    return _item(_ASIDE, dead_letter.aside_id, dead_letter)


def _name(job: Job) -> str:
    return f"{job.notification_id}#{job.number:05d}"


def _item(partition: str, name: str, content: Job | DeadLetter) -> Item:
    return {"pk": partition, "sk": name, "json": msgspec.json.encode(content).decode()}


@asynccontextmanager
async def _as_jobs_unavailable() -> AsyncIterator[None]:
    try:
        yield
    except StoreUnavailable as unavailable:
        raise JobsUnavailable from unavailable


_conforms: type[Jobs] = DynamoJobs
_dead_letters_conform: type[DeadLetters] = DynamoDeadLetters

# SPDX-License-Identifier: Apache-2.0
"""Schedules messages and notifications, and compares what was delivered with what was scheduled."""

import asyncio
import random
import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import Final, NamedTuple, Protocol

import aiohttp
import httpx

from tests.support.inbox import Inbox
from tests.support.people import Json, Person, Town
from tests.support.waiting import until
from tidings.model.ids import rfc3339
from tidings.model.limits import SECOND_MS, TOKEN_SECONDS_MAX
from tidings.model.scheduled import USER_SCHEDULED_MAX

REQUESTS_AT_ONCE: Final = 32
PAGE: Final = 100
TRIES_MAX: Final = 50
"""After so many refusals under one key, no choice will be accepted under it."""
LATER_MS: Final = 30 * SECOND_MS
"""How far ahead something is scheduled whose first time has passed too soon."""
LATE_SECONDS: Final = (1, 2, 5, 15, 30, 60, 120, 300)
"""Ends of the steps of the histogram."""


class Planned(NamedTuple):
    """A message or notification that was scheduled."""

    person: int
    is_message: bool
    name: str
    at: int


class Arrived(NamedTuple):
    """A message or notification that was delivered."""

    is_message: bool
    name: str
    at: int


def now_ms() -> int:
    """The time of this machine, on which the servers run too."""
    return int(time.time() * SECOND_MS)


class DueLoad:
    """The people of one tenant, each with a chat, and what was scheduled for them."""

    def __init__(self, town: Town, people: list[Person], chats: list[str], inbox: Inbox) -> None:
        self._town = town
        self._people = people
        self._chats = chats
        self._inbox = inbox
        self.planned: list[Planned] = []

    async def schedule(self, count: int, begin: int, spread_ms: int, chance: random.Random) -> None:
        """Schedule messages and notifications, half of each, due within `spread_ms`."""
        assert count // 2 <= USER_SCHEDULED_MAX * len(self._people), "too few authors"
        plans = self._plans(count, begin, spread_ms, chance)
        key = await self._town.tenant_key()
        async with aiohttp.ClientSession(self._town.url) as session:

            async def work() -> None:
                for plan in plans:
                    await self._schedule(session, key, plan)

            async with asyncio.TaskGroup() as group:
                for _ in range(REQUESTS_AT_ONCE):
                    group.create_task(work())

    def _plans(
        self, count: int, begin: int, spread_ms: int, chance: random.Random
    ) -> Iterator[Planned]:
        for number in range(count):
            person = number // 2 % len(self._people)
            at = begin + chance.randrange(spread_ms)
            yield Planned(person, number % 2 == 0, f"due-{number}", at)

    async def _schedule(self, session: aiohttp.ClientSession, key: str, plan: Planned) -> None:
        """Schedule something. If its time has passed before it is stored, choose a later one.

        A store that answers too late may have stored an earlier choice, though. Then the server
        refuses every other choice, and accepts that one again. If it accepts none, an earlier one
        has only claimed the key, and another key is needed.
        """
        choices = [plan]
        for number, choice in enumerate(choices):
            status = await self._status(session, key, choice)
            if status < 300:
                self.planned.append(choice)
                return
            if number == TRIES_MAX:
                another = plan._replace(name=f"{plan.name}-again", at=now_ms() + LATER_MS)
                await self._schedule(session, key, another)
                return
            if status == 409:
                choices += dict.fromkeys(one for one in choices if one != choice)
            else:
                choices.append(plan._replace(at=now_ms() + LATER_MS))
        raise AssertionError(f"{plan} is refused, though nothing else was tried")

    async def _status(self, session: aiohttp.ClientSession, key: str, plan: Planned) -> int:
        """Return the status of the answer, which is not 503."""
        path, body, token = self._request(plan, key)
        headers = {"Authorization": f"Bearer {token}", "Idempotency-Key": plan.name}
        while True:
            async with session.post(path, json=body, headers=headers) as answer:
                said = await answer.json()
            if answer.status != 503:
                is_late = answer.status == 400 and now_ms() >= plan.at
                assert answer.status < 300 or answer.status == 409 or is_late, said
                return answer.status

    def _request(self, plan: Planned, key: str) -> tuple[str, Json, str]:
        """Return the path and body of the request for a plan, and who makes it."""
        person, at = self._people[plan.person], rfc3339(plan.at)
        if plan.is_message:
            new = {"client_message_id": plan.name, "content": plan.name, "send_at": at}
            return f"/v1/chats/{self._chats[plan.person]}/messages", new, person.token
        audience = {"kind": "users", "uids": [person.user_id]}
        message = {"title": plan.name, "body": "It is time"}
        post = {"audience": audience, "message": message, "deliver_at": at}
        return f"/v1/tenants/{self._town.tenant}/inboxes/news/notifications", post, key

    async def arrived(self, seconds: float) -> list[Arrived]:
        """Wait until everybody has everything, and return all of it."""
        found: list[Arrived] = []
        for number, person in enumerate(self._people):
            messages = {one.name for one in self.planned if one.person == number and one.is_message}
            notes = {one.name for one in self.planned if one.person == number} - messages
            found += await until_complete(self._messages, person, messages, seconds)
            found += await until_complete(self._notifications, person, notes, seconds)
        return found

    async def _messages(self, person: Person) -> list[Arrived]:
        log = await person.log(self._chats[self._people.index(person)])
        sent = (one for one in log if one["kind"] == "message")
        return [Arrived(True, one["content"], _ms(one["created_at"])) for one in sent]

    async def _notifications(self, person: Person) -> list[Arrived]:
        found, cursor = list[Arrived](), ""
        while True:
            path = f"/v1/inboxes/{self._inbox.name}/notifications?limit={PAGE}{cursor}"
            page = await person.call("GET", path)
            found += [
                Arrived(False, one["message"]["title"], _ms(one["received_at"]))
                for one in page["data"]
            ]
            if page["next_cursor"] is None:
                return found
            cursor = f"&cursor={page['next_cursor']}"


async def until_complete(
    read: "Reader", person: Person, names: set[str], seconds: float
) -> list[Arrived]:
    """Wait until a user has everything with these names, and return what there is."""
    found: list[Arrived] = []

    async def is_complete() -> bool:
        try:
            found[:] = await read(person)
        except httpx.HTTPStatusError as error:
            if error.response.status_code != 503:
                raise
        return names <= {one.name for one in found}

    await until(
        is_complete,
        describe=lambda: f"{len(found)} of {len(names)}",
        changed=partial(_after, seconds / 1_000),
        seconds=seconds,
    )
    return found


def _after(seconds: float) -> asyncio.Event:
    """Return an event that is set after this time, so that reading leaves the store to the
    timer."""
    event = asyncio.Event()
    asyncio.get_running_loop().call_later(seconds, event.set)
    return event


class Reader(Protocol):
    """Reads all messages or notifications of a user."""

    async def __call__(self, person: Person) -> list[Arrived]: ...


async def gather_load(town: Town, people: int) -> DueLoad:
    """Make users, a group for each with one other, and an inbox. The largest load takes hours on
    DynamoDB Local."""
    lasting = TOKEN_SECONDS_MAX
    everyone = [await town.user(f"user-{number}", expires_in=lasting) for number in range(people)]
    other = await town.user("reader")
    chats = [await person.create_group("Later", [other]) for person in everyone]
    return DueLoad(town, everyone, chats, await Inbox(town).make())


def lateness(planned: Sequence[Planned], arrived: Sequence[Arrived]) -> list[float]:
    """Check that everything was delivered once and not early; return how late, in seconds."""
    due = {(one.is_message, one.name): one.at for one in planned}
    names = sorted((one.is_message, one.name) for one in arrived)
    assert names == sorted(due), "each once, and nothing else"
    late = [one.at - due[one.is_message, one.name] for one in arrived]
    assert min(late) >= 0, "none early"
    return sorted(ms / SECOND_MS for ms in late)


def histogram(late: Sequence[float]) -> str:
    """Return how many were how late, in one line."""
    counts, begin = list[str](), 0.0
    for end in (*LATE_SECONDS, float("inf")):
        count = sum(begin <= seconds < end for seconds in late)
        if count:
            counts.append(f"{begin:g}-{end:g} s: {count:,}")
        begin = end
    median, p99 = late[len(late) // 2], late[len(late) * 99 // 100]
    return f"median {median:.1f} s, p99 {p99:.1f} s, most {late[-1]:.1f} s ({'; '.join(counts)})"


def _ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * SECOND_MS)

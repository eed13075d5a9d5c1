# SPDX-License-Identifier: Apache-2.0
"""What must not be seen any more: chats whose guest was removed, redacted and expired content.

In each round a host makes a chat, posts what will be redacted and what will expire, and removes
the guest while a friend writes. A sleeper, who has no device, is told by push.
"""

import asyncio
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import httpx

from tests.faults.many.roaming import Roamer, RoamingTown, roamer_of
from tests.support.canary import canary
from tests.support.people import Person

TTL_SECONDS: Final = 1
THINK_SECONDS_MAX: Final = 1.5
AGAIN_SECONDS: Final = 0.05
RACING: Final = 3


@dataclass(slots=True, eq=False)
class Eviction:
    """One round that went through."""

    chat: str
    removed: int = 0
    """The sequence of the removal; nothing after it is for the guest."""
    hidden: list[str] = field(default_factory=list)
    """Content that nobody may be shown any more: redacted, or expired."""
    created: dict[int, str] = field(default_factory=dict)
    """When its entries were written, by sequence."""
    ended: int = 0


@dataclass(slots=True)
class Evictions:
    """The people of the rounds, their devices, and the rounds so far."""

    host: Person
    friend: Person
    guest: Person
    sleeper: Person
    devices: list[Roamer]
    guests: list[Roamer]
    """The guest's devices."""
    outsiders: list[Roamer]
    """Devices of someone who is in no chat at all."""
    chance: random.Random
    rounds: list[Eviction] = field(default_factory=list)
    is_over: bool = False

    @property
    def everyone(self) -> list[Roamer]:
        """All devices."""
        return [*self.devices, *self.guests, *self.outsiders]

    async def connect(self) -> None:
        """Bring all devices online."""
        async with asyncio.TaskGroup() as group:
            for device in self.everyone:
                group.create_task(device.connect())

    async def disconnect(self) -> None:
        """Send all devices home."""
        for device in self.everyone:
            await device.close()

    async def run(self) -> None:
        """Round after round, until told to stop; the last one is finished."""
        while not self.is_over:
            self.rounds.append(await self._round(len(self.rounds)))
            await asyncio.sleep(self.chance.uniform(0, THINK_SECONDS_MAX))

    def stop(self) -> None:
        """Begin no other round."""
        self.is_over = True

    async def read_all(self) -> None:
        """Look up in the logs where the guest was removed, and when things were written."""
        for one in self.rounds:
            for entry in await self.host.log(one.chat):
                one.created[entry["sequence"]] = entry["created_at"]
                if entry["kind"] == "removed":
                    one.removed = entry["sequence"]

    async def _round(self, number: int) -> Eviction:
        members = [person.user_id for person in (self.friend, self.guest, self.sleeper)]
        wish = {"type": "group", "name": f"Round {number}", "members": members}
        one = Eviction((await persist(self.host, "POST", "/v1/chats", wish))["chat_id"])
        secret, brief = canary(f"secret.{number}"), canary(f"brief.{number}")
        posted = await self._post(self.host, one, f"secret.{number}", secret)
        await self._post(self.host, one, f"brief.{number}", brief, ttl_seconds=TTL_SECONDS)
        path = f"/v1/chats/{one.chat}"
        await persist(self.host, "DELETE", f"{path}/messages/{posted['sequence']}")
        async with asyncio.TaskGroup() as group:
            for turn in range(RACING):
                name = f"racing.{number}.{turn}"
                group.create_task(self._post(self.friend, one, name, canary(name)))
            out = f"{path}/members/{self.guest.user_id}"
            group.create_task(persist(self.host, "DELETE", out, is_enough=(404,)))
        after = f"after.{number}"
        await self._post(self.friend, one, after, canary(after))
        one.hidden = [secret, brief]
        one.ended = time.monotonic_ns()
        return one

    async def _post(
        self, who: Person, one: Eviction, key: str, content: str, **more: Any
    ) -> dict[str, Any]:
        body = {"client_message_id": key, "content": content, **more}
        posted: dict[str, Any] = await persist(who, "POST", f"/v1/chats/{one.chat}/messages", body)
        return posted


async def persist(
    person: Person,
    method: str,
    path: str,
    body: dict[str, Any] | None = None,
    *,
    is_enough: Sequence[int] = (),
) -> Any:
    """Ask again until there is an answer for good; its JSON."""
    while True:
        try:
            answer = await person.request(method, path, body)
        except httpx.TransportError:
            await asyncio.sleep(AGAIN_SECONDS)
            continue
        if answer.status_code in (429, 503):
            await asyncio.sleep(AGAIN_SECONDS)
            continue
        if answer.status_code not in is_enough:
            answer.raise_for_status()
        return answer.json() if answer.content else None


async def gather_evictions(
    town: RoamingTown, outsider: Person, chance: random.Random, token_seconds: int
) -> Evictions:
    """Make the people; nobody is connected yet."""
    names = ("host", "friend", "guest", "sleeper")
    host, friend, guest, sleeper = [
        await town.user(name, expires_in=token_seconds) for name in names
    ]
    return Evictions(
        host=host,
        friend=friend,
        guest=guest,
        sleeper=sleeper,
        devices=[roamer_of(one, town.urls, chance) for one in (host, friend)],
        guests=[roamer_of(guest, town.urls, chance)],
        outsiders=[roamer_of(outsider, town.urls, chance)],
        chance=chance,
    )
